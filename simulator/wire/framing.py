"""Messages on a stream: a four-byte little-endian length, then that many bytes of MessagePack."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

LENGTH = struct.Struct("<I")
_BYTES_MAX = 2**32 - 1
# Only what a function returns is ever larger, and so is the length that any text would be taken for.
_SMALL_BYTES_MAX = 2**26
_HEAD_BYTES = 16
_ENCODER = msgspec.msgpack.Encoder()
Message = TypeVar("Message")


class Malformed(ValueError):
    """Raised when bytes are no message; the text says why."""


def encode(message: Any) -> bytes:
    """Frame one message.

    Raises:
        ValueError: it is too large for a frame.
    """
    try:
        payload = _ENCODER.encode(message)
    except OverflowError:  # of a part alone
        raise ValueError("a part of it has more than the 4 GiB that a message can hold") from None
    if len(payload) > _BYTES_MAX:
        raise ValueError(f"{len(payload)} bytes are more than the 4 GiB that a message can hold")
    return LENGTH.pack(len(payload)) + payload


class Inbox(Generic[Message]):
    """Turns received bytes, in whatever pieces they come, into messages.

    Args:
        decoder: of the messages.
        large: tags of those that may have more than 64 MiB.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[Message], large: tuple[str, ...] = ()) -> None:
        self._decoder = decoder
        self._large = tuple(msgspec.msgpack.encode("type") + msgspec.msgpack.encode(tag) for tag in large)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add received bytes and yield every message that is complete now.

        Raises:
            Malformed: they are none; so it does as soon as that can be seen.
        """
        self._buffer += data
        while len(self._buffer) >= LENGTH.size:
            end = LENGTH.size + self._length()
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            try:
                message = self._decoder.decode(payload)
            except (msgspec.DecodeError, RecursionError) as error:
                raise Malformed(f"{len(payload)} bytes cannot be read: {error}") from None
            yield message

    @property
    def unfinished(self) -> str:
        """How much has come of a message that is not complete; empty if there is none."""
        if len(self._buffer) < LENGTH.size:
            return f"{len(self._buffer)} bytes" if self._buffer else ""
        (length,) = LENGTH.unpack_from(self._buffer)
        return f"{len(self._buffer) - LENGTH.size} of {length} bytes"

    def _length(self) -> int:
        """The length of the next message, of which some bytes may be there."""
        (length,) = LENGTH.unpack_from(self._buffer)
        if length > _SMALL_BYTES_MAX:
            # A map whose first key is the type of the message.
            head = bytes(self._buffer[LENGTH.size + 1 : LENGTH.size + 1 + _HEAD_BYTES])
            if not any(begin[: len(head)] == head[: len(begin)] for begin in self._large):
                raise Malformed(f"a message of {length} bytes is announced")
        return int(length)
