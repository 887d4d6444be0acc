"""Law: under a coordinator, the updates applied to the variables are exactly the closures scheduled."""

from __future__ import annotations

from dataclasses import dataclass

from harness.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.observed import is_integer, items, moments
from harness.trace import RunTrace, Variable

__all__ = ["COUNTERS", "LAW", "counter"]

COUNTERS = ("updates", "global_step", "iterations", "iteration", "iter")
"""Last name components of a variable that counts updates, most explicit first; Keras 3 and tf_keras write `iteration`,
legacy tf_keras optimizers `iter`.
"""


@dataclass(frozen=True)
class _UpdatesCounted:
    id: str = "updates_counted"
    order: int = 110

    def judge(self, case: Case) -> Judgement:
        scheduled = [client.counters.scheduled for client in case.run.clients if client.counters.scheduled is not None]
        if not scheduled:
            return not_judged(self.id, "no coordinator")
        found = counter(case.run)
        if found is None:
            names = ", ".join(COUNTERS)
            return not_judged(
                self.id,
                f"{sum(scheduled)} closures were scheduled, but no integer scalar variable named {names} was recorded",
            )
        name, applied = found
        total = sum(scheduled)
        if applied == total:
            return judged(self.id, 1, ())
        what = f"{total - applied} lost" if applied < total else f"{applied - total} too many"
        text = f"{total} updates were scheduled, {name!r} counts {applied}: {what}"
        finding = Finding(self.id, text, None, None, "updates", name, (), applied, total, 0.0)
        return judged(self.id, 1, (finding,))


def counter(run: RunTrace) -> tuple[str, int] | None:
    """The counting variable and its last recorded value, the end of the run first, then the latest step."""
    for moment in reversed(moments(run)):
        found: dict[str, tuple[str, int]] = {}
        for record in moment.records:
            for name, item in (items(record, "variables") or {}).items():
                last = name.rpartition("/")[2].partition(":")[0].partition("#")[0]
                if (
                    last in COUNTERS
                    and isinstance(item, Variable)
                    and is_integer(item.value.dtype)
                    and item.value.shape == ()
                ):
                    found.setdefault(last, (name, int(item.value.numpy())))
        for key in COUNTERS:
            if key in found:
                return found[key]
    return None


LAW: Law = _UpdatesCounted()
