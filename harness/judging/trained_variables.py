"""What is known of variables that have gradients: whether their copies agree, and whether all are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from harness.evidence.trace import RunTrace, Seen
from harness.evidence.variable_pairs import placed
from harness.evidence.witness_values import completed, seen_by_step
from harness.judging.conditions import shown
from harness.judging.laws.protocol import Case, Judgement
from harness.judging.laws.replicas_agree import LAW
from harness.judging.tolerance import ExactTolerance

_WHY = "{} gets gradients, and one device has no variable of that name to compare it with. Call it the same each time"


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


def trained_uncompared(run: RunTrace, reference: RunTrace, *, as_many: bool = False) -> str | None:
    """Why a verdict says too little: it passes over a variable that has gradients; None if it does not.

    Args:
        run: of several replicas.
        reference: of one, which follows it.
        as_many: whether only steps count after which both have as many variables, so that these have other names.
    """
    truth = seen_by_step(reference)
    both = ((seen, truth.get(step)) for step, seen in seen_by_step(run).items())
    left_out = (name for seen, other in both if seen and other for name in _unpaired(seen, other, as_many=as_many))
    return None if (name := next(left_out, None)) is None else _WHY.format(shown([repr(name)]))


def _unpaired(seen: Seen, other: Seen, *, as_many: bool) -> Iterator[str]:
    """The names of what the other has not as many of. Of several that share a name it is known by its form."""
    ours, theirs = (Counter(place[0] for place, _ in placed(one.variables or ())) for one in (seen, other))
    if theirs and not (as_many and ours.total() != theirs.total()):
        names = Counter(name for name, _, _ in ours.elements())
        trained = {(each.name.partition("#")[0], each.parts[0].dtype, each.parts[0].shape) for each in seen.gradients}
        alone = {name for name, _, _ in trained if names[name] == 1}  # of a large one only a part is kept
        yield from (form[0] for form in ours if theirs[form] != ours[form] and (form in trained or form[0] in alone))
