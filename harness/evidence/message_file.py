"""One message in a file of its own, which whoever finds it can read: it is there whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

_Message = TypeVar("_Message", bound=msgspec.Struct)


class MessageFile(Generic[_Message]):
    """Writes and reads messages of one kind."""

    def __init__(self, kind: type[_Message]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def write(self, path: Path, message: _Message) -> None:
        """Write it whole, so that who finds the file can read it."""
        part = path.with_suffix(".part")
        part.write_bytes(self._encoder.encode(message))
        part.rename(path)

    def read(self, path: Path) -> _Message:
        """Read one file.

        Raises:
            ValueError: it is damaged.
            OSError: it cannot be read.
        """
        try:
            return self._decoder.decode(path.read_bytes())
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
