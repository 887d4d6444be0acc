"""Starts that have other variables than the judge's script, or call them otherwise, as those that load a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.evidence.arrays import Array
from harness.evidence.loaded_names import names_of_built, with_names
from harness.evidence.trace import ClientTrace
from harness.live.composition import seen_of
from harness.live.recomputing import RecomputedSteps


def unmatched(steps: RecomputedSteps, here: ClientTrace) -> Iterator[str]:
    """The variables with gradients that the judge's script does not have under these names.

    Where it is known that a model was loaded, it needs all variables of the training: an optimizer that was made anew
    is no other one's.

    Args:
        steps: that were computed.
        here: what that has left.

    Raises:
        Abstained: one of them is not there any more.
        OSError: it is removed in this moment.
        ValueError: it is damaged.
    """
    known = {name for name, _ in _of_script(here)}
    reader = steps.training.readers()[0][1]
    for number in steps.chosen.places:
        seen = seen_of(reader, number, steps.names)
        trained = {each.name for each in seen.gradients}
        left = (each.name for each in seen.variables or () if steps.names or each.name in trained)
        yield from (name for name in left if name not in known)


def made_anew(steps: RecomputedSteps, here: ClientTrace) -> Iterator[str]:
    """The variables that steps of a later start change and the judge's script does not have, as of a new optimizer.

    Args:
        steps: that were computed, of which something is wrong: that may follow from these.
        here: as of `unmatched`, which tells what is raised.
    """
    known = {name for name, _ in _of_script(here)}
    reader = steps.training.readers()[0][1]
    for number in steps.chosen.places if steps.training.number else ():
        step, seen = reader.step(number), seen_of(reader, number, steps.names)
        before = with_names(() if step is None else step.before, steps.names)
        begun = {each.name: Array.of(reader.array(each.copies[0])) for each in before if each.name not in known}
        left = (each for each in seen.variables or () if each.name not in known)
        yield from (each.name for each in left if begun.get(each.name) != each.copies[0])


def names_of_script(steps: RecomputedSteps, here: ClientTrace) -> dict[str, str]:
    """What the judge's script calls the variables of the first of these steps that is judged; as of `unmatched`."""
    seen = seen_of(steps.training.readers()[0][1], min(steps.chosen.places))
    left = ((each.name, (each.copies[0].dtype, each.copies[0].shape)) for each in seen.variables or ())
    return names_of_built(list(left), list(_of_script(here)))


def _of_script(here: ClientTrace) -> Iterable[tuple[str, tuple[str, tuple[int, ...]]]]:
    begun = () if here.start is None else here.start.variables
    later = (each for seen in here.seen for each in seen.variables or ())
    found = {each.name: (each.copies[0].dtype, each.copies[0].shape) for each in (*later, *begun)}
    return found.items()
