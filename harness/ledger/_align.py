"""A run's ledger and its reference's with the same step numbers, and where the two differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from harness.evidence.observed import moments, per_epoch
from harness.evidence.trace import RunTrace
from harness.ledger._ledger import Ledger
from harness.ledger._multiset import Ints, Mask, differing


@dataclass(frozen=True, eq=False)
class Differences:
    """Examples that the run did not consume as often as the reference, by step or epoch; columns of one length."""

    group: Ints
    id: Ints
    observed: Ints
    expected: Ints

    def __len__(self) -> int:
        return len(self.id)

    def groups(self) -> list[int]:
        """The steps or epochs that differ, ascending."""
        return sorted(set(self.group.tolist()))

    def of(self, group: int) -> Differences:
        """Those of one step or epoch."""
        return self.where(self.group == group)

    def where(self, mask: Mask) -> Differences:
        """Those that a mask of booleans selects."""
        return Differences(self.group[mask], self.id[mask], self.observed[mask], self.expected[mask])


@dataclass(frozen=True, eq=False)
class Aligned:
    """Two ledgers whose steps have the same numbers.

    `asynchronous` is true when a coordinator's chief reported what its workers consumed: then a step of the run holds
    whatever was finished by then, and corresponds to no step of the reference.
    """

    run: Ledger
    reference: Ledger
    common: tuple[int, ...]
    asynchronous: bool

    @property
    def epochs(self) -> list[int]:
        """The epochs of either."""
        return sorted({*self.run.epochs(), *self.reference.epochs()})

    @cached_property
    def by_step(self) -> Differences:
        """At the steps that both recorded."""
        import numpy as np

        halves = []
        for ledger in (self.run, self.reference):
            part = ledger.only(np.isin(ledger.batches.step, np.asarray(self.common, np.int64)))
            halves.append((part.step, part.id))
        return Differences(*differing(halves[0], halves[1]))

    @cached_property
    def by_epoch(self) -> Differences:
        """In each epoch, whatever the steps."""
        return Differences(*differing((self.run.epoch, self.run.id), (self.reference.epoch, self.reference.id)))

    @cached_property
    def overall(self) -> Differences:
        """In the whole run."""
        import numpy as np

        if self.common == self.run.reached == self.reference.reached and not len(self.by_step):
            return self.by_step
        halves = [(np.zeros(len(ledger), np.int64), ledger.id) for ledger in (self.run, self.reference)]
        return Differences(*differing(halves[0], halves[1]))

    def table(self) -> str:
        """The run's table, its steps next to the reference's unless they correspond to none."""
        return self.run.table(None if self.asynchronous else self.reference)


def aligned(run: RunTrace, reference: RunTrace) -> Aligned:
    """Both ledgers; where the run recorded only the ends of epochs, the reference's steps of an epoch are one."""
    import numpy as np

    ours, truth = Ledger.of(run, reference), Ledger.of(reference, reference)
    reached = [moment.step for moment in moments(run, aligned_to=reference) if moment.step is not None]
    if per_epoch(run, reference):
        own = np.unique(ours.batches.step)
        numbers = np.asarray(reached, np.int64)
        ours = _with_steps(
            ours, numbers[np.minimum(np.searchsorted(own, ours.batches.step), len(numbers) - 1)], reached
        )
        ends = np.asarray([*reached, max([*truth.reached, *reached], default=0) + 1], np.int64)
        truth = _with_steps(truth, ends[np.searchsorted(ends[:-1], truth.batches.step)], reached)
    known = set(truth.reached)
    common = tuple(step for step in reached if step in known)
    return Aligned(ours, truth, common, any(step.consumers is not None for one in run.clients for step in one.steps))


def _with_steps(ledger: Ledger, steps: Ints, reached: list[int]) -> Ledger:
    return replace(ledger, batches=replace(ledger.batches, step=steps), reached=tuple(reached))
