"""What is wrong whatever one device would compute: replicas that hold other values of what they train together."""

from __future__ import annotations

from dataclasses import replace

from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import completed
from harness.judging.laws.protocol import Case, Judgement
from harness.judging.laws.replicas_agree import LAW
from harness.judging.tolerance import ExactTolerance


def trained_copies_agree(run: RunTrace) -> Judgement:
    """Whether all copies of each variable are equal that has a gradient; a state of its own a replica may have.

    Args:
        run: of a script, whose steps are those that the harness saw.
    """
    (seen,) = completed((run,)).traces
    trained = {
        part.shape
        for client in run.clients
        for step in client.seen
        for gradient in step.gradients
        for part in gradient.parts
    }
    shapes = {
        variable.name: variable.copies[0].shape
        for client in seen.clients
        for step in client.steps
        for variable in step.variables or ()
    }
    judged = LAW.judge(Case(seen, seen, ExactTolerance()))
    findings = tuple(found for found in judged.findings if shapes.get(found.variable or "") in trained)
    if judged.status != "broken":
        return judged
    return replace(judged, status="broken" if findings else "held", findings=findings)
