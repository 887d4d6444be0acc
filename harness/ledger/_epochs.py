"""Where the epochs of a run end, if it does not say so itself."""

from __future__ import annotations

from harness.evidence.trace import RunTrace

__all__ = ["derived_epochs", "epochs_of_steps"]


def epochs_of_steps(run: RunTrace, reference: RunTrace | None) -> dict[int, int] | None:
    """The epoch of each step of a run that does not number all of its epochs, by the reference; None if unknown."""
    if reference is None:
        return None
    steps = [step for step in reference.clients[0].steps if step.examples is not None]
    given = {step.index: step.epoch for step in steps if step.epoch is not None}
    known = given if given and len(given) == len(steps) else _derived_once(reference)
    if known is None:
        return None
    last = max(known.values(), default=1)
    indices = sorted({step.index for client in run.clients for step in client.steps})
    return {index: known.get(index, last) for index in indices}


_latest: list[tuple[RunTrace, dict[int, int] | None]] = []


def _derived_once(reference: RunTrace) -> dict[int, int] | None:
    """Derived epochs; those of the latest reference are kept, because its own ledger and the run's both need them."""
    if not _latest or _latest[0][0] is not reference:
        _latest[:] = [(reference, derived_epochs(reference))]
    return _latest[0][1]


def derived_epochs(reference: RunTrace) -> dict[int, int] | None:
    """Epochs from 1, by step, of a reference whose steps fall into parts that hold the same examples, each once.

    A new part begins at the first step with an example that the part before it has had. None if the parts differ, as
    they do where a batch holds examples of two epochs or where each epoch drops another tail.
    """
    found: dict[int, int] = {}
    parts: list[set[int]] = [set()]
    for step in reference.clients[0].steps:
        batch = [key for shard in step.examples or () for key in shard]
        fresh = set(batch)
        if len(fresh) < len(batch):
            return None
        if not parts[-1].isdisjoint(fresh):
            parts.append(set())
        parts[-1] |= fresh
        found[step.index] = len(parts)
    return found if all(part == parts[0] for part in parts) else None
