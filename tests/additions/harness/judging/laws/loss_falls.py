"""Law: where the reference's loss is smaller at the last step than at the first, so is the run's."""

from __future__ import annotations

from harness.evidence.observed import history
from harness.evidence.trace import RunTrace
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged


class _LossFalls(Law):
    id = "loss_falls"
    order = 130
    suffices = False

    def judge(self, case: Case) -> Judgement:
        expected, observed = _change(case.reference), _change(case.run)
        if expected is None or observed is None or expected >= 0:
            return not_judged(self.id, "no loss that falls")
        finding = Finding(self.id, f"the loss changes by {observed:g}, the reference's by {expected:g}")
        return judged(self.id, 1, (finding,) if observed >= 0 else ())


def _change(run: RunTrace) -> float | None:
    losses = [float(values["loss"].array) for values in history(run, "loss").values()]
    return losses[-1] - losses[0] if len(losses) > 1 else None


LAW = _LossFalls()
