"""What the soak draws from a seed: a cluster, a program, a plan, a limit, and a blow at Lockstep itself."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import msgspec

HERE = Path(__file__).parent
# Programs that end with exit code 0 in every task, whatever they do before.
ABIDING = (
    "steps", "returns", "daemon", "bare_daemon", "child", "closes", "deaf", "noisy", "empties", "leaves_files",
)  # fmt: skip
_FAILING = ("exits", "exits_once", "crashes", "hangs", "stops")
_PLAIN = ("steps", "talks", "sh", "tensorflow")
# What can be ended from outside, and how; `worker` is a task.
_ENDED = (
    ("lockstep", "SIGKILL"), ("lockstep", "SIGTERM"), ("lockstep", "SIGINT"), ("lockstep", "SIGHUP"),
    ("relay", "SIGKILL"), ("keeper", "SIGKILL"), ("forkserver", "SIGKILL"), ("adopter", "SIGKILL"),
    ("warden", "SIGKILL"), ("worker", "SIGKILL"),
)  # fmt: skip


class Limit(msgspec.Struct, frozen=True):
    """What Lockstep has too little of.

    Attributes:
        what: `files`, how many may be open; `file_bytes`, how long one may be; `disk_bytes`, what fits where results
            go; `memory_bytes`, of addresses.
        amount: so much.
        after: seconds from the start until it is so; a disk is small from the beginning.
    """

    what: str
    amount: int
    after: float = 0.0


class Blow(msgspec.Struct, frozen=True):
    """What somebody does to a process: a signal, so many seconds after it is there."""

    target: str
    signal: str
    after: float


class Case(msgspec.Struct, frozen=True):
    """One run of `lockstep run`."""

    seed: int
    workers: int
    network: str
    program: str
    which: int
    at: int
    steps: int
    pause: float
    restarts: int = 0
    relay: bool = False
    machines: bool = False
    faults: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    limit: Limit | None = None
    blow: Blow | None = None
    timeout: float = 25.0

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"seed {self.seed}"

    @property
    def repeats(self) -> bool:
        """Whether a second run of it must have the same history; how far others come before a restart is a race."""
        # So is how far a process comes that is to be killed again as soon as it is there.
        raced = self.faults and (self.workers > 1 or "kind=crash_loop" in str(self.faults))
        undisturbed = self.limit is None and self.blow is None and not raced
        return undisturbed and self.program in ABIDING and self.seed % 5 == 0


def drawn(seed: int) -> Case:
    """The case of a seed."""
    chance = Random(seed)
    steps, workers = chance.randint(3, 12), chance.choice((1, 1, 2, 2, 2, 3, 4, 8))
    kind = chance.choices((*_PLAIN, "abiding", "failing"), weights=(4, 5, 2, 0.3, 6, 4))[0]
    program = chance.choice(ABIDING) if kind == "abiding" else chance.choice(_FAILING) if kind == "failing" else kind
    workers = 2 if program in ("talks", "tensorflow") else workers
    network = chance.choices(("loopback", "namespaces"), weights=(3, 1))[0]
    case = Case(
        seed=seed,
        workers=workers,
        network=network,
        program=program,
        which=chance.randrange(workers),
        at=chance.randint(1, steps),
        steps=steps,
        pause=chance.choice((0.0, 0.01, 0.05)),
        restarts=chance.choice((0, 0, 0, 1, 2)),
        machines=network == "loopback" and kind in ("steps", "abiding") and chance.random() < 0.04,
        timeout=60.0 if program == "tensorflow" else 25.0,
    )
    if program in ("hangs", "stops"):  # which takes as long; eight tasks that are started again need more
        case = msgspec.structs.replace(case, timeout=12.0 if case.restarts else 4.0)
    if program == "talks":
        links = _links(chance, network)
        # TCP waits twice as long each time that the same packet is lost: of 3,000 connections at a loss of 20 % one had
        # not carried four kilobytes after 120 s.
        timeout = 300.0 if "loss" in str(links) else case.timeout
        case = msgspec.structs.replace(case, links=links, timeout=timeout)
    struck = chance.random()
    if struck < 0.35 and program in ("steps", "talks", "sh") and not case.machines:
        case = msgspec.structs.replace(case, faults=_faults(chance, case))
    elif struck < 0.75:
        target, signal = chance.choice([each for each in _ENDED if _is_there(each[0], case)])
        case = msgspec.structs.replace(case, blow=Blow(target, signal, round(chance.uniform(0.0, 1.2), 3)))
    elif struck < 0.88 and not case.machines:
        case = msgspec.structs.replace(case, limit=_limit(chance))
    return case


def _is_there(target: str, case: Case) -> bool:
    """Whether a run of this case has such a process."""
    relayed = any("delay" in link or (case.network == "loopback") for link in case.links)
    there = {"relay": relayed, "keeper": case.network == "namespaces", "worker": case.program != "sh"}
    return there.get(target, True)


def _links(chance: Random, network: str) -> tuple[str, ...]:
    conditions = ["delay=5ms", "delay=10ms,jitter=5ms", "rate=1MB/s", "delay=2ms,rate=5MB/s"]
    if network == "namespaces":
        conditions += ["loss=20%", "loss=10%,rate=5MB/s"]
    return (f"src=worker:0,dst=worker:1,{chance.choice(conditions)}",) if chance.random() < 0.6 else ()


def _faults(chance: Random, case: Case) -> tuple[str, ...]:
    task, step = f"worker:{case.which}", case.at
    if case.program == "sh":  # nobody counts its steps
        again = chance.choice(("", ",restart=50ms"))
        return (f"kind=kill,task={task},time={chance.randint(50, 250)}ms{again}",)
    if case.program == "talks":
        link = f"src=worker:0,dst=worker:1,of=worker:0,step={min(step, case.steps - 1)},duration=100ms"
        kinds = ["delay,delay=20ms", "jitter,jitter=10ms", "partition,mode=hold", "stall", "rate,rate=100kB/s"]
        return (f"kind={chance.choice(kinds)},{link}",)
    kinds = [
        "kill", "kill,restart=50ms", "pause,duration=100ms", "preempt,grace=300ms,restart=50ms",
        "crash_loop,times=2,restart=20ms", "slow,per_step=20ms,duration=100ms",
    ]  # fmt: skip
    kind = chance.choice(kinds)
    if kind.startswith("slow"):
        step = min(step, case.steps - 1)  # it strikes the steps that follow
    faults = [f"kind={kind},task={task},step={step}"]
    if case.workers > 1 and chance.random() < 0.3:
        other = f"worker:{(case.which + 1) % case.workers}"
        faults.append(f"kind=pause,duration=50ms,task={other},step={chance.randint(1, case.steps)}")
    return tuple(faults)


def _limit(chance: Random) -> Limit:
    what = chance.choice(("files", "file_bytes", "disk_bytes", "memory_bytes"))
    amounts = {"files": (12, 20, 30, 40), "file_bytes": (0, 500, 3000), "disk_bytes": (16384, 65536, 262144),
               "memory_bytes": (1 << 20,)}  # fmt: skip
    return Limit(what, chance.choice(amounts[what]), round(chance.uniform(0.0, 1.0), 3))


def command_of(case: Case, out: Path) -> list[str]:
    """The words after `lockstep`."""
    program = [sys.executable, str(HERE / "program.py"), case.program, *map(str, (case.which, case.at, case.steps))]
    program.append(str(case.pause))
    if case.program == "sh":
        # Long enough for a fault at a time that counts from when all are up.
        program = ["sh", "-c", f"sleep {2 if case.faults else 0.4}; echo done"]
    elif case.program == "tensorflow":
        program = [sys.executable, str(HERE / "tensorflow_program.py")]
    asked = ["run", "--worker", str(case.workers), "--json", "--quiet", "--timeout", str(case.timeout)]
    asked += ["--seed", str(case.seed), "--restarts", str(case.restarts), "--out", str(out)]
    asked += ["--machines", "env SOAK_MACHINE={}:m0,m1"] if case.machines else ["--network", case.network]
    for option, values in (("--fault", case.faults), ("--link", case.links)):
        for value in values:
            asked += [option, value]
    if case.program in ("steps", "talks"):
        asked += ["--steps", "explicit"]
    return [*asked, "--", *program]
