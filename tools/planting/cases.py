"""What is planted, where and when: drawn from a seed for each case."""

from __future__ import annotations

import random

import msgspec

EVERY = 10
KINDS = ("weight", "gradient", "reduction", "file", "rate", "shard", "statistics")
OF_COPIES = ("weight", "reduction")
"""Those of which copies tell: of two the one or the other, and of three one."""
_PLANTED, _HEALTHY = 60, 60
_STEPS, _LONG, _RARELY = 50, 1000, 100
_ROWS, _FEW_ROWS = 2048, 64


class Case(msgspec.Struct, frozen=True):
    """A watched training, and its fault.

    Attributes:
        name: of it.
        kind: of the fault; `healthy` where there is none.
        strategy: `mirrored` or `multi_worker`.
        step: in which, after which or from which on something is wrong.
        replica: on which.
        bit: that turns over.
        element: whose.
        steps: of the training.
        rows: of a batch.
        every: steps of such numbers leave evidence.
        replicas: of the training.
    """

    name: str
    kind: str
    strategy: str
    step: int
    replica: int
    bit: int
    element: int
    steps: int
    rows: int
    every: int
    replicas: int = 2

    @property
    def who(self) -> str:
        """What findings call the replica."""
        return f"worker:{self.replica}" if self.strategy == "multi_worker" else f"local:0 replica {self.replica}"

    @property
    def fault(self) -> str | None:
        """As of `--fault`, where a fault of the simulator plants it."""
        if self.kind not in ("weight", "gradient", "reduction"):
            return None
        target = "variable" if self.kind == "weight" else self.kind
        where = f"task={self.who}" if self.strategy == "multi_worker" else f"task=local:0,replica={self.replica}"
        number = f"target={target},element={self.element},bit={self.bit}"
        return f"kind=bitflip,{where},step={self.step},{number}"


def cases() -> list[Case]:
    """All of them: what is planted in turns, what of that three copies tell, and healthy trainings."""
    planted = [*map(_planted, range(_PLANTED))]
    of_three = (case for case in planted if case.kind in OF_COPIES)
    return [*planted, *map(_of_three, of_three), *map(_healthy, range(_HEALTHY))]


def _planted(number: int) -> Case:
    drawn = random.Random(f"planted {number}")
    kind = KINDS[number % len(KINDS)]
    step = drawn.randrange(2, _STEPS - EVERY)
    bit = drawn.randrange(32)
    if kind in ("gradient", "file"):  # what no judged step has leaves no trace
        step = EVERY * drawn.randrange(1, _STEPS // EVERY)
    if kind == "gradient":  # of less than a rounding error nobody can tell
        bit = drawn.randrange(20, 31)
    strategy = drawn.choice(("mirrored", "mirrored", "multi_worker"))
    element = drawn.randrange(1 << 12)
    return Case(f"{kind}-{number}", kind, strategy, step, drawn.randrange(2), bit, element, _STEPS, _ROWS, EVERY)


def _of_three(case: Case) -> Case:
    return msgspec.structs.replace(case, name=f"{case.name}-of-3", replica=case.element % 3, replicas=3)


def _healthy(number: int) -> Case:
    strategy = "multi_worker" if number % 3 == 2 else "mirrored"
    return Case(f"healthy-{number}", "healthy", strategy, 0, 0, 0, 0, _LONG, _FEW_ROWS, _RARELY)
