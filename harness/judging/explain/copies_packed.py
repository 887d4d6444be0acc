"""Rule: the devices of a mesh were given different copies of a tensor that is laid out as one."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.explain.protocol import Case, Explanation, Rule
from harness.judging.laws.clients_agree import LAW as CLIENTS
from harness.judging.laws.replicas_agree import LAW as REPLICAS
from harness.subject.strategies import kind_of

COPIES_PACKED = "copies_packed"

_CURE = (
    "dtensor.pack and dtensor.copy_to_mesh believe what they are given, and numpy() shows the first device's copy. "
    "Sum what the devices have before it is packed, or compute with whole tensors: DTensor adds the all-reduce itself."
)


@dataclass(frozen=True)
class _Packed:
    """No operation on whole tensors makes copies that differ: only what is made for each device by itself does.

    What is computed of such copies may be that of the first device on all of them.
    """

    id: str = COPIES_PACKED
    priority: int = 20

    def explain(self, case: Case) -> Explanation | None:
        """Claim where copies along an axis differ."""
        kind = kind_of(case.run.header.strategy)
        laws = (REPLICAS, CLIENTS) if kind is not None and kind.on_mesh else ()
        found = [each for law in laws for each in law.judge(case).findings if each.observable != "steps"]
        if not found:
            return self._of_lines(case)
        first = min((each.step for each in found if each.step is not None), default=None)
        names = sorted({repr(each.variable or each.observable) for each in found if each.step == first})
        when = "at the end" if first is None else f"from step {first} on"
        return Explanation(self.id, f"The devices have different copies of {', '.join(names)} {when}.", _CURE)

    def _of_lines(self, case: Case) -> Explanation | None:
        """By the lines that were seen to pack copies that differ."""
        packed = [each for client in case.run.clients for each in client.counters.packed]
        if not packed:
            return None
        line, step = min(packed, key=lambda each: each[1])
        text = f"At step {step} {line} gives the devices different copies of what is laid out as one tensor."
        return Explanation(self.id, text, _CURE)


RULES: tuple[Rule, ...] = (_Packed(),)
