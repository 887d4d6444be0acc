"""Runs a program under a plan of faults and tells what came of it: who noticed what and when, and which numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import StrategyCase
from simulator import Cluster, FaultPlan, Link, Run, RunFailed, RunResult
from simulator.faults import Fault
from simulator.journal import read_journal
from simulator.kernel import group_members

# A silent peer is noticed after a second or two, and not after the ten of TensorFlow's heartbeats.
COMPRESSED = {
    "TF_GRPC_DEFAULT_OPTIONS": "grpc.keepalive_time_ms=1000,grpc.http2.ping_timeout_ms=1000,"
    "grpc.http2.max_pings_without_data=0,grpc.keepalive_permit_without_calls=1"
}


@dataclass(frozen=True)
class Told:
    """What a run under a plan has left.

    Attributes:
        result: the outcome of every task.
        failure: why the run did not end well; None if it did.
        events: the journal.
        plan: the expanded plan.
    """

    result: RunResult
    failure: RunFailed | None
    events: Sequence[Mapping[str, Any]]
    plan: FaultPlan
    orphans: Sequence[int] = field(default=())

    def of(self, event: str, **wanted: Any) -> list[Mapping[str, Any]]:
        """The events of this name with these values."""
        return [
            each
            for each in self.events
            if each["event"] == event and all(each.get(key) == value for key, value in wanted.items())
        ]

    @cached_property
    def struck_at(self) -> float:
        """When the first fault struck, in seconds of CLOCK_MONOTONIC: its tasks stood at the gate, or it had fired."""
        first = self.plan.faults[0]
        gates = [event["t"] for event in self.of("gate", gate=first.gate) if event["task"] in (first.of or ())]
        return float(gates[-1] if gates else self.of("fired", fault=first.id)[0]["t"])

    @cached_property
    def detection(self) -> tuple[str, str, float] | None:
        """Class of the first exception in a task that was not struck itself, that task, and the seconds until then."""
        struck = {task for fault in self.plan.faults for task in getattr(fault, "task", ())}
        found = [event for event in self.of("error") if event["task"] not in struck and event["at"] > self.struck_at]
        first = min(found, key=lambda event: float(event["at"]), default=None)
        return None if first is None else (first["kind"], first["task"], float(first["at"]) - self.struck_at)

    @property
    def crashed(self) -> bool:
        """Whether TensorFlow crashed where it gives up a collective that runs, as it does now and then.

        See docs/faults-measured.md. The task that crashes has not seen that the others are away.
        """
        kind, task, _ = self.detection or ("", "", 0.0)
        return kind == "Signal" and "BaseCollectiveExecutor::StartAbort" in self.result[task].log

    @cached_property
    def own_errors(self) -> list[str]:
        """Classes of the exceptions, and `Signal` or `Exit`, with which struck tasks themselves have ended."""
        struck = {task for fault in self.plan.faults for task in getattr(fault, "task", ())}
        return [event["kind"] for event in self.of("error") if event["task"] in struck]

    @cached_property
    def recovery(self) -> float | None:
        """Seconds from the fault to the first step that none had done before it, or before the restart."""
        steps = self.of("step")
        again = [event for event in steps if event["incarnation"]]
        before = [event for event in steps if (not event["incarnation"] if again else event["t"] <= self.struck_at)]
        reached = max((event["number"] for event in before), default=0)
        later = [event["t"] for event in again or steps if event["t"] > self.struck_at and event["number"] > reached]
        return min(later) - self.struck_at if later else None

    def row(self, case: StrategyCase, outcome: str) -> dict[str, object]:
        """The cells of the report's table."""
        fault = self.plan.faults[0]
        who = ", ".join(getattr(fault, "task", ())) or f"{fault.src} -> {fault.dst}" * bool(fault.src)
        who += f" ({', '.join(self.own_errors)})" * bool(self.own_errors)
        kind, task, seconds = self.detection or ("-", "", None)
        return {
            "fault": " + ".join(_named(each) for each in self.plan.faults),
            "strategy": case.name,
            "struck": who,
            "at": f"{fault.trigger} {fault.bytes_ if fault.trigger == 'bytes' else getattr(fault, fault.trigger)}",
            "detected by": f"{kind} in {task}" if task else "-",
            "detection s": "-" if seconds is None else f"{seconds:.1f}",
            "recovery s": "-" if self.recovery is None else f"{self.recovery:.1f}",
            "outcome": outcome,
        }


def _named(fault: Any) -> str:
    """`crash (segfault)`: the kind and what distinguishes it."""
    keys = (
        "how",
        "mode",
        "damage",
        "file",
        "grace",
        "per_step",
        "factor",
        "duration",
        "delay",
        "jitter",
        "rate",
        "loss",
    )
    said = [str(value) for key in keys if (value := getattr(fault, key, None)) is not None]
    said = [said[0]] if said[:1] == ["stale"] else said
    one_way = ["one way"] if getattr(fault, "one_way", False) else []
    return f"{fault.kind} ({', '.join(said + one_way)})" if said or one_way else str(fault.kind)


def plan_of(*faults: Fault, **options: Any) -> FaultPlan:
    """A plan of these faults."""
    return FaultPlan(faults=faults, **options)


@contextlib.contextmanager
def running(
    case: StrategyCase, program: Callable[..., Any], *args: Any, cluster: Mapping[str, Any], **options: Any
) -> Iterator[tuple[Run, Callable[[], Told]]]:
    """A started run of `program(case, *args, **options)`, and how to wait for its end."""
    plan = cluster.get("faults") or FaultPlan()
    with Cluster(case.topology, **cluster) as started, started.start(program, case, *args, **options) as run:

        def join() -> Told:
            failure = None
            try:
                result = run.join()
            except RunFailed as failed:
                result, failure = failed.result, failed
            events = tuple(read_journal(run.directory / "journal.jsonl"))
            pids = {event["pid"] for event in events if event["event"] == "hello"}
            orphans = sorted(member for pid in pids for member in group_members(pid))
            return Told(result, failure, events, plan.expand(case.topology), orphans)

        yield run, join


def survive(
    case: StrategyCase,
    plan: FaultPlan,
    program: Callable[..., Any],
    folder: Path,
    *,
    restarts: int = 1,
    restart_policy: str | None = None,
    env: Mapping[str, str] | None = None,
    links: Sequence[Link] = (),
    timeout: float = 60.0,
    network: str | None = None,
    **options: Any,
) -> Told:
    """Run a program to its end under a plan; a failure is part of what is told. Hangs are failures after `timeout`."""
    cluster = {
        "faults": plan,
        "restarts": restarts,
        "restart_policy": restart_policy,
        "env": COMPRESSED if env is None else env,
        "links": links,
        "timeout": timeout,
        "network": network,
    }
    with running(case, program, folder, cluster=cluster, **options) as (_, join):
        return join()
