"""From a watched step and what was wrong in it to the culprit."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evidence.trace import Array
from harness.evidence.watched import Watched, digest_of
from harness.judging.culprit.aligned import Aligned
from harness.judging.culprit.entering import other_examples
from harness.judging.culprit.protocol import Culprit
from harness.judging.culprit.sentences import told
from harness.judging.culprit.walk import Broken, Mode, Walk, sinks

__all__ = ["find_culprit"]


def find_culprit(
    clients: Sequence[Watched], reference: Watched, noisy: Sequence[Watched], wrong: Sequence[Array] = ()
) -> Culprit | str:
    """The operation that made a watched step wrong, or a sentence that says why none is named.

    Args:
        clients: of the run.
        reference: the default strategy's.
        noisy: the same with noise.
        wrong: reported values that are wrong.
    """
    aligned = Aligned(clients, reference, noisy)
    if not aligned.counterparts:
        return "no operation of the run was seen that the reference has too"
    if other_examples(aligned.entering):
        return "the replicas were given other examples than the reference"
    found = first_broken(aligned, wrong)
    if found is None:
        return "every value that was seen stands in its relation to the reference's"
    return told(aligned, found)


def first_broken(aligned: Aligned, wrong: Sequence[Array] = ()) -> Broken | None:
    """The operation that came first of those that made assigned or reported values wrong."""
    found: list[Broken] = []
    walks = {mode: Walk(aligned, 0, mode) for mode in Mode}
    for node, mode, tensors in sinks(aligned):
        made = walks[mode].sources(tensors)
        found += [Broken(each, mode, walks[mode].summed) for each in made] or [Broken(node, mode)]
    for tensor in _reported(aligned, wrong):
        for mode in Mode:
            if made := walks[mode].sources([tensor]):
                found += [Broken(each, mode, walks[mode].summed) for each in made]
                break
    if not found:
        return None
    first = min(found, key=lambda broken: (broken.mode is not Mode.UNRELATED, broken.node.number))
    if aligned.op(first.node).differentiates:
        # A mistake in what is differentiated is one in the gradient too; the line to mend is the former's.
        targets = [target for target in aligned.sides[0].watched.targets if target]
        if made := walks[first.mode].sources(targets):
            return Broken(made[0], first.mode, first.summed)
    return first


def _reported(aligned: Aligned, wrong: Sequence[Array]) -> list[int]:
    """The tensors that held what was reported, of several the latest; a number may have become one of Python's."""
    side = aligned.sides[0]
    found = []
    for value in wrong:
        if tensors := side.by_digest.get(digest_of(value)):
            found.append(tensors[-1])
        elif value.dtype == "float64" and not value.shape:
            import numpy as np

            single = Array.of(np.float32(value.numpy()))
            found += side.by_digest.get(digest_of(single), [])[-1:]
    return found
