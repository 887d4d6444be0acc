"""What is not judged of a deposit: by files that are missing or damaged, by what steps are given, and by restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.errors import Abstained
from harness.evidence.deposit import DepositJob, Training, has_ended, trainings, unknown
from harness.evidence.digests import EXAMPLES, VARIABLES, damaged_from
from harness.evidence.steps import loose_steps
from harness.live.restarts import unclear

_TELL = {
    VARIABLES: "whether copies of variables agree where no step is left",
    EXAMPLES: "whether a batch comes again too soon",
}


def doubts_of(deposit: Path) -> Iterator[str]:
    """A sentence for each."""
    for path in unknown(deposit):
        yield f"{path} is missing or damaged: the steps beside it are not judged"
    earlier = list[Training]()
    for training in trainings(deposit):
        for folder, job in training.folders.items():
            yield from _of_process(folder, job)
        yield from _changed_numbers(training)
        with contextlib.suppress(Abstained, OSError, ValueError):  # a step is gone or damaged, which is said of that
            yield from unclear(earlier, training)
        earlier.append(training)


def _of_process(folder: Path, job: DepositJob) -> Iterator[str]:
    is_over = has_ended(folder) or job.is_gone
    for of, what in _TELL.items():
        try:
            step = damaged_from(folder, of, whole=has_ended(folder))
        except FileNotFoundError:
            # They are there before the second step is.
            if max(loose_steps(folder), default=0) > (0 if is_over else 1):
                yield f"{folder / of} is missing: it is not judged {what}"
        else:
            if step == 1:
                yield f"{folder / of} is damaged, or an earlier Lockstep has left it: it is not judged {what}"
            elif step is not None:
                yield f"{folder / of} is damaged from step {step} on: from there it is not judged {what}"


def _changed_numbers(training: Training) -> Iterator[str]:
    """A sentence for each argument, such as a rate, that is another number in a later step: the judge has the run's."""
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
