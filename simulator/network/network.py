"""The network between the tasks of one run: conditions on its links, what they do, what they have carried."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from simulator.errors import DeadlineExceeded, LockstepError, UsageError
from simulator.journal.journal import Journal
from simulator.machines.far.machine import FarMachine
from simulator.network.far_relay import FarRelay
from simulator.network.helper import Helper, NetworkEnded
from simulator.network.hosts import Hosts
from simulator.network.link import Link, expand
from simulator.network.relay import Relay
from simulator.network.relay_chain import ChainedRelays
from simulator.network.rule import LinkRule
from simulator.topology import Topology
from simulator.wire import network as wire
from simulator.wire.network import Conditions, Fired, LinkCounters

# On a link with a delay this much is on its way at most, as with the window of a TCP connection; 50 ms then allow
# 320 MB/s.
_QUEUE_BYTES = 16 * 2**20
_START_SECONDS_MAX = 10.0


class Network:
    """The network between the tasks of one run, while the context is open.

    A relay process carries every connection; or the tasks have hosts with cables between them, and the relay only does
    what the kernel cannot. Each task needs `environ(task)` in its environment: gRPC then asks the task's own listener
    of the relay to connect it to its peers.

    Args:
        topology: the tasks.
        addresses: `host:port` of each task that has one.
        links: conditions from the start.
        hosts: those of the tasks; without them there is a relay.
        relay: whether there is a relay although there are hosts.
        seed: of the jitter.
        journal: gets an event for each change, each trigger, and at the end each directed link's counters.
        queue_bytes: what each direction of a connection has on its way at most.
        machines: with tasks on other machines, each of those with its tasks; each then has a relay of its own, through
            which its tasks connect, to one on another machine by way of the relay there. What a task sends is the
            business of the relay of its machine alone.
    """

    def __init__(
        self,
        topology: Topology,
        addresses: Mapping[str, str],
        links: Iterable[Link] = (),
        *,
        hosts: Hosts | None = None,
        relay: bool = True,
        seed: int = 0,
        journal: Journal | None = None,
        queue_bytes: int = _QUEUE_BYTES,
        machines: Sequence[tuple[FarMachine, Sequence[str]]] = (),
    ) -> None:
        self.topology = topology
        self._addresses = dict(addresses)
        self._links = tuple(links)
        self._hosts = hosts
        self._with_relay = relay or hosts is None
        self._journal = journal
        self._changed = threading.Condition()
        self._rules: dict[int, LinkRule] = {}
        self._watchers: list[Callable[[LinkRule, Fired], None]] = []
        self._told_of_end: list[Callable[[], None]] = []
        self._timer = ""
        # How often the relay did not connect: a stranger (whose address is empty), or a task to what is not the run's.
        self.turned_away: dict[tuple[str, str], int] = {}
        self._doormen: list[Callable[[str, str], None]] = []
        self._machines = tuple(machines)
        # What relays had counted that are there no more.
        self._earlier: tuple[LinkCounters, ...] = ()
        # Nobody is told anything while tasks move to other machines.
        self._still = threading.RLock()
        self._relay: Relay | None = None
        made = {"seed": seed, "queue_bytes": queue_bytes, "changed": self._changed, "hear": self._hear}
        self._made: dict[str, Any] = {**made, "on_ended": lambda: self._helper_ended("relay")}
        self._far = ChainedRelays(self._made)
        self._keeper: Helper | None = None
        self._final: tuple[LinkCounters, ...] | None = None
        self._count = 0

    # -- life

    def __enter__(self) -> Network:
        if self._hosts is not None:
            self._keeper = self._hosts.listen(self._changed, lambda: self._helper_ended("keeper"))
        if self._with_relay and not self._machines:
            self._relay = Relay(self._addresses, hosts=self._hosts, **self._made)
        try:
            if self._with_relay:
                self._far.start(self._machines, self._addresses)
            # Both obey in order, so these are in force before the first connection; nobody waits for them here.
            asked = [each for link in self._links for each in self._install(link)[0]]
            for helper, request in asked if self._far.there else ():  # what starts tasks there does not go their way
                helper.answer(request, "links to be in force")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        with contextlib.suppress(DeadlineExceeded):
            self.finish()
        self._far.close()
        if self._relay is not None:
            self._relay.close()

    def move(
        self, elsewhere: Callable[[], tuple[Mapping[str, str], Sequence[tuple[FarMachine, Sequence[str]]]]]
    ) -> None:
        """Go on on other machines: `elsewhere` brings the tasks there, none of which runs now, and says where they are.

        Conditions are as they were, and what has been counted stays, but for what the relay of a lost machine knew.

        Raises:
            LockstepError: a trigger waits for what that one had counted in part.
        """
        with self._still:
            waiting = [rule for rule in self._rules.values() if rule.waits]
            if waiting:
                raise LockstepError(
                    f"link {waiting[0].link} waits for a trigger, and what came by until then is not known any more: "
                    "the relay of a lost machine had counted it"
                )
            with contextlib.suppress(NetworkEnded, DeadlineExceeded):
                self._earlier = self._take_counters()
            self._far.close()
            addresses, machines = elsewhere()
            self._addresses, self._machines = dict(addresses), tuple(machines)
            self._far.start(self._machines, self._addresses)

    @property
    def _relays(self) -> list[Relay | FarRelay]:
        return [*self._far.there, *filter(None, [self._relay])]

    @property
    def _helpers(self) -> list[Helper]:
        return [*(relay.helper for relay in self._relays), *filter(None, [self._keeper])]

    @property
    def pid(self) -> int:
        """Process id of the relay.

        Raises:
            UsageError: there is none.
        """
        if self._relay is None:
            raise UsageError("the tasks' hosts are connected directly, without a relay")
        return self._relay.pid

    @property
    def keeper(self) -> int | None:
        """Process id of the keeper of the hosts; `None` where there are none."""
        return None if self._hosts is None else self._hosts.pid

    @property
    def failed(self) -> str | None:
        """Which of the processes that keep the network has ended before it was told to: `relay` or `keeper`."""
        return next((helper.name for helper in self._helpers if helper.failed), None)

    @property
    def problem(self) -> str:
        """What became of that process, for a message."""
        helper = next(helper for helper in self._helpers if helper.failed)
        if helper.problem is None:
            return "ended during the run" + (f": {helper.broken}" if helper.broken else "")
        return f"could not be heard any more: {type(helper.problem).__name__}: {helper.problem}"

    @property
    def ended_at(self) -> float | None:
        """When that process ended, in seconds of CLOCK_MONOTONIC; `None` while all run."""
        return next((helper.ended_at for helper in self._helpers if helper.ended_at is not None), None)

    def on_ended(self, call: Callable[[], None]) -> None:
        """Have `call()` called, in a thread of the network, when relay or keeper end before they were told to."""
        self._told_of_end.append(call)

    def on_turned_away(self, call: Callable[[str, str], None]) -> None:
        """Have `call(task, address)` called, in a thread of the network, when the relay first refuses that to a task.

        The address is empty where a request did not come from a task, but to its listener. It must not block.
        """
        self._doormen.append(call)

    def add_process(self, task: str, pid: int) -> None:
        """This process is the task's, so that tasks may be connected to whatever it and its children listen on."""
        if (relay := self._relay_of(task)) is not None:
            with contextlib.suppress(NetworkEnded):  # which is reported where it matters
                relay.helper.say(wire.Belongs(pid))

    def environ(self, task: str) -> dict[str, str]:
        """What the environment of a task needs so that its gRPC connections go through the relay, if there is one."""
        return {} if (relay := self._relay_of(task)) is None else relay.environ(task)

    def _relay_of(self, task: str) -> Relay | FarRelay | None:
        """The one through which a task connects."""
        return next((relay for relay in self._far.there if relay.has(task)), self._relay)

    def wait_ready(self, timeout: float = _START_SECONDS_MAX) -> str:
        """Wait until the relay accepts connections; the kind of timers it uses.

        Connections made before are not lost: they wait in the listener's queue.

        Raises:
            DeadlineExceeded: it does not within `timeout` seconds.
            RelayEnded: it could not start.
        """
        for relay in self._relays:
            relay.helper.wait(lambda: bool(self._timer), "the relay to start", timeout)
        return self._timer

    # -- conditions

    def set(self, link: Link) -> LinkRule:
        """Put conditions on links, on top of those there are; they are in force when this returns.

        Returns:
            The rule, to remove it again, and to ask whether its trigger was met.

        Raises:
            UsageError: the link names no tasks of this topology, or asks for what this network cannot do.
        """
        with self._still:
            asked, rule = self._install(link)
            for helper, request in asked:
                helper.answer(request, f"link {link}")
        return rule

    def remove(self, rule: LinkRule) -> None:
        """Take the conditions of a rule away; those of others stay. Again does nothing."""
        if self._rules.pop(rule.number, None) is not None:
            with self._still:
                self._far.forget(rule.number)
                for helper in self._helpers:
                    message = wire.Remove(request=helper.number(), rule=rule.number)
                    try:
                        helper.ask(message, f"the end of link {rule.link}")
                    except NetworkEnded:
                        if helper in self._helpers:  # else its machine was lost just now
                            raise
            self._note("link_removed", rule=rule.number, link=str(rule.link))

    def is_change(self, rule: LinkRule, pair: tuple[str, str]) -> bool:
        """Whether a rule says anything of a directed link that those before it, still in force, have not said."""
        before = {}
        for number in sorted(self._rules):
            if number < rule.number:
                before.update(self._rules[number].said(*pair))
        return not rule.said(*pair).items() <= before.items()

    def clear(self, src: str = "*", dst: str = "*") -> None:
        """Take every condition off the links from `src` to `dst` and back.

        Raises:
            UsageError: the patterns name no tasks of this topology.
        """
        sources, targets = expand(src, self.topology, "src"), expand(dst, self.topology, "dst")
        there = [(one, other) for one in sources for other in targets if one != other]
        pairs = [*there, *((dst, src) for src, dst in there)]
        with self._still:
            self._far.remember(wire.Clear(request=0, pairs=pairs))
            for helper in self._helpers:
                helper.ask(wire.Clear(request=helper.number(), pairs=pairs), "links to be cleared")
        self._note("links_cleared", src=src, dst=dst)

    def on_fired(self, call: Callable[[LinkRule, Fired], None]) -> None:
        """Have `call(rule, fired)` called, in a thread of the network, when a trigger is met. It must not block."""
        self._watchers.append(call)

    def wait_fired(self, rule: LinkRule, timeout: float) -> Fired:
        """Wait until the trigger of a rule has been met on some link, and return the first time.

        Raises:
            DeadlineExceeded: it was not met within `timeout` seconds.
        """
        for helper in self._helpers[:1]:
            helper.wait(lambda: bool(rule.fired), f"the trigger of link {rule.link}", timeout)
        return rule.fired[0]

    # -- what is seen

    def counters(self) -> dict[tuple[str, str], LinkCounters]:
        """What each directed link has done so far, by source and destination; those that nothing came by are left out.

        Raises:
            NetworkEnded: relay or keeper are gone.
        """
        seen = self._take_counters() if self._final is None else self._final
        return {(link.src, link.dst): link for link in seen}

    def probe(
        self,
        src: str,
        dst: str,
        timeout: float = 5.0,
        given_up: Callable[[], bool] = lambda: False,
        *,
        steady: bool = False,
    ) -> float:
        """Round trip from `src` to `dst` and back under the conditions of both links, in seconds.

        One byte goes through the relay as the task's bytes do, and between hosts a packet along the cable. It is not
        counted, and asks nothing of the tasks.

        Args:
            src: the task from which it goes.
            dst: the task to which it goes.
            timeout: seconds for the answer.
            given_up: asked meanwhile; whether nobody wants the answer any more.
            steady: leave out jitter and rate of the links, which would hide a delay or look like one.

        Raises:
            DeadlineExceeded: no answer within `timeout` seconds, as through a blackhole, or it was given up.
            LinkRefused: the connection was refused or reset.
        """
        for task in (src, dst):
            expand(task, self.topology)
            self.topology.check_task(task)
        seconds = 0.0
        if self._hosts is not None:
            seconds += self._hosts.probe(src, dst, timeout, given_up)
        if (relay := self._relay_of(src)) is not None:
            seconds += relay.probe(src, dst, timeout, given_up, steady)
        return seconds

    def finish(self) -> tuple[LinkCounters, ...]:
        """Take the final counters and write them to the journal; again returns the same. None if nobody kept them."""
        if self._final is None:
            self._final = ()
            with contextlib.suppress(NetworkEnded):
                self._final = self._take_counters()
            for link in self._final:
                self._note("link", **{name: getattr(link, name) for name in link.__struct_fields__})
        return self._final

    def without_effect(self) -> list[str]:
        """The links given at the start that did nothing.

        Their trigger was not met, or nothing came by, or they should have lost packets and lost none.
        """
        counters = self.counters()
        found = []
        for rule in sorted(self._rules.values(), key=lambda rule: rule.number)[: len(self._links)]:
            pairs = rule.link.pairs(self.topology)
            pairs += [] if rule.link.one_way else [(dst, src) for src, dst in pairs]
            seen = [counters[pair] for pair in pairs if pair in counters]
            if rule.link.is_triggered and not rule.fired:
                found.append(f"the trigger of link {rule.link} was not met")
            elif not any(link.bytes or link.refused or (link.packets and rule.link.is_of_cables) for link in seen):
                found.append(f"nothing came by on link {rule.link}")
            elif rule.link.loss and not any(link.lost for link in seen):
                packets = sum(link.packets for link in seen)
                found.append(f"none of {packets} packets was lost on link {rule.link}; train longer or lose more")
        return found

    # -- the conversation with relay and keeper

    def _install(self, link: Link) -> tuple[list[tuple[Helper, int]], LinkRule]:
        shares = self._shares(link)
        pairs = link.pairs(self.topology)
        self._count += 1
        rule = self._rules[self._count] = LinkRule(self._count, link, self.topology, self.remove)
        self._note("link_set", rule=rule.number, link=str(link))
        asked = []
        for helper, conditions in shares:
            message = wire.Install(
                request=helper.number(),
                rule=rule.number,
                pairs=pairs,
                both=not link.one_way,
                conditions=conditions,
                after_bytes=link.trigger_bytes,
                after_connections=link.after_connections,
            )
            helper.say(message)
            asked.append((helper, message.request))
            if helper is self._helpers[0]:
                self._far.remember(message)
        return asked, rule

    def _shares(self, link: Link) -> list[tuple[Helper, Conditions]]:
        """Who does what of it."""
        if self._keeper is None:
            link.check_network(hosts=False)
            return [(helper, link.conditions) for helper in self._helpers]
        shares = [(self._keeper, link.of_cables)] if link.is_of_cables else []
        if link.of_relay != Conditions():
            if self._relay is None:
                raise UsageError(f"link {link} needs the relay, and this run was started without; write relay=True")
            shares.append((self._relay.helper, link.of_relay))
        return shares

    def _take_counters(self) -> tuple[LinkCounters, ...]:
        if self._keeper is None:
            counted = [link for relay in self._relays for link in relay.helper.count()]
            return summed([*self._earlier, *counted])
        packets = self._keeper.count()
        if self._relay is None:
            return tuple(link for link in packets if link.packets)
        return joined(self._relay.helper.count(), packets)

    def _helper_ended(self, name: str) -> None:
        self._note(f"{name}_ended")
        for call in self._told_of_end:
            call()

    def _hear(self, message: wire.FromHelper) -> None:
        rule = self._rules.get(message.rule) if isinstance(message, Fired) else None
        with self._changed:
            if isinstance(message, wire.Started):
                self._timer = message.timer
            elif rule is not None and isinstance(message, Fired):
                rule.fired.append(message)
            elif isinstance(message, wire.TurnedAway):
                self.turned_away[message.src, message.address] = message.count
            self._changed.notify_all()
        if isinstance(message, wire.TurnedAway):
            self._note("turned_away", src=message.src, address=message.address or None, count=message.count)
            for tell in self._doormen if message.count == 1 else ():
                tell(message.src, message.address)
        if isinstance(message, Fired) and rule is not None:
            self._spread(rule, message)
            self._note(
                "link_fired",
                rule=message.rule,
                link=str(rule.link),
                src=message.src,
                dst=message.dst,
                at=message.at,
                bytes=message.bytes,
                connections=message.connections,
            )
            for call in self._watchers:
                call(rule, message)

    def _spread(self, rule: LinkRule, fired: Fired) -> None:
        link = rule.link
        pairs, both = [(fired.src, fired.dst)], not link.one_way
        self._far.spread(fired, wire.Install(0, rule.number, pairs, both, link.conditions))
        if rule.number not in self._rules:
            self._far.withdraw(rule.number)

    def _note(self, event: str, **fields: object) -> None:
        if self._journal is not None:
            self._journal.write(event, **fields)


def summed(counters: Iterable[LinkCounters]) -> tuple[LinkCounters, ...]:
    """Each directed link once: of each machine, and before and after tasks have moved, somebody else has counted."""
    found: dict[tuple[str, str], LinkCounters] = {}
    for counted in counters:
        link = counted
        if (before := found.get((link.src, link.dst))) is not None:
            numbers = [name for name in LinkCounters.__struct_fields__ if name not in ("src", "dst", "seconds")]
            more = {name: getattr(before, name) + getattr(link, name) for name in numbers}
            # Each knows its own first and last byte.
            link = msgspec.structs.replace(link, **more, seconds=max(before.seconds, link.seconds))
        found[link.src, link.dst] = link
    return tuple(found[pair] for pair in sorted(found))


def joined(relayed: Iterable[LinkCounters], cables: Iterable[LinkCounters]) -> tuple[LinkCounters, ...]:
    """Bytes as the relay has counted them, packets as the cables have, of which datagrams come past the relay."""
    found = {(link.src, link.dst): link for link in relayed}
    for cable in cables:
        if (link := found.get((cable.src, cable.dst))) is not None or cable.packets:
            link = link or LinkCounters(cable.src, cable.dst)
            found[link.src, link.dst] = msgspec.structs.replace(link, packets=cable.packets, lost=cable.lost)
    return tuple(found[pair] for pair in sorted(found))
