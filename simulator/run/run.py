"""One run of one function on one set of fresh processes, from the first port to the last exit."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from simulator.errors import DeadlineExceeded, LockstepError, TaskError, UsageError
from simulator.hardware.leases import lent_gpus
from simulator.journal.journal import Journal
from simulator.launch.hosts import InHosts
from simulator.machines.local.disk_space import no_room
from simulator.machines.local.uninterrupted import uninterrupted
from simulator.network import Hosts, Network, host_addresses, network_causes
from simulator.results import RunFailed, RunResult
from simulator.run.breakdown import Breakdown
from simulator.run.events import Events
from simulator.run.expectations import unexpected
from simulator.run.meetings import Meetings
from simulator.run.plan import RunPlan
from simulator.run.population import Population
from simulator.run.restarts import forsaken
from simulator.run.stacks import fail_hanging, python_stacks
from simulator.run.starter import Starter
from simulator.run.stream import LogStream
from simulator.run.supervisor import Supervisor
from simulator.run.task import Task
from simulator.wire.control import Action, Continue, Release

JOURNAL = "journal.jsonl"
# What of the directory of a run is worth keeping: `plan.json` is of a fault plan.
KEPT_FOLDERS = ("logs", "stacks")
KEPT_FILES = (JOURNAL, "plan.json", "hosts")
_PROOF_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.5
_Context = TypeVar("_Context", Hosts, Network)
_CONFLICTS = ("Could not start gRPC server", "Address already in use", "ADDRESS_IN_USE")


class Run:
    """A run that goes on. Use `join` to wait for its end; leaving the context of `running` kills whatever is left."""

    def __init__(self, plan: RunPlan, stack: contextlib.ExitStack) -> None:
        """Begin it; `stack` undoes all that was begun."""
        self._began = time.monotonic()
        self._over = False
        self._how = "stopped"
        self._plan = plan
        self.topology, self.options, self.directory = plan.topology, plan.options, plan.directory
        self.gates, self.companion = plan.gates, plan.companion
        for name in KEPT_FOLDERS:
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        shares, hardware = lent_gpus(self.topology, stack, self.options.timeout)
        # They go last.
        hosts = _entered(Hosts(self.topology, self.directory), stack) if self.options.network.hosts else None
        self._launcher = plan.launcher if hosts is None else InHosts(plan.launcher, hosts.door)
        self.placement = plan.placement(self._launcher, ports=hosts is None)
        addresses: dict[str, str] = {}
        self._starter = Starter(
            self.topology, self.options, self.directory, self._launcher, addresses, self.placement, shares, hardware
        )
        # The present incarnation of each.
        self.tasks = {name: self._starter.new_task(name) for name in self.topology.tasks}
        self.breakdown = Breakdown(threading.Condition())
        self.journal = Journal(
            self.directory / JOURNAL, lambda error: self.breakdown.report("the journal cannot be written", error)
        )
        stack.callback(self.journal.close)
        stack.push(self._say_end)
        self._events = Events(self.tasks, self.journal, self._launcher.failure, self.breakdown)
        stack.callback(self._close_machines)
        addresses.update(self.placement.open(self._events.hear, self.topology.networked, self.directory, self._pickled))
        if hosts is not None:
            addresses.update(host_addresses(self.topology))
        self._say_start(addresses)
        if self.options.stream:
            logs = [(task.name, task.log_path) for task in self.tasks.values()]
            stack.callback(LogStream(logs, sys.stderr, tf_log=self.options.tf_log).close)
        self._network = self._starter.network = self._joined(addresses, hosts, stack)
        counted = self._network is not None or not self._is_unled or bool(self.placement.far(self.tasks))
        self._meetings = Meetings(self.tasks, {} if counted else addresses)
        self._population = self._populated()
        self._supervisor = Supervisor(self._population, self.options, cut_off=self._cut_off, companion=self.companion)
        self._begin(stack)

    def _say_start(self, addresses: Mapping[str, str]) -> None:
        self.journal.write(
            "start",
            # Of a journal that says so and has none, the end is missing.
            says_end=True,
            topology=str(self.topology),
            tasks=list(self.tasks),
            network=self.options.network.kind,
            addresses=addresses,
            **self.placement.described,
        )

    def _say_end(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Write last how the run ended.

        That is `finished`, `failed`, `stopped` before its end, or `interrupted` by what is no mere error, as Ctrl-C.
        """
        if error is not None:
            self._how = "failed" if isinstance(error, Exception) else "interrupted"
        self.journal.write("end", how=self._how)

    def _pickled(self) -> bytes:
        import dill

        return bytes(dill.dumps(self._launcher, recurse=True))

    def _close_machines(self) -> None:
        """Kill what tasks have started that has left their process groups, and remove their temporary files."""
        for pid in self.placement.close():
            self.journal.write("leaked", pid=pid)

    def _joined(self, addresses: dict[str, str], hosts: Hosts | None, stack: contextlib.ExitStack) -> Network | None:
        """Begin to keep conditions, if there can be any. It goes after the tasks, whose last bytes are counted."""
        wanted = self.options.network
        if not wanted.relay and hosts is None:
            return None
        network = Network(
            self.topology,
            addresses,
            wanted.links,
            hosts=hosts,
            relay=wanted.relay,
            seed=self.options.seed,
            journal=self.journal,
            machines=self.placement.far(self.tasks),
        )
        network.on_ended(self._events.announce)
        self._events.joined = network.add_process
        network.on_turned_away(self._say_turned_away)
        return _entered(network, stack)

    def _populated(self) -> Population:
        network, companion = self._network, self.companion
        return Population(
            tasks=self.tasks,
            starter=self._starter,
            events=self._events,
            journal=self.journal,
            environ=lambda task: {} if network is None else network.environ(task),
            gates={task: (*self.gates.get(task, ()), *companion.gates.get(task, ())) for task in self.tasks},
            hooks=companion.hooks,
            call=self._launcher.call,
            # A task that is stopped, or a server that never listens, must not outlast the run's own time.
            start_timeout=min(self.options.start_timeout, self.options.timeout),
        )

    def _begin(self, stack: contextlib.ExitStack) -> None:
        """Start the processes of all tasks, and what acts on them; `stack` ends them."""
        stack.callback(self._population.end, self.options.stop_grace)
        self._population.launch(list(self.tasks.values()))
        stack.callback(self._finish_early)
        self.companion.begin(self)
        self._population.proceed(list(self.tasks.values()))
        stack.callback(self._supervisor.stop)
        self._supervisor.start()

    def _finish_early(self) -> None:
        """Have faults undone when the run ends otherwise than by `join`; else it has been done."""
        self._over = True
        self.companion.finish()

    def _say_turned_away(self, task: str, address: str) -> None:
        if address:
            with contextlib.suppress(OSError), self.tasks[task].log_path.open("a") as log:
                host = address.rpartition(":")[0]
                log.write(
                    f"--- lockstep: {task} was not connected to {address}, which is no address of this run; "
                    f"to reach it directly, run the program with no_grpc_proxy={host} in its environment\n"
                )

    @property
    def network(self) -> Network:
        """The running network between the tasks: conditions, counters, probes.

        Raises:
            UsageError: the cluster was made without links, so its tasks are connected directly.
        """
        if self._network is None:
            raise UsageError("the tasks are connected directly; write Cluster(..., links=[...]) or relay=True")
        return self._network

    # -- restarts

    def restart(self, task: str, *, after: int | None = None) -> Task:
        """Start one task again as a new incarnation, with the same port and function, and the gates not yet reached.

        A process that still runs is killed first with its whole group, which the run does not count as a failure. The
        outcome of the old process stays in `TaskResult.incarnations`. Returns when the new one has called the function,
        or its server listens, or it has failed. Safe from any thread.

        Args:
            task: the task.
            after: number of the incarnation to follow; if there is a later one already, nothing is done. For a restart
                that was planned a while ago, since the restart policy may have been faster.

        Returns:
            The handle of the task's current incarnation.

        Raises:
            UsageError: there is no such task.
            RunEnded: it has ended already.
        """
        self.topology.check_task(task)
        with self._population.lock:
            if after is not None and self.tasks[task].incarnation > after:
                return self.tasks[task]
            new = self._population.replace([task], "asked")
        self._population.proceed_again(new, given_up=lambda: self._over)
        return new[0]

    @property
    def _is_unled(self) -> bool:
        """Whether tasks are told neither when to begin nor when to end."""
        return self._launcher.call is None

    # -- waiting

    @property
    def clients(self) -> list[Task]:
        """The tasks that run the function, or whose exit code says whether the program ended well."""
        return [task for task in self.tasks.values() if task.is_client]

    def wait(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until `done()`, which is asked whenever a task has said something or ended. Safe from any thread.

        Args:
            done: the condition; it must not wait itself.
            what: is waited for, as the error shall say it: `worker:0 to end`.
            seconds: how long at most.

        Raises:
            DeadlineExceeded: it did not become so within `seconds`.
        """
        self._events.wait(done, what, seconds)

    def wait_step(self, task: str, number: int, timeout: float | None = None) -> bool:
        """Wait until `task` has announced training step `number`; `False` when it can no longer do so.

        Raises:
            DeadlineExceeded: neither happened within `timeout` seconds (the run's own timeout if not given).
        """
        self.topology.check_task(task)
        seconds = self.options.timeout if timeout is None else timeout
        self._events.wait(
            lambda: self.tasks[task].steps >= number or self.is_over(task), f"{task} to reach step {number}", seconds
        )
        return self.tasks[task].steps >= number

    def wait_gate(self, task: str, gate: str, timeout: float | None = None) -> bool:
        """Wait until `task` stands at `gate` (such as `step:20`); `False` when it can no longer come there.

        Raises:
            DeadlineExceeded: neither happened within `timeout` seconds (the run's own timeout if not given).
        """
        self.topology.check_task(task)
        seconds = self.options.timeout if timeout is None else timeout
        # A failure elsewhere may keep this task from ever coming there.
        self._events.wait(
            lambda: self.tasks[task].at_gate == gate or self.is_over(task) or self._supervisor.unrecoverable,
            f"{task} to reach {gate}",
            seconds,
        )
        return self.tasks[task].at_gate == gate

    @property
    def changed(self) -> threading.Condition:
        """Notified whenever a task has said something or ended."""
        return self._events.changed

    @property
    def began(self) -> float:
        """When the run began, in seconds of CLOCK_MONOTONIC."""
        return self._began

    def is_over(self, task: str) -> bool:
        """Whether nothing more is to be expected of this task, not even of a next incarnation."""
        asked = self.tasks[task]
        if self._supervisor.problem is not None or self.breakdown.cause is not None:
            return True
        return asked.finished and (asked.error is None or self._supervisor.unrecoverable)

    def open_gate(self, task: str, actions: Sequence[Action] = ()) -> None:
        """Let `task` do this, in order, and go on from the gate at which it waits."""
        waiting = self.tasks[self.topology.check_task(task)]
        self._population.passed(waiting)
        waiting.at_gate = None
        waiting.send(Continue(actions=tuple(actions)))

    def kill(self) -> None:
        """SIGKILL every task at the same time, as a power cut would, and wait until all are gone.

        No restart policy answers that, and what tasks say of each other's end is no failure of the run.
        """
        self._population.kill()

    def join(self, *, seconds: float | None = None) -> RunResult:
        """Wait for the end of the run, stop what is left, and return every task's outcome.

        Args:
            seconds: at most, instead of the run's timeout. With 0, as after a wait for something that did not come,
                what has not finished hangs, and shows its stacks at once.

        Raises:
            RunFailed: a task failed, hung or vanished and that was not expected, or an expected failure never came.
            Exception: what kept the restart policy from starting a task again.
        """
        stacks: dict[str, str] = {}
        deadline = time.monotonic() + self.options.timeout
        try:
            self._settle(self.options.timeout if seconds is None else seconds)
            if self._population.failed:
                # Peers of a failed task usually fail a moment later; their own words help to understand it.
                with contextlib.suppress(DeadlineExceeded):
                    self._events.wait(
                        lambda: all(task.finished for task in self.clients), "peers", self.options.peer_grace
                    )
                # Of a machine that is not heard it may be the doing.
                self._hear_of_machines()
        except DeadlineExceeded:
            self._supervisor.close()  # a hang is no failure to be answered
            stacks = python_stacks(self.tasks.values(), self._events.changed)
            fail_hanging(self.clients, seconds or self.options.timeout, self._events.changed, self.journal)
            # Before faults are undone: what a pause or a cut link has held up would go on with a job that is over.
            self._population.end(self.options.stop_grace)
        self._supervisor.stop()
        if self._supervisor.problem is not None:
            raise self._supervisor.problem
        self._population.see_the_killed_end()
        self._dismiss_servers()
        self._over = True
        wrong = self.companion.finish(self._patience(deadline))
        self._release()
        self._population.end(self.options.stop_grace)
        result = RunResult(
            tasks={name: task.outcome() for name, task in self.tasks.items()},
            seconds=time.monotonic() - self._began,
            directory=self.directory,
            links=() if self._network is None else self._network.finish(),
            faults=tuple(self.companion.faults()),
            clocks=self.placement.clocks,
            met=self._meetings.seen,
        )
        broken = filter(None, [self.breakdown.cause])
        causes = (*unexpected(self.tasks, self._plan.expectations), *wrong, *broken)
        if not (causes or self._cut_off()) and self._is_unled and all(task.stopped for task in self.clients):
            name, text = self.clients[0].name, "the plan ended every task that could finish the job"
            causes = (TaskError(name, "NotFinished", text, at=time.monotonic()),)
        if causes := (*causes, *network_causes(self._network, alone=not causes)):
            self._how = "failed"
            raise RunFailed(causes, result, stacks=stacks, shown=self.options.stream)
        self._how = "finished"
        return result

    def port_conflict(self) -> bool:
        """Whether a task failed because somebody else listens on its port."""
        return any(
            task.error is not None
            and any(text in self._launcher.complaint(task.error, task.log_path) for text in _CONFLICTS)
            for task in self.tasks.values()
        )

    def _settle(self, seconds: float) -> None:
        """Wait until all clients have finished, or one has failed and is not started again; from then on none is."""
        supervisor, deadline = self._supervisor, time.monotonic() + seconds
        with self.changed:
            while supervisor.busy or not (self._cut_off() or supervisor.unrecoverable or self._done()):
                if (left := deadline - time.monotonic()) <= 0:
                    raise DeadlineExceeded("all clients to finish", seconds)
                # That a task waits in vain is announced by nobody.
                self.changed.wait(min(left, _LOOK_SECONDS))
                self._meetings.look()
                if not self.companion.busy():  # else a peer that is done may be about to come back as well
                    supervisor.notice_left_behind()
            supervisor.close()

    def _hear_of_machines(self) -> None:
        """Wait until each machine is heard, or is taken for lost, which does not take for ever."""
        with self.changed:
            while self.placement.silent:
                self.changed.wait(_LOOK_SECONDS)

    def _done(self) -> bool:
        finished = all(task.finished for task in self.clients) and not self._population.failed
        return finished and not self.companion.busy()

    def _cut_off(self) -> bool:
        if self.breakdown.cause is not None or self.companion.failed():
            return True
        lost = forsaken(self.tasks, self.placement, self.options.restarts)
        return lost or (self._network is not None and self._network.failed is not None)

    def _patience(self, deadline: float) -> float:
        """For how long faults may still be seen to work: no longer than the run may last, and shortly if it fails."""
        most = self.options.peer_grace if self._population.failed or self._cut_off() else _PROOF_SECONDS_MAX
        return min(most, max(0.0, deadline - time.monotonic()))

    # -- the end

    def _release(self) -> None:
        if self._is_unled:
            self._let_evaluator_finish()
            return
        for task in self.tasks.values():
            if task.result is not None or (task.ready and not task.is_client):
                # A server's exit is asked for; a client that returned must still end with exit code 0.
                task.stopped = not task.is_client
                task.send(Release())
        with contextlib.suppress(DeadlineExceeded):
            self._events.wait(
                lambda: all(
                    task.ended
                    for task in self.tasks.values()
                    if task.leaving or task.stopped or task.result is not None
                ),
                "tasks to exit by themselves",
                self.options.stop_grace * 5,
            )

    def _dismiss_servers(self) -> None:
        """A program's servers wait for ever, or fail when the chief has gone: from now on their end is asked for."""
        if self._is_unled and not self._population.failed:
            for task in self.tasks.values():
                task.stopped = task.stopped or not (task.is_client or task.job == "evaluator")

    def _let_evaluator_finish(self) -> None:
        """An evaluator may still be at the last checkpoint; by TensorFlow's convention it never ends by itself."""
        evaluators = [task for task in self.tasks.values() if task.job == "evaluator"]
        if not self._population.failed:
            with contextlib.suppress(DeadlineExceeded):
                self._events.wait(
                    lambda: all(task.ended for task in evaluators), "the evaluator", self.options.evaluator_grace
                )


@contextlib.contextmanager
def running(plan: RunPlan) -> Iterator[Run]:
    """Begin a run; leaving the context kills whatever is left of it.

    Raises:
        LockstepError: it could not begin.
    """
    with contextlib.ExitStack() as stack:
        try:
            run = Run(plan, stack)
        except OSError as error:
            if advice := no_room(error):
                raise LockstepError(f"the run could not start: {error}{advice}") from error
            raise
        yield run


def _entered(context: _Context, stack: contextlib.ExitStack) -> _Context:
    """What helper processes keep: no signal breaks off between their start and their registration."""
    return uninterrupted(lambda: stack.enter_context(context))
