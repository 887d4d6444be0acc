"""Opens the gates of a run: each one when every fault that strikes there has been applied, in the plan's order."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from simulator.run.protocol import Running
from simulator.wire.control import Action

_BEGIN = "step:0"

# A task and a point of its program, such as ("worker:1", "step:20").
Point = tuple[str, str]


class Gatekeeper:
    """Knows who still has something to do at which gate; a thread opens those where nobody has.

    All its state is guarded by the run's condition, `Run.changed`.
    """

    def __init__(self, points: Mapping[Point, Sequence[str]], every_step: Iterable[str] = ()) -> None:
        # To whom each gate belongs until it is done there: names in the order of the plan.
        self._pending = {point: list(names) for point, names in points.items()}
        self._every_step = frozenset(every_step)
        self._actions: dict[Point, list[Action]] = defaultdict(list)
        self._delays: dict[tuple[str, str], float] = {}
        self._arrived: dict[str, tuple[object, str, float]] = {}
        self._held: Counter[tuple[str, str]] = Counter()
        self._closed = False
        self._run: Running | None = None

    def begin(self, run: Running) -> None:
        """Start the thread that opens gates."""
        self._run = run
        self._thread = run.breakdown.worker("gates", self._open_gates, "gates are not opened any more")
        self._thread.start()

    def close(self) -> None:
        """Let every task go on, and stop."""
        if self._run is None:
            return
        with self._run.changed:
            self._closed = True
            self._run.changed.notify_all()
        self._thread.join()

    def has_turn(self, name: str, tasks: Iterable[str], gate: str) -> bool:
        """Whether all these tasks stand at the gate and those before `name` are done there."""
        assert self._run is not None
        return all(self._run.tasks[task].at_gate == gate and self._pending[task, gate][:1] == [name] for task in tasks)

    def done(self, name: str, gate: str | None = None) -> None:
        """`name` has nothing more to do at this gate, or at any; the condition must not be held by others for long."""
        assert self._run is not None
        with self._run.changed:
            for (_, at), names in self._pending.items():
                if name in names and gate in (None, at):
                    names.remove(name)
            self._run.changed.notify_all()

    def act(self, task: str, gate: str, action: Action) -> None:
        """Have the agent do this when the gate opens."""
        self._actions[task, gate].append(action)

    def hold_each_step(self, task: str, by: str, seconds: float) -> None:
        """Let a task stand so long at each step, besides what other faults hold it there; 0 ends that."""
        assert self._run is not None
        with self._run.changed:
            self._delays[task, by] = seconds
            self._run.changed.notify_all()

    def held_steps(self, task: str, by: str) -> int:
        """At how many steps it has stood for that long."""
        return self._held[task, by]

    def _open_gates(self) -> None:
        assert self._run is not None
        with self._run.changed:
            while True:
                soonest = min((self._visit(name) for name in list(self._run.tasks)), default=60.0)
                if self._closed:
                    return
                self._run.changed.wait(soonest)

    def _visit(self, name: str) -> float:
        """Open the gate at which this task stands, if that is due; seconds until it should be looked at again."""
        assert self._run is not None
        task = self._run.tasks[name]
        gate = task.at_gate
        if gate is None or not self._is_ours(name, gate):
            return 60.0
        now = time.monotonic()
        if self._arrived.get(name, (None, "", 0.0))[:2] != (task.incarnation, gate):
            self._arrived[name] = (task.incarnation, gate, now)
        if self._pending.get((name, gate)) and not self._closed:
            return 60.0
        # Where a process begins it has done no step yet.
        passes = self._closed or gate == _BEGIN
        delays = {} if passes else {each: seconds for each, seconds in self._delays.items() if each[0] == name}
        rest = self._arrived[name][2] + sum(delays.values()) - now
        if rest > 0:
            return rest
        self._held.update(each for each, seconds in delays.items() if seconds > 0)
        self._run.open_gate(name, self._actions.pop((name, gate), ()))
        return 60.0

    def _is_ours(self, name: str, gate: str) -> bool:
        """Not a gate that the user has set and will open."""
        assert self._run is not None
        if gate in self._run.gates.get(name, ()):
            return False
        return (name, gate) in self._pending or (name in self._every_step and gate.startswith("step:"))
