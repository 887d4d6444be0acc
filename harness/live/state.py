"""Whether the copies of variables agree: at every step by digests, and at those that were left element by element."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.comparing import differing_bits
from harness.evidence.deposit import DepositJob, Training
from harness.evidence.digests import Digest, digests_of
from harness.evidence.observed import unique_names
from harness.evidence.trace import Array, Seen, is_statistics
from harness.live.findings import StepFinding

if TYPE_CHECKING:
    import numpy as np

AGREE = "replicas_agree"
_FAR = 10.0
"""So much farther than the other copy is one from what both had before, which then is the wrong one."""

_Copies = dict[tuple[str, int], list["np.ndarray[Any, Any]"]]


class Divergence(msgspec.Struct, frozen=True):
    """Where copies that had agreed came to differ.

    Attributes:
        step: in which, or before which.
        between: whether it was before the step, in memory.
        replicas: whose copies have changed, or are in the minority; none where nobody knows.
    """

    step: int
    between: bool
    replicas: tuple[str, ...]

    @property
    def replica(self) -> str | None:
        """Whose fault it is, if it is that of one."""
        return self.replicas[0] if len(self.replicas) == 1 else None

    @property
    def finding(self) -> StepFinding:
        """What is known without the state of a later step."""
        where = f"between steps {self.step - 1} and {self.step}" if self.between else f"in step {self.step}"
        return StepFinding("state", AGREE, f"copies of variables came to differ {where}", replica=self.replica)

    def is_before(self, step: int) -> bool:
        """Whether a step begins after it."""
        return self.step <= step if self.between else self.step < step


def replicas_of(job: DepositJob) -> list[str]:
    """What the replicas of a process are called."""
    count = job.header.local_replicas
    return [job.header.task] if count == 1 else [f"{job.header.task} replica {number}" for number in range(count)]


def divergences(training: Training) -> Iterator[Divergence]:
    """Where copies came to differ, as far as digests were left."""
    names = [name for job in training.folders.values() for name in replicas_of(job)]
    agreed, before = True, list[Digest]()
    for found in digests_of(training.folders):
        step, begun, left = found[0].step, _all(found, "begin"), _all(found, "end")
        if agreed and not _agree(begun):
            earlier = _all(before, "end") if _kinds(before) == _kinds(found) else ()
            if before and not _all(before, "end"):  # nobody knows whether it was in the step or after it
                yield Divergence(before[0].step, between=False, replicas=_odd(names, begun))
            else:
                changed = [one != other for one, other in zip(earlier, begun, strict=False)]
                known = _those(names, changed) if any(changed) and not all(changed) else _odd(names, begun)
                yield Divergence(step, between=True, replicas=known)
        elif _agree(begun) and not _agree(left):
            yield Divergence(step, between=False, replicas=_odd(names, left))
        agreed, before = _agree(left or begun), list(found)


def _all(digests: Sequence[Digest], which: str) -> tuple[int, ...]:
    """Of all processes; none if one of them has none."""
    every = [getattr(digest, which) for digest in digests]
    return tuple(each for one in every for each in one) if all(every) else ()


def _kinds(digests: Sequence[Digest]) -> list[int]:
    return [digest.kind for digest in digests]


def begun_apart(
    training: Training, step: int, divergence: Divergence | None = None, replica: str | None = None
) -> list[StepFinding]:
    """The variables whose copies differ when a step begins.

    Args:
        training: whose step it is.
        step: was left.
        divergence: where they came to differ, if that is known.
        replica: whose copies are the wrong ones, if that is known.
    """
    names = [name for job in training.folders.values() for name in replicas_of(job)]
    found, before = [], None
    for (name, number), copies in _held(training, step).items():
        if len({copy.tobytes() for copy in copies}) == 1:
            continue
        if before is None:
            agreed = (
                each for each in training.steps if each < step and not (divergence and divergence.is_before(each))
            )
            before = _held(training, max(agreed, default=step))
        wrong = replica or _wrong(names, copies, before.get((name, number), []))
        place = names.index(wrong) if wrong in names else 1
        other = copies[1] if place == 0 else copies[0]
        difference = differing_bits(Array.of(copies[place]), Array.of(other))
        if difference is None:  # it is another one of several that differs
            continue
        found.append(
            StepFinding(
                "state",
                AGREE,
                f"copies of {name} differ when step {step} begins: {difference.text}",
                name,
                index=difference.index,
                observed=difference.observed,
                expected=difference.expected,
                replica=wrong or " or ".join(names),
            )
        )
    return found


def begun_with_nan(training: Training, step: int, trained: Collection[str]) -> str | None:
    """That a variable holds NaN when a step begins, or a trained one infinity, of which nothing can follow.

    Args:
        training: whose step it is.
        step: was left.
        trained: the names of variables that have gradients. Others may begin with infinity, such as the least loss.
    """
    import numpy as np

    for (name, _), (copy, *_) in _held(training, step).items():
        if copy.dtype.kind == "f" and np.isnan(copy).any():
            return f"{name} holds nan when the step begins"
        if copy.dtype.kind == "f" and name in trained and np.isinf(copy).any():
            return f"{name} holds infinity when the step begins"
    return None


def left_apart(jobs: Sequence[tuple[DepositJob, Seen]], computed: Seen, again: Seen | None = None) -> str | None:
    """The replica whose copies are the wrong ones after a step, if they are much farther from what one device computes.

    Else it is the one whose copies alone are not those that as many replicas leave, to the bit.

    Args:
        jobs: each process, and what was seen of the step in it.
        computed: what one device has made of the step.
        again: what as many replicas have made of it on the same machine.
    """
    names = [replica for job, _ in jobs for replica in replicas_of(job)]
    should = _left(computed, 1)
    every = [_left(seen, job.header.local_replicas) for job, seen in jobs]
    for name in should:
        copies = [copy for left in every for copy in left.get(name, [])]
        apart = len({copy.tobytes() for copy in copies}) > 1 and not is_statistics(name)
        if apart and len(copies) == len(names) and (wrong := _wrong(names, copies, should[name])) is not None:
            return wrong
        anew = [] if again is None else _left(again, len(names)).get(name, [])
        if apart and len(copies) == len(names) == len(anew):
            unlike = [one.tobytes() != other.tobytes() for one, other in zip(copies, anew, strict=True)]
            if len(wrong_ones := _those(names, unlike)) == 1:
                return wrong_ones[0]
    return None


def _left(seen: Seen, count: int) -> dict[str, list[np.ndarray[Any, Any]]]:
    """The copies of each variable after a step in a process with so many replicas, where all or none differ."""
    left = seen.variables or ()
    found = zip(unique_names([each.name for each in left]), left, strict=True)
    arrays = {name: [copy.numpy() for copy in each.copies] for name, each in found}
    return {name: copies * count if len(copies) == 1 else copies for name, copies in arrays.items()}


def _held(training: Training, step: int) -> _Copies:
    """The copies with which a step begins, by variable; of each process as many as it has replicas."""
    found: _Copies = {}
    for job, reader in training.readers():
        evidence = reader.step(step)
        for held in () if evidence is None else evidence.before:
            if held.how in ("copies", "own") and not (held.is_local or is_statistics(held.name)):
                copies = [reader.array(stored) for stored in held.copies]
                whole = copies * job.header.local_replicas if held.how == "copies" else copies
                found.setdefault((held.name, held.number), []).extend(whole)
    return found


def _wrong(
    names: Sequence[str], copies: Sequence[np.ndarray[Any, Any]], before: Sequence[np.ndarray[Any, Any]]
) -> str | None:
    """The replica whose copy is in the minority, or much farther than the other from what both had before."""
    import numpy as np

    if odd := _odd(names, [copy.tobytes() for copy in copies]):
        return odd[0]
    if len(copies) != 2 or not before or before[0].shape != copies[0].shape or copies[0].dtype.kind != "f":
        return None
    differing = copies[0] != copies[1]
    with np.errstate(all="ignore"):
        apart = [np.abs(np.float64(copy[differing]) - np.float64(before[0][differing])).max() for copy in copies]
    far = [float(each) if np.isfinite(each) else math.inf for each in apart]
    near, most = sorted((0, 1), key=far.__getitem__)
    return names[most] if far[most] > _FAR * far[near] else None


def _agree(values: Sequence[object]) -> bool:
    return len(set(values)) <= 1


def _odd(names: Sequence[str], values: Sequence[object]) -> tuple[str, ...]:
    (most, count), *_ = Counter(values).most_common(1)
    return _those(names, [each != most for each in values]) if 2 * count > len(values) else ()


def _those(names: Sequence[str], chosen: Sequence[bool]) -> tuple[str, ...]:
    return tuple(name for name, is_one in zip(names, chosen, strict=False) if is_one)
