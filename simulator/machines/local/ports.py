"""TCP ports that nobody else can take between the moment they are picked and the moment a task listens on them.

portpicker proposes a port; a socket then binds it *without* SO_REUSEPORT, which the kernel grants to exactly one
process, and turns SO_REUSEPORT on afterwards. From then on only a process that also asks for SO_REUSEPORT can bind the
port, which TensorFlow does when `TF_GRPC_REUSE_PORT=1` is set. The socket never listens, so it receives no connection.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator

import portpicker

from simulator.errors import LockstepError

_ATTEMPTS = 64


class PortsUnavailable(LockstepError):
    """Raised when no free port could be held after many attempts."""


def held(number: int) -> socket.socket:
    """Hold a port until the socket is closed.

    Raises:
        OSError: somebody has it.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind(("", number))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        holder.close()
        raise
    return holder


def _hold_one(pick: Callable[[], int]) -> socket.socket:
    for _ in range(_ATTEMPTS):
        number = pick()
        # Another process may have taken it since it was picked: that is what holding is for, so pick again.
        with contextlib.suppress(OSError):
            return held(number)
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
        yield {name: stack.enter_context(_hold_one(pick)).getsockname()[1] for name in names}
