"""The thread of a run that answers failures as the restart policy says."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.run.departures import Departures
from simulator.run.options import Options
from simulator.run.population import Population
from simulator.run.protocol import Companion, NoCompanion
from simulator.threads import Worker

# How often a machine is looked at that is not heard.
_LOOK_SECONDS = 0.5


class Supervisor:
    """Starts tasks again from the moment the run has begun until `close`, whatever the caller is doing.

    It has a thread of its own: the caller may be waiting for a step, or for nothing, and the thread of events has to go
    on hearing the tasks while a restart waits for one to die or to start. Its state is guarded by the run's condition.

    Args:
        population: what it starts again.
        options: of the run.
        cut_off: whether there is no point in going on with the run.
        companion: what makes tasks fail, wait and come back by plan.
    """

    def __init__(
        self, population: Population, options: Options, *, cut_off: Callable[[], bool], companion: Companion
    ) -> None:
        self._population = population
        self._policy = options.restarts
        self._peer_grace = options.peer_grace
        self._cut_off = cut_off
        self._companion = companion
        undisturbed = isinstance(companion, NoCompanion) and not options.network.links
        kept = undisturbed and population.call is not None and not population.starter.topology.ps
        self._partings = Departures(population.tasks, population.journal) if kept else None
        self._changed = population.events.changed
        self._spent = 0
        self._closed = False
        # Whether a failure is being answered.
        self.busy = False
        # What kept it from answering one.
        self.problem: BaseException | None = None
        self._worker = Worker("restarts", self._main)

    def start(self) -> None:
        """Begin, if the policy restarts anything."""
        if self._policy.limit:
            self._worker.start()

    @property
    def unrecoverable(self) -> bool:
        """Whether a task has failed that will not be started again, or could not be."""
        if self.problem is not None:
            return True
        tasks, placement = self._population.tasks, self._population.starter.placement
        return self._population.failed and (self._closed or not self._policy.allows(tasks, placement, self._spent))

    def close(self) -> None:
        """Answer no failure that comes from now on; one that is being answered is given up at the next wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def stop(self) -> None:
        """`close`, and wait for the end of what it is doing."""
        self.close()
        self._worker.join()

    def _main(self) -> None:
        try:
            while self._next_failure():
                self._answer()
        except OSError as error:
            self.problem = LockstepError(f"what failed cannot be started again: {error}")
        except BaseException as error:  # noqa: BLE001 - whatever it is, `Run.join` raises it
            self.problem = error
        finally:
            with self._changed:
                self.busy = False
                self._changed.notify_all()

    def _next_failure(self) -> bool:
        """Wait for a failure that the policy answers; `False` when there is to be no more."""
        with self._changed:
            self.busy = False
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._closed or (self._has_failed() and not self.unrecoverable and not self._cut_off())
            )
            self.busy = not self._closed
            return self.busy

    def notice_left_behind(self) -> None:
        """Let go whom a peer waits for in vain, and fail who came back to peers that are done, if there is no policy.

        Needs the run's condition.
        """
        if self._partings is not None:
            self._partings.look()
        # Workers with parameter servers need not wait for each other.
        if self._policy.kind == "none" and not self._population.starter.topology.ps:
            self._population.fail_left_behind(at_once=False)

    def _has_failed(self) -> bool:
        if self._policy.kind == "job" and not self._companion.busy():
            # The answer is another start. Under policy `task` they need not wait for each other.
            self._population.fail_left_behind(at_once=True)
        return self._population.failed

    def _wait_for_machines(self) -> None:
        """Wait until what has become of each machine is known, and what ran on those that are lost is dead.

        The end of a stream names a machine at once, and says nothing of its tasks: they may go on until the lease is
        over, and must not meet those that are started in their place.
        """
        placement = self._population.starter.placement
        with self._changed:
            while not self._closed and placement.silent:
                self._changed.wait(_LOOK_SECONDS)
            self._changed.wait_for(lambda: self._closed, max(0.0, placement.dead_at - time.monotonic()))

    def _answer(self) -> None:
        population, policy = self._population, self._policy
        # What the survivors saw is worth keeping, and usually comes at once. One that has failed may be about to exit;
        # killed a moment before, it would be remembered as killed.
        job = policy.kind == "job"
        awaited = [task for task in population.tasks.values() if task.error is not None or (job and task.is_client)]
        with contextlib.suppress(DeadlineExceeded):
            population.events.wait(
                lambda: self._closed or all(task.ended or (task.finished and not task.leaving) for task in awaited),
                "peers",
                self._peer_grace,
            )
        self._wait_for_machines()
        with population.lock:
            # Somebody else may have restarted the failed task, or more may have failed than can be started again.
            if self._closed or not population.failed or self.unrecoverable:
                return
            placement = population.starter.placement
            names = policy.names(population.tasks, placement)
            spent = self._spent + policy.cost(population.tasks, placement)

            def replaced() -> None:
                # Not before: until the failed tasks are replaced, somebody might take them for beyond help.
                self._spent = spent

            new = population.replace(names, f"policy {policy.kind}, {spent} of {policy.limit}", replaced)
        population.proceed_again(new, given_up=lambda: self._closed)
