"""TCP ports that nobody else can take between the moment they are picked and the moment a task listens on them.

portpicker proposes a port; a socket then binds it *without* SO_REUSEPORT, which the kernel grants to exactly one
process, and turns SO_REUSEPORT on afterwards. From then on only a process that also asks for SO_REUSEPORT can bind the
port, which TensorFlow does when `TF_GRPC_REUSE_PORT=1` is set. The socket never listens, so it receives no connection.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

import portpicker

from simulator.errors import LockstepError

__all__ = ["HeldPort", "PortsUnavailable", "hold_ports"]

_ATTEMPTS = 64


class PortsUnavailable(LockstepError):
    """Raised when no free port could be held after many attempts."""


class HeldPort:
    """One port, held until `close`."""

    def __init__(self, number: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.bind(("", number))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError:
            self._socket.close()
            raise
        self.number = number

    def close(self) -> None:
        """Let go of the port."""
        self._socket.close()

    def __enter__(self) -> HeldPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _hold_one(pick: Callable[[], int]) -> HeldPort:
    for _ in range(_ATTEMPTS):
        number = pick()
        # Another process may have taken it since it was picked: that is what holding is for, so pick again.
        with contextlib.suppress(OSError):
            return HeldPort(number)
    raise PortsUnavailable(f"no free port could be held in {_ATTEMPTS} attempts; is the machine out of ports?")


@contextlib.contextmanager
def hold_ports(names: Iterable[str], pick: Callable[[], int] = portpicker.pick_unused_port) -> Iterator[dict[str, int]]:
    """Hold one port for each name while the context is open.

    Args:
        names: what the ports are for, for example task names.
        pick: proposes a port number; replaced in tests.

    Yields:
        The port number of each name.

    Raises:
        PortsUnavailable: no port could be held.
    """
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(_hold_one(pick)).number for name in names}
