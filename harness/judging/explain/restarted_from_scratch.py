"""Rule: after the interruption the training began again with fresh variables, and what had been done was lost."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._initial_state import restored
from harness.judging.explain._prediction import Check, Predicting, evident, judged
from harness.judging.explain._resumption import Resumption, resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

RESTARTED_FROM_SCRATCH = "restarted_from_scratch"
_CURE = (
    "Restore before the first step: `status = checkpoint.restore(manager.latest_checkpoint)` with a "
    "tf.train.CheckpointManager on record.directory, then begin the loop after the restored step. restore(None) does "
    "nothing and says nothing, so stop where latest_checkpoint is None although there are files; "
    "status.assert_existing_objects_matched() finds variables that the checkpoint does not have. In fit, build the "
    "model and pass keras.callbacks.BackupAndRestore."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    if found is None:
        return
    if found.first > found.begin:
        said = (
            f"{found.where}, and after its first step it has the values of the reference's step {found.begin}, not "
            f"{found.first}{_sample(found)}: variables are fresh; {found.found.kept}."
        )
        yield judged(RESTARTED_FROM_SCRATCH, said, _as_in_step_1(found))
    elif not any(view.wrong(what, found.first) for what in ("loss", "variables")) and not restored(found):
        lost = found.found.at_step
        steps, kept = "epochs" if found.found.in_epochs else "steps", found.found.kept
        yield evident(
            RESTARTED_FROM_SCRATCH,
            f"Killed after step {lost}, the run recorded all {found.found.recorded} {steps} again, and restored no "
            f"variable: the work of {lost} steps was lost; {kept}.",
        )


def _as_in_step_1(found: Resumption) -> list[Check]:
    view, first, begin = found.view, found.first, found.begin
    checks = [
        Check(
            view.value("variables", first, name),
            found.known(begin, name),
            view.truth("variables", first, name),
            view.bound("variables", name, begin),
            view.run["variables"][first][name].dtype,
        )
        for name in found.floats
    ]
    if first in view.steps("loss") and begin in found.losses:
        loss = found.losses[begin]["loss"]
        observed, truth = view.value("loss", first, "loss"), view.truth("loss", first, "loss")
        checks.append(Check(observed, loss.array, truth, view.bound("loss", "loss", begin), loss.dtype))
    return checks


def _sample(found: Resumption) -> str:
    """The numbers of one value, the first variable's first element or the loss."""
    view, first, begin = found.view, found.first, found.begin
    if found.floats:
        name = found.floats[0]
        observed = view.value("variables", first, name).flat
        return f" ({name!r} begins with {observed[0]:.6g}, in the reference {found.known(begin, name).flat[0]:.6g})"
    if first in view.steps("loss") and begin in found.losses:
        observed = view.value("loss", first, "loss").flat
        return f" (loss {observed[0]:.6g}, in the reference {found.losses[begin]['loss'].array.flat[0]:.6g})"
    return ""


RULES: tuple[Rule, ...] = (Predicting(RESTARTED_FROM_SCRATCH, 1, _attempts, cure=_CURE),)
