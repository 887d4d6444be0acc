"""The relays of several machines, which do together what one does for tasks that are all here.

A connection between two machines goes through both of their relays. What a task sends is the business of the relay on
its machine alone: that one counts it, and has the conditions of its links. So rates and triggers are met as on one
machine, whichever side has opened the connection. All relays know all conditions, which they need for handshakes.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simulator.machines.far.machine import FarMachine
from simulator.network.far_relay import FarRelay
from simulator.network.helper import NetworkEnded
from simulator.wire import network as wire


class ChainedRelays:
    """Those of one run.

    Args:
        made: what each is made with besides its machine, as of `FarRelay`.
    """

    def __init__(self, made: Mapping[str, Any]) -> None:
        # By the key the relays of the run know each other.
        self._made = {**made, "chain_key": secrets.token_hex(16)}
        self._relays: list[FarRelay] = []
        # The conditions that they have been told of, in order: other ones are told as well.
        self._told: list[wire.Install | wire.Clear] = []
        self._telling = threading.Lock()

    @property
    def there(self) -> list[FarRelay]:
        """All of them but those of lost machines, which are as lost as the tasks there."""
        return [relay for relay in self._relays if relay.machine.there]

    def start(self, machines: Sequence[tuple[FarMachine, Sequence[str]]], addresses: Mapping[str, str]) -> None:
        """Start one on each of these machines; they know each other, and what earlier ones were told, on return.

        Args:
            machines: each with its tasks.
            addresses: `host:port` of the server of each task that has one.
        """
        for machine, tasks in machines:
            own = [task for task in tasks if task in addresses]
            self._relays.append(FarRelay(machine, own, addresses, **self._made))
        for relay in self._relays:
            others = {task: other.address for other in self._relays if other is not relay for task in other.tasks}
            helper = relay.helper
            helper.ask(wire.Chained(helper.number(), others), "the relays of machines to know each other")
            for message in self._told:
                if isinstance(message, wire.Install) and message.is_triggered:
                    continue  # it was met, or nobody would have come here; what it has put in force is told as well
                helper.ask(msgspec.structs.replace(message, request=helper.number()), "links to be as before")

    def close(self) -> None:
        """End them."""
        relays, self._relays = self._relays, []
        for relay in relays:
            relay.close()

    def remember(self, message: wire.Install | wire.Clear) -> None:
        """All are told this."""
        with self._telling:
            self._told.append(message)

    def forget(self, rule: int) -> None:
        """A rule has been removed."""
        with self._telling:
            self._told = [each for each in self._told if not (isinstance(each, wire.Install) and each.rule == rule)]

    def spread(self, fired: wire.Fired, message: wire.Install) -> None:
        """Have the others do what the one has begun to do that has seen a trigger met."""
        self.remember(message)
        for relay in self.there:
            if not relay.has(fired.src):
                with contextlib.suppress(NetworkEnded):
                    relay.helper.say(msgspec.structs.replace(message, request=relay.helper.number()))

    def withdraw(self, rule: int) -> None:
        """Remove a rule that was removed while it was spread: nobody knows which came first."""
        self.forget(rule)
        for relay in self.there:
            with contextlib.suppress(NetworkEnded):
                relay.helper.say(wire.Remove(relay.helper.number(), rule))
