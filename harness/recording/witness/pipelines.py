"""The data sets that the program iterates: by which of its lines they were made, and given to the strategy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from harness.evidence.pipelines import Pipeline, Transformation
from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness.protocol import WitnessState

_PIPELINES_MAX = 64
_LINE, _GIVEN = "_lockstep_line", "_lockstep_given"


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note in `gathered.noted.pipelines` each data set that is iterated in this context, when it is so first."""
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.distribute import distribute_lib, input_lib

    noted = _Noted(gathered)
    strategy = distribute_lib.StrategyBase
    distributed = (input_lib.DistributedDataset, input_lib.DistributedDatasetsFromFunction)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(dataset_ops.DatasetV2, "__init__", noted.making))
        stack.enter_context(patched(strategy, "experimental_distribute_dataset", noted.distributing))
        stack.enter_context(patched(strategy, "distribute_datasets_from_function", noted.distributing_function))
        for kind in (dataset_ops.DatasetV2, *distributed):
            stack.enter_context(patched(kind, "__iter__", noted.iterating))
        for kind in distributed:  # a loop over it in a `tf.function`
            stack.enter_context(patched(kind, "reduce", noted.iterating))
        yield


class _Noted:
    """Notes on data sets where they are made and distributed what is said of them when they are iterated."""

    def __init__(self, gathered: WitnessState) -> None:
        self._gathered = gathered
        self._places = Places()

    def making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(dataset: Any, *args: Any, **options: Any) -> Any:
            found = original(dataset, *args, **options)
            with self._gathered.looking("pipelines"):
                setattr(dataset, _LINE, self._places.line())
            return found

        return make

    def distributing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def distribute(strategy: Any, dataset: Any, *args: Any, **options: Any) -> Any:
            found = original(strategy, dataset, *args, **options)
            self._given(found, [dataset], "dataset")
            return found

        return distribute

    def distributing_function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def distribute(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            # One for each input pipeline of this process, which are made alike.
            self._given(found, getattr(found, "_datasets", None) or (), "function")
            return found

        return distribute

    def iterating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(dataset: Any, *args: Any, **options: Any) -> Any:
            if _GIVEN not in vars(dataset):
                self._given(dataset, [dataset], None)
            self._note(vars(dataset).get(_GIVEN))
            return original(dataset, *args, **options)

        return iterate

    def _note(self, pipeline: Pipeline | None) -> None:
        known = self._gathered.noted.pipelines
        if pipeline is not None and len(known) < _PIPELINES_MAX:
            known.setdefault(pipeline, self._gathered.number)

    def _given(self, given: Any, datasets: Sequence[Any], how: Literal["dataset", "function"] | None) -> None:
        """Note on what is to be iterated of which data sets it is made."""
        import tensorflow as tf

        with self._gathered.looking("pipelines"):
            # What a coordinator's worker iterates is distributed already, and tells nothing of how it was made.
            known = [each for each in datasets if isinstance(each, tf.data.Dataset)]
            if not known or (line := self._places.line()) is None:
                return
            pipeline = Pipeline(line, how, tuple(_made(known[0])))
            setattr(given, _GIVEN, pipeline)
            if how is not None and not tf.executing_eagerly():  # a coordinator's workers iterate it
                self._note(pipeline)


def _made(dataset: Any) -> Iterator[Transformation]:
    """What a data set is made of, the last one first; of one that is made of several, one after another."""
    rest = [dataset]
    while rest:
        dataset = rest.pop(0)
        inputs = dataset._inputs()  # noqa: SLF001 - there is no public way
        if (line := getattr(dataset, _LINE, None)) is not None:
            policies = [_policy(each) for each in (dataset, *inputs)]
            changed = len(policies) == 2 and policies[0] != policies[1]
            kind = type(dataset).__name__.strip("_").removesuffix("Dataset")
            yield Transformation(f"AutoShardPolicy.{policies[0]}" if changed else kind, line)
        rest += inputs


def _policy(dataset: Any) -> str:
    return str(dataset.options().experimental_distribute.auto_shard_policy.name)
