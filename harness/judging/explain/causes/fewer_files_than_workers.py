"""Cause: the input is split by files, and there are fewer of them than workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Checked, Inputs, Ints


@dataclass(frozen=True)
class _FewerFilesThanWorkers:
    id: str = "fewer_files_than_workers"
    priority: int = 26
    kinds: tuple[str, ...] = ()
    what: str = "the input is split by files, and there are fewer of them than workers"

    def predictions(self, inputs: Inputs) -> Iterable[Checked]:
        counts = [len(ids) for ids in inputs.whole()]
        files = sum(count > 0 for count in counts)
        if not 0 < files < len(counts) or any(counts[files:]) or len(inputs.truth[0]) < len(counts):
            return
        consumed = ", ".join(f"{task} {count}" for task, count in zip(inputs.workers, counts, strict=True))
        who, what = ("worker 0", "1 file is") if files == 1 else (f"the first {files}", f"{files} files are")
        text = (
            f"{who} of {len(counts)} workers consumed everything and the others nothing ({consumed}), as when {what} "
            f"split over {len(counts)} workers. Write at least as many files as there are workers, a multiple of them, "
            "or shard by examples: tf.data.experimental.AutoShardPolicy.DATA, or ds.shard after the files have been "
            "read."
        )
        yield Checked(text, _split(inputs, files))


def _split(inputs: Inputs, files: int) -> bool:
    """Whether the workers that read anything share the data set: disjoint, and complete or from the start on."""
    import numpy as np

    for number, parts in enumerate(zip(*inputs.read[:files], strict=True)):
        truth = inputs.truth[number] if len(inputs.read[0]) == len(inputs.truth) else np.concatenate(inputs.truth)
        read = np.concatenate(parts)
        if not np.array_equal(np.sort(read), np.sort(truth)) and not all(_forward(part, truth) for part in parts):
            return False
        if len(inputs.truth) == 1 and len(np.unique(read)) < len(read):
            return False
    return True


def _forward(part: Ints, truth: Ints) -> bool:
    """Whether a part is a piece of the reference's order without gaps."""
    import numpy as np

    starts: list[int] = np.flatnonzero(truth == part[0]).tolist() if len(part) else []
    return any(np.array_equal(part, truth[at : at + len(part)]) for at in starts)


CAUSE: Cause = _FewerFilesThanWorkers()
