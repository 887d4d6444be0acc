"""Which steps of a training the judge's script makes in its own first ones: each where it calls the same function.

A training may have two functions in turns, as one of a generator and a discriminator has. What the first call of a
function makes, such as the slots of an optimizer, cannot be set before it. So only a step that has made it is judged
there, and otherwise that call fills a place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrangement:
    """What the judge's script is given.

    Attributes:
        steps: the number of the training's step that each of its own is set to. Some only fill a place.
        places: by step that is judged so its place among them, from 1.
        functions: by step what was called in it.
        making: those in which variables were made.
    """

    steps: tuple[int, ...]
    places: Mapping[int, int]
    functions: Mapping[int, str]
    making: Collection[int]

    def misplaced(self, order: Sequence[str]) -> Iterator[int]:
        """Those in whose places the script has called something else, or the same for the first time.

        Args:
            order: what it has called in its first steps, as far as it came.
        """
        for step, place in self.places.items():
            if place <= len(order):
                called = order[place - 1]
                is_first = called not in order[: place - 1] and step not in self.making
                if is_first or self.functions[step] not in ("", called):
                    yield step


def arranged(
    functions: Mapping[int, str],
    order: Sequence[str],
    most: int,
    making: Collection[int] = (),
    fillers: Mapping[str, int] | None = None,
) -> Arrangement:
    """Steps where their functions are called. Those without a place are left out, but not all of them.

    Args:
        functions: by step that is to be judged what was called in it.
        order: what the script calls in its first steps; empty where that is not known yet.
        most: steps that the script makes where none of them has a place, so that more is known.
        making: as of `Arrangement`.
        fillers: by function a step in which it was called, whose examples it can be given where it only fills a place.
    """
    waiting, found, places = dict(functions), list[int](), dict[int, int]()
    first = next(iter(functions))
    for place, called in enumerate(order, 1):
        has_been = called in order[: place - 1]
        fitting = (step for step, function in waiting.items() if function == called and (has_been or step in making))
        step = next(fitting, None)
        if step is not None:
            del waiting[step]
            places[step] = place
        found.append((fillers or {}).get(called, first) if step is None else step)
    if places:
        return Arrangement(tuple(found[: max(places.values())]), places, functions, making)
    before = 0 if first in making else 1
    steps = (*[first] * before, *functions)
    after = (first,) * (most - len(steps) if order else 0)
    in_turn = {step: place for place, step in enumerate(functions, before + 1)}
    return Arrangement((*steps, *after), in_turn, functions, making)
