"""A damaged checkpoint, as a crash while saving or a bad disk leaves it: bytes changed, cut off, or missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults import damage
from simulator.faults.protocol import Effect, Fault, NoEffect, Scene

_STALE = "stale"


class TornCheckpoint(Fault, tag="torn_checkpoint", kw_only=True, frozen=True):
    """The newest file of a directory that matches is damaged for good. Proof: its bytes are others than before.

    Attributes:
        directory: where checkpoints are; a relative path is one of the parent's.
        damage: `flip_bit`, `truncate`, `zero_block`, `empty` or `remove` (see `simulator.faults.damage`), or `stale`,
            which has the file `checkpoint` name the checkpoint before the latest.
        file: pattern of the files from which the newest is taken; `*.index` with `remove` is a missing index.
        seed: of the place of the damage; drawn from the plan's if not given.
    """

    directory: str = ""
    damage: str = "flip_bit"
    file: str = "*.data-*"
    seed: int | str | None = None

    drawn: ClassVar[Mapping[str, str]] = {"seed": "0..4294967295"}
    needed: ClassVar[tuple[str, ...]] = ("directory",)

    repeats: ClassVar[tuple[str, ...]] = ("damage", "file", "offset", "length")
    cause: ClassVar[str] = "silent corruption"
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {
        "damage": ("flip_bit", "truncate", "zero_block", "empty", "remove", "stale"),
        "file": ("*.data-*", "*.index"),
    }
    may_end_run: ClassVar[bool] = True

    @property
    def lasts(self) -> bool:
        """The damage is for good."""
        return False

    def check(self) -> None:
        """The damage is known."""
        if self.damage not in (*damage.KINDS, _STALE):
            raise UsageError(f"damage={self.damage!r} is unknown; it is one of {', '.join((*damage.KINDS, _STALE))}")

    def inject(self, scene: Scene) -> Effect:
        """Damage the newest file."""
        pattern = "checkpoint" if self.damage == _STALE else self.file
        found = sorted(
            (path for path in Path(self.directory).rglob(pattern) if path.is_file()),
            key=lambda path: (path.stat().st_mtime_ns, path.name),
        )
        if not found:
            raise NoEffect(f"no file {pattern} in {self.directory}")
        try:
            done = (
                _make_stale(found[-1])
                if self.damage == _STALE
                else damage.apply(self.damage, found[-1], int(self.seed or 0))
            )
        except UsageError as error:
            raise NoEffect(str(error)) from None
        return {"damage": done.kind, "file": done.path.name, "offset": done.offset, "length": done.length}


def _make_stale(path: Path) -> damage.Damage:
    """Rewrite TensorFlow's CheckpointState, a text protocol buffer, as if the latest save had not been recorded."""
    text = path.read_text()
    names = re.findall(r'^all_model_checkpoint_paths: (".*")$', text, re.MULTILINE)
    if len(names) < 2:
        raise UsageError(f"{path} names fewer than two checkpoints; keep more than one to make it stale")
    text = re.sub(r'(?m)^model_checkpoint_path: ".*"$', lambda _: f"model_checkpoint_path: {names[-2]}", text)
    return damage.replace(path, text.replace(f"all_model_checkpoint_paths: {names[-1]}\n", "").encode())


KIND = TornCheckpoint
