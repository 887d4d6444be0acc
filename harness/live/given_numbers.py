"""Numbers that a program gives to its steps, such as a rate: they are the run's own where a step is judged."""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.deposit import Training


def changed_numbers(training: Training) -> Iterator[str]:
    """A sentence for each argument that is another number in a later step: whether that is meant is not judged."""
    if not training.steps:
        return
    reader, first = training.readers()[0][1], dict[tuple[str, int], tuple[int, float]]()
    told = set[tuple[str, int]]()
    for step in training.steps:
        try:
            evidence = reader.step(step)
        except (OSError, ValueError):  # which is said where it is judged
            continue
        if evidence is None:  # room has ended for it
            continue
        for place, number in evidence.numbers:
            key = evidence.function, place
            before, was = first.setdefault(key, (step, number))
            if number != was and key not in told:
                told.add(key)
                given = f"{was:g} in step {before} and {number:g} in step {step} as value {place + 1} of its arguments"
                yield f"{evidence.function} is given {given}; whether that is meant is not judged"
