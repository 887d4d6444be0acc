"""Law: the run is given what its program made, and nothing that TensorFlow has written into the program's memory."""

from __future__ import annotations

from harness.evidence.witness_values import overwritten
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged


class _DataIntact(Law):
    id = "data_intact"
    order = 42
    suffices = False

    def concerns(self, case: Case) -> bool:
        return bool(overwritten((case.reference, case.run)))

    def judge(self, case: Case) -> Judgement:
        """What was written over does harm where the run was then given other examples than one device."""
        others = case.reference.clients[0].counters.others
        if not others:
            return not_judged(self.id, "arrays were written over of which nobody has read again")
        (text, *_) = overwritten((case.reference, case.run))
        said = f"{text}, and {others} steps were given other examples than one device"
        return judged(self.id, 1, (Finding(self.id, said, observable="examples"),))


LAW = _DataIntact()
