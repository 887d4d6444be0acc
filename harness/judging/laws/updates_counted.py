"""Law: under a coordinator, the updates applied are the closures scheduled, and at most those that were run again.

What a program reports has all that it has scheduled before: a closure is done when `ClusterCoordinator.join` or `fetch`
has returned, and not before.
"""

from __future__ import annotations

from harness.evidence.observed import is_integer, items, moments
from harness.evidence.trace import RunTrace, Variable
from harness.evidence.update_counters import COUNTERS, last_component
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged

__all__ = ["COUNTERS", "LAW", "counter"]


class _UpdatesCounted(Law):
    id = "updates_counted"
    order = 110
    suffices = True
    counts = True

    def judge(self, case: Case) -> Judgement:
        if unjoined := tuple(dict.fromkeys(line for client in case.run.clients for line in client.counters.unjoined)):
            return judged(self.id, 1, tuple(map(_unjoined, unjoined)))
        scheduled = [client.counters.scheduled for client in case.run.clients if client.counters.scheduled is not None]
        if not scheduled:
            return not_judged(self.id, "no update by a coordinator")
        found = counter(case.run)
        if found is None:
            names = ", ".join(COUNTERS)
            return not_judged(
                self.id,
                f"{sum(scheduled)} closures were scheduled, but no integer scalar variable named {names} was recorded",
            )
        name, applied = found
        total = sum(scheduled)
        # A closure that is taken back from a lost worker may have been applied there.
        retried = sum(client.counters.retried for client in case.run.clients)
        if total <= applied <= total + retried:
            return judged(self.id, 1, ())
        what = f"{total - applied} lost" if applied < total else f"{applied - total} too many"
        if retried:
            what += f", and {retried} {'was' if retried == 1 else 'were'} run again"
        text = f"{total} updates were scheduled, {name!r} counts {applied}: {what}"
        finding = Finding(self.id, text, None, None, "updates", name, (), applied, total, 0.0)
        return judged(self.id, 1, (finding,))


def _unjoined(line: str) -> Finding:
    text = (
        f"{line} schedules closures that are neither joined nor fetched when the program reports, so that what it "
        "reports may lack what they change. Call coordinator.join() before"
    )
    return Finding("updates_counted", text)


def counter(run: RunTrace) -> tuple[str, int] | None:
    """The counting variable and its last recorded value, the end of the run first, then the latest step."""
    for moment in reversed(moments(run)):
        found: dict[str, tuple[str, int]] = {}
        for record in moment.records:
            for name, item in (items(record, "variables") or {}).items():
                last = last_component(name)
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


LAW = _UpdatesCounted()
