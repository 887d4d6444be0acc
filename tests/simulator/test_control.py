"""Tests of the messages between parent and agent."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.wire import control, framing

_TEXT = st.text(max_size=20)
_TIME = st.floats(min_value=0, max_value=1e9)
MESSAGES = st.one_of(
    st.builds(control.Hello, task=_TEXT, incarnation=st.integers(0, 9), pid=st.integers(1, 2**22)),
    st.builds(control.Ready, at=_TIME),
    st.builds(control.StepDone, number=st.integers(0, 2**40), at=_TIME),
    st.builds(control.Result, value=st.binary(max_size=300), at=_TIME),
    st.builds(control.Error, kind=_TEXT, bases=st.tuples(_TEXT), message=_TEXT, traceback=_TEXT, at=_TIME),
)


@given(messages=st.lists(MESSAGES, max_size=6), data=st.data())
def test_messages_arrive_whole_however_the_bytes_are_cut(messages: list[control.FromTask], data: st.DataObject) -> None:
    """Any sequence of messages, cut into pieces anywhere, is received unchanged and in order."""
    stream = b"".join(control.encode(message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    inbox = control.ControlInbox()
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += list(inbox.feed(stream[start:end]))
    assert received == messages


def test_a_message_that_is_too_large_for_a_frame_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a whole or of a part alone, with what a frame can hold, and not by the error of how its length is packed."""
    message = control.Result(value=b"x" * 100, at=1.0)
    size = len(control.encode(message)) - framing.LENGTH.size
    monkeypatch.setattr(framing, "_BYTES_MAX", size)
    control.encode(message)
    monkeypatch.setattr(framing, "_BYTES_MAX", size - 1)
    with pytest.raises(ValueError, match=f"^{size} bytes are more than the 4 GiB that a message can hold$"):
        control.encode(message)

    class Refusing:
        def encode(self, _: object) -> bytes:
            raise OverflowError("Can't encode bytes-like objects longer than 2**32 - 1")

    monkeypatch.setattr(framing, "_ENCODER", Refusing())
    with pytest.raises(ValueError, match="a part of it has more than the 4 GiB"):
        control.encode(message)


def test_a_task_sees_that_the_parent_has_gone() -> None:
    """A closed connection is `None`, not an exception, also in the middle of a message."""
    ours, theirs = socket.socketpair()
    ours.sendall(control.encode(control.Proceed(call=b"x" * 100))[:20])
    ours.close()
    with theirs:
        assert control.receive(theirs) is None


def test_a_task_receives_what_the_parent_sent() -> None:
    """The parent's messages pass the socket unchanged."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(control.encode(control.Proceed(call=b"abc")) + control.encode(control.Release()))
        assert control.receive(theirs) == control.Proceed(call=b"abc")
        assert control.receive(theirs) == control.Release()
