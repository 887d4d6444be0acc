"""Which steps of a training the judge's script makes in its own first ones: each where it calls the same function.

A training may have two functions in turns, as one of a generator and a discriminator has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrangement:
    """What the judge's script is given.

    Attributes:
        steps: the number of the training's step that each of its own is set to. Some only fill a place.
        places: by step that is judged so its place among them, from 1.
        functions: by step what was called in it.
    """

    steps: tuple[int, ...]
    places: Mapping[int, int]
    functions: Mapping[int, str]

    def fits(self, order: Sequence[str]) -> bool:
        """Whether the script has called in these places what it should have, as far as it has come to them."""
        called = {step: order[place - 1] for step, place in self.places.items() if place <= len(order)}
        return all(self.functions[step] in ("", function) for step, function in called.items())


def arranged(functions: Mapping[int, str], order: Sequence[str], most: int) -> Arrangement:
    """Steps where their functions are called. Those without a place are left out, but not all of them.

    Args:
        functions: by step that is to be judged what was called in it.
        order: what the script calls in its first steps; empty where that is not known yet.
        most: steps that the script may make. Where none has a place it makes so many, so that more is known.
    """
    waiting, found, places = dict(functions), list[int](), dict[int, int]()
    first = next(iter(functions))
    for called in order:
        step = next((each for each, function in waiting.items() if function == called), None)
        if step is not None:
            del waiting[step]
            places[step] = len(found) + 1
        found.append(first if step is None else step)
    if places:
        return Arrangement(tuple(found[: max(places.values())]), places, functions)
    filled = [first] * (most - len(functions)) if order else []
    in_turn = {step: place for place, step in enumerate(functions, 1)}
    return Arrangement((*functions, *filled), in_turn, functions)
