"""What is drawn without a seed: the same in each run of the harness, and another in every worker, as in a cluster."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@contextlib.contextmanager
def own_shuffles(client: int, process: int) -> Iterator[DatasetDraws]:
    """Within this context, what is drawn without a seed differs from client to client.

    The harness gives every client the same seed, so that clients can be compared at all. Nobody does so in a cluster:
    there, workers that shuffle without a seed before they shard read overlapping shards, and a program that is started
    again shuffles anew. So what `tf.data` draws without a seed differs, the order of what its functions shuffle, and in
    another client what operations draw outside of replicas; but only as long as the program has not called
    `tf.random.set_seed`, or Keras's `set_random_seed`, which make workers draw alike (`tf.random.set_seed`, "If the
    global seed is set but the operation seed is not"). The first client draws as the reference does.

    Args:
        client: number of this client, from 0.
        process: the same, counted on where clients are started again.
    """
    # Datasets ask the first for their seeds, operations the second. An operation in the function of a `Dataset.map`
    # shuffles the arrays that tf_keras's `fit` is given. Noise is left alike on workers, which tells examples apart.
    from tensorflow.python.data.ops.structured_function import StructuredFunctionWrapper
    from tensorflow.python.data.util import random_seed as seeds_of_datasets
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.eager import context
    from tensorflow.python.framework import random_seed as seeds_of_operations

    outside, offset, tracing, drawn = client, process, Tracing(), DatasetDraws()

    def of_datasets(get_seed: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def own_get_seed(seed: Any) -> Any:
            first, second = get_seed(seed)
            own = seed is None and offset > 0
            drawn.orders += own
            return (first, second + offset) if own else (first, second)

        return own_get_seed

    def of_operations(get_seed: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def own_get_seed(op_seed: Any) -> Any:
            first, second = get_seed(op_seed)
            if op_seed is not None or second is None:
                return first, second
            own, more = (_shuffles(), offset) if tracing.function else (_on_host(), outside)
            drawn.outside += own and more > 0 and not tracing.function and not distribute_lib.has_strategy()
            return (first, second + more) if own else (first, second)

        return own_get_seed

    def own_global_seed(set_global_seed: Callable[[Any], None]) -> Callable[[Any], None]:
        def own_set_global_seed(seed: Any) -> None:
            nonlocal outside, offset
            outside = offset = 0
            set_global_seed(seed)

        return own_set_global_seed

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(seeds_of_datasets, "get_seed", of_datasets))
        stack.enter_context(patched(seeds_of_operations, "get_seed", of_operations))
        stack.enter_context(patched(StructuredFunctionWrapper, "__init__", tracing.noted))
        stack.enter_context(patched(context, "set_global_seed", own_global_seed))
        for module, name in random_operations():
            stack.enter_context(patched(module, name, _counted(tracing, drawn)))
        yield drawn


def _counted(tracing: Tracing, drawn: DatasetDraws) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(draw: Callable[..., Any]) -> Callable[..., Any]:
        def counted_draw(*args: Any, **options: Any) -> Any:
            drawn.times += tracing.function
            return draw(*args, **options)

        return counted_draw

    return around


class Tracing(threading.local):
    """Whether this thread traces a function of a dataset, and how many draws that has had until now."""

    function = False
    draws = 0

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


def _on_host() -> bool:
    """Whether what is drawn is drawn outside of replicas, as a worker does for itself: an order of files, a coin."""
    from tensorflow.python.distribute import distribute_lib

    return distribute_lib.in_cross_replica_context() or not distribute_lib.has_strategy()


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
