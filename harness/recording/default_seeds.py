"""What is drawn without a seed: the same in each run of the harness, and another in every worker, as in a cluster."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

from harness.recording.patches import patched
from harness.recording.random_operations import random_operations

if TYPE_CHECKING:
    from harness.subject.program import Program
    from harness.subject.strategies import StrategyCase


@dataclass
class UnseededDraws:
    """How often the program asked NumPy for a generator without a seed."""

    times: int = 0


@dataclass
class DatasetDraws:
    """What is drawn in the program's datasets, and outside of replicas without a seed.

    Attributes:
        times: operations that draw in functions of datasets.
        orders: datasets without a seed, where they draw other numbers than in the reference.
        outside: operations of which that is so, outside of the scope of any strategy.
        numpy: the state of NumPy's own generator before the program, where that is another one than in the reference;
            None once the program has seeded it.
    """

    times: int = 0
    orders: int = 0
    outside: int = 0
    numpy: Any = None

    def counted(self, program: Program) -> dict[str, int]:
        """As `Counters` has it. What NumPy's own generator drew counts once; draws that are fixed count nothing."""
        times = 0 if program.fixed_draws else self.times
        apart = self.outside + (self.numpy is not None and self.numpy != _state_of_numpy())
        return {"dataset_draws": times, "dataset_orders": self.orders, "drawn_apart": apart}


def _state_of_numpy() -> tuple[bytes, int]:
    import numpy as np

    _, keys, place, *_ = np.random.get_state()
    return np.asarray(keys).tobytes(), int(place)


@contextlib.contextmanager
def seeded_generators(seed: int, client: int, *, apart: bool = False) -> Iterator[UnseededDraws]:
    """Within this context `numpy.random.default_rng()` and its relatives, called without a seed, have one.

    With entropy of the operating system each run would see data of its own, and none could be compared with another.
    The n-th generator of a client is the same in each run. Clients differ from each other, since nobody seeds them
    alike in a cluster; the first one draws as the reference does.

    Args:
        seed: of the run.
        client: number of this client, from 0.
        apart: whether TensorFlow draws otherwise than by the seed that the program gives it, too.
    """
    from numpy.random import bit_generator

    drawn = UnseededDraws()
    number = 0

    def entropy(bits: int) -> int:
        nonlocal number
        number += 1
        # `RandomState(7)` asks as well, before it takes its seed; it is not worth a note.
        drawn.times += "RandomState" not in sys._getframe(1).f_code.co_names  # noqa: SLF001 - there is no other way
        return ((seed * 1000 + client) * 1_000_003 + number) % (1 << bits)

    # `SeedSequence` asks this function, of the standard library's `secrets`, if it is given no entropy.
    with mock.patch.object(bit_generator, "randbits", entropy), _other_seeds() if apart else contextlib.nullcontext():
        yield drawn


@contextlib.contextmanager
def _other_seeds() -> Iterator[None]:
    """Within this context TensorFlow draws otherwise than by the seed that the program gives it."""
    from tensorflow.python.eager import context

    set_global_seed = context.set_global_seed

    def set_other_seed(seed: Any) -> None:
        set_global_seed(seed if seed is None else seed + 1)

    with mock.patch.object(context, "set_global_seed", set_other_seed):
        yield


@contextlib.contextmanager
def own_draws(case: StrategyCase, client: int, started: int) -> Iterator[DatasetDraws]:
    """Within this context a process draws otherwise than the first client's first one, if it is another.

    Args:
        case: under which it runs.
        client: number of its task among the clients, from 0.
        started: how often that task had been started before.

    Yields:
        a count of what datasets draw.
    """
    import numpy as np

    if not case.family.draws_apart and not started:
        yield DatasetDraws()
        return

    def noted(seed: Callable[..., None]) -> Callable[..., None]:
        def own_seed(*args: Any, **options: Any) -> None:
            drawn.numpy = None
            seed(*args, **options)

        return own_seed

    with own_shuffles(client, client + len(case.clients) * started) as drawn, patched(np.random, "seed", noted):
        drawn.numpy = _state_of_numpy() if client else None
        yield drawn


class FunctionTracing(threading.local):
    """Whether this thread traces a function of a dataset, and how many draws that has had until now.

    `dataset` is whether it asks for the seed of a dataset, which asks for that of an operation.
    """

    function = dataset = False
    draws = 0

    @contextlib.contextmanager
    def seeds_dataset(self) -> Iterator[None]:
        """Within this context a dataset gets its seed."""
        self.dataset = True
        try:
            yield
        finally:
            self.dataset = False

    def noted(self, build: Callable[..., None]) -> Callable[..., None]:
        """What builds such a function, with a note of it while it does."""

        def own_build(wrapper: Any, *args: Any, **options: Any) -> None:
            outer = self.function, self.draws
            self.function, self.draws = True, 0
            try:
                build(wrapper, *args, **options)
            finally:
                self.function, self.draws = outer

        return own_build


# TensorFlow numbers what it draws without a seed one by one, so that what is next to a seed is that of another draw.
_APART = 1_000_003


@dataclass
class _OwnSeeds:
    """By how much the seeds of a process differ that the program has not given.

    Attributes:
        operations: those of operations.
        datasets: those of datasets, and of operations that shuffle in them.
        tracing: of functions of datasets.
        drawn: counts what is drawn so.
    """

    operations: int
    datasets: int
    tracing: FunctionTracing = field(default_factory=FunctionTracing)
    drawn: DatasetDraws = field(default_factory=DatasetDraws)

    def of_datasets(self, get_seed: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def own_get_seed(seed: Any) -> Any:
            with self.tracing.seeds_dataset():
                first, second = get_seed(seed)
            own = seed is None and self.datasets > 0
            self.drawn.orders += own
            return (first, second + self.datasets) if own else (first, second)

        return own_get_seed

    def of_operations(self, get_seed: Callable[[Any], Any]) -> Callable[[Any], Any]:
        from tensorflow.python.distribute import distribute_lib

        def own_get_seed(op_seed: Any) -> Any:
            first, second = get_seed(op_seed)
            if op_seed is not None or second is None or self.tracing.dataset:
                return first, second
            if self.tracing.function:
                return first, second + (self.datasets if _shuffles() else 0)
            self.drawn.outside += self.operations > 0 and not distribute_lib.has_strategy()
            return first, second + self.operations

        return own_get_seed

    def of_program(self, set_global_seed: Callable[[Any], None]) -> Callable[[Any], None]:
        def own_set_global_seed(seed: Any) -> None:
            self.operations = self.datasets = 0
            set_global_seed(seed)

        return own_set_global_seed


@contextlib.contextmanager
def own_shuffles(client: int, process: int) -> Iterator[DatasetDraws]:
    """Within this context, what is drawn without a seed differs from client to client.

    The harness gives every client the same seed, so that clients can be compared at all. Nobody does so in a cluster:
    there, workers that shuffle without a seed before they shard read overlapping shards, and a program that is started
    again shuffles anew. So what `tf.data` draws without a seed differs, the order of what its functions shuffle, and in
    another client what operations draw outside of datasets; but only as long as the program has not called
    `tf.random.set_seed`, or Keras's `set_random_seed`, which make workers draw alike (`tf.random.set_seed`, "If the
    global seed is set but the operation seed is not"). The first client draws as the reference does.

    Args:
        client: number of this client, from 0.
        process: the same, counted on where clients are started again.
    """
    # Datasets ask the first for their seeds, operations the second. An operation in the function of a `Dataset.map`
    # shuffles the arrays that tf_keras's `fit` is given. Noise in datasets is left alike: it tells examples apart.
    from tensorflow.python.data.ops.structured_function import StructuredFunctionWrapper
    from tensorflow.python.data.util import random_seed as seeds_of_datasets
    from tensorflow.python.eager import context
    from tensorflow.python.framework import random_seed as seeds_of_operations

    seeds = _OwnSeeds(client * _APART, process * _APART)
    seams: list[tuple[Any, str, Callable[..., Any]]] = [
        (seeds_of_datasets, "get_seed", seeds.of_datasets),
        (seeds_of_operations, "get_seed", seeds.of_operations),
        (StructuredFunctionWrapper, "__init__", seeds.tracing.noted),
        (context, "set_global_seed", seeds.of_program),
        *((module, name, _counted(seeds.tracing, seeds.drawn)) for module, name in random_operations()),
    ]
    with contextlib.ExitStack() as stack:
        for seam in seams:
            stack.enter_context(patched(*seam))
        yield seeds.drawn


def _counted(tracing: FunctionTracing, drawn: DatasetDraws) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(draw: Callable[..., Any]) -> Callable[..., Any]:
        def counted_draw(*args: Any, **options: Any) -> Any:
            drawn.times += tracing.function
            return draw(*args, **options)

        return counted_draw

    return around


def _shuffles() -> bool:
    """Whether the operation that asks for a seed is `tf.random.shuffle`; others of Lockstep's may stand between."""
    frame = sys._getframe(2)  # noqa: SLF001 - nothing else tells
    while frame.f_code.co_name.endswith("get_seed") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name == "random_shuffle"


# Seeds of tf_keras before 2.19, which asks a seeded generator for a whole number up to `1e9`, a float.
#
# From Python 3.12 on `random.Random.randint` takes no floats, so that every layer raises once a seed was set, which
# is what Lockstep does in every run (tf_keras/src/backend.py:2032 of 2.18).


_MENDED = (2, 19)
_STRICT = (3, 12)


class _Whole(random.Random):
    """Takes floats that are whole numbers, and draws what it would draw anyway."""

    def randint(self, a: float, b: float) -> int:
        """A whole number from `a` to `b`, both included."""
        return super().randint(int(a), int(b))


def mend_seeds(tf_keras: ModuleType, seed: int, python: tuple[int, ...] = sys.version_info[:2]) -> None:
    """Give an old tf_keras a generator that it can ask, after `set_random_seed`.

    Args:
        tf_keras: the package.
        seed: that was set.
        python: the version of Python.
    """
    if python < _STRICT or tuple(map(int, tf_keras.__version__.split(".")[:2])) >= _MENDED:
        return
    backend = sys.modules[f"{tf_keras.__name__}.src.backend"]
    backend._SEED_GENERATOR.generator = _Whole(seed)  # noqa: SLF001 - where `set_random_seed` has put its own
