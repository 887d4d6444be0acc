"""Rule: TensorFlow gave the old value of a variable that the step had written; the program is right."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.explain.protocol import Case, Explanation, Rule

STALE_READS = "stale_reads"
VARIABLES = (("DTENSOR_ENABLE_COMBINE_ALL_REDUCES_OPTIMIZATION", "0"),)
"""Of the environment, by which TensorFlow leaves out what is wrong."""

_CURE = (
    "Set DTENSOR_ENABLE_COMBINE_ALL_REDUCES_OPTIMIZATION=0 before TensorFlow is imported, or compute with the value "
    "that was assigned and do not read the variable again. See tf-dtensor-stale-reads among the known issues."
)


def stale_reads() -> Explanation:
    """What is said where the same program was wrong, and is right in that environment."""
    text = (
        "The same program is consistent where TensorFlow does not combine all-reduces. Combining them moves the writes "
        "of variables behind their reads, as of the momentum that an update reads."
    )
    return Explanation(STALE_READS, text, _CURE)


@dataclass(frozen=True)
class _Rerun:
    """A model that no single run shows: `harness.attempts` asks for a rerun, and says so by `stale_reads`."""

    id: str = STALE_READS
    priority: int = 1

    def explain(self, case: Case) -> Explanation | None:
        """Nothing, since the numbers of a lag may come from the program as well."""
        return None


RULES: tuple[Rule, ...] = (_Rerun(),)
