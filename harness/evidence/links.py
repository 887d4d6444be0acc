"""What the links between the tasks of a run carried: the proof that it ran as several tasks.

The bytes that a strategy needs to be set up say nothing of the program, so they are counted when every client has built
its strategy, and again at the end.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

BUILT = "strategy_built"
"""The gate at which a client stands when it has built its strategy."""

_FILE = "links.json"


class LinkBytes(msgspec.Struct, frozen=True):
    """One directed link.

    Attributes:
        src: the task that sent.
        dst: the task that was sent to.
        bytes: in the whole run.
        since_built: of these, after every client had built its strategy; None where that was not counted.
        opened: connections that `src` has opened to `dst` after that.
    """

    src: str
    dst: str
    bytes: int
    since_built: int | None = None
    opened: int = 0


class Links(msgspec.Struct, frozen=True):
    """What all links of a run carried.

    Attributes:
        tasks: those that have an address.
        links: the directed links between two of them that carried anything.
        seconds: from when every client had built its strategy to the end; None where that was not counted.
    """

    tasks: tuple[str, ...]
    links: tuple[LinkBytes, ...]
    seconds: float | None = None

    def save(self, directory: Path) -> None:
        """Leave it where `read_links` finds it."""
        (directory / _FILE).write_bytes(msgspec.json.encode(self))

    def between(self, one: str, others: tuple[str, ...]) -> tuple[int, int]:
        """The bytes that one task has sent to these others, and got from them."""
        out = sum(link.bytes for link in self.links if link.src == one and link.dst in others)
        return out, sum(link.bytes for link in self.links if link.dst == one and link.src in others)

    def to_json(self) -> dict[str, int]:
        """Bytes by link, such as `worker:0 -> worker:1`."""
        return {f"{link.src} -> {link.dst}": link.bytes for link in self.links}


def read_links(directory: Path) -> Links | None:
    """What `Links.save` has left; None for a run of one process, and for one of an earlier version of Lockstep."""
    file = directory / _FILE
    return msgspec.json.decode(file.read_bytes(), type=Links) if file.exists() else None
