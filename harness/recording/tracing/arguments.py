"""What a function was called with: examples of an iterator, variables, numbers, and specifications that say less."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.step_graph import Argument
from harness.evidence.watched_step import WatchedVariable
from harness.recording.layouts import CopiesDiffer, numbers_of
from harness.recording.patches import patched
from harness.recording.watch.variables import Variables, outermost


class Yielded:
    """Knows what iterators gave, and whether a program distributes its input by hand."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, int]] = {}
        self._elements = 0
        self.by_hand = False

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._kept

    def source(self, value: Any) -> int:
        """The number of the element of which a value is."""
        return self._kept[id(value)][1]

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Listen in this context."""
        import tensorflow as tf
        from tensorflow.python.data.ops import iterator_ops
        from tensorflow.python.distribute import distribute_lib, input_lib

        def listening(original: Callable[..., Any]) -> Callable[..., Any]:
            def given(iterator: Any, *args: Any, **options: Any) -> Any:
                value = original(iterator, *args, **options)
                if tf.executing_eagerly():
                    self._elements += 1  # of what is given by several, the outermost comes last
                    for each in tf.nest.flatten(value, expand_composites=True):
                        self._kept[id(each)] = each, self._elements
                return value

            return given

        def noting(original: Callable[..., Any]) -> Callable[..., Any]:
            def distribute(strategy: Any, *args: Any, **options: Any) -> Any:
                self.by_hand = True
                return original(strategy, *args, **options)

            return distribute

        with contextlib.ExitStack() as stack:
            for owner, name in (
                (input_lib.DistributedIteratorBase, "get_next"),
                (input_lib.DistributedIteratorBase, "__next__"),
                (iterator_ops.OwnedIterator, "get_next"),
                (iterator_ops.OwnedIterator, "__next__"),
            ):
                stack.enter_context(patched(owner, name, listening))
            stack.enter_context(patched(distribute_lib.StrategyBase, "distribute_datasets_from_function", noting))
            yield


class Handles:
    """Knows of which copy of which variable a handle is."""

    def __init__(self, variables: Variables, first_replica: int) -> None:
        self._variables = variables
        self._first = first_replica
        self._copies: dict[int, int] = {}
        self._kinds: dict[str, WatchedVariable] | None = None
        self._trained: set[int] = set()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Listen in this context."""
        from tensorflow.python.distribute import values
        from tensorflow.python.ops import resource_variable_ops

        def plain(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(variable: Any, *args: Any, **options: Any) -> None:
                original(variable, *args, **options)
                if variable.trainable and variable.dtype.is_floating:
                    self._trained.add(getattr(variable.handle, "_id", -1))

            return create

        def made(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(variable: Any, *args: Any, **options: Any) -> None:
                original(variable, *args, **options)
                for number, copy in enumerate(variable._values):  # noqa: SLF001 - the copies in this process
                    self._copies[copy.handle._id] = self._first + number  # noqa: SLF001

            return create

        with (
            patched(values.DistributedVariable, "__init__", made),
            patched(resource_variable_ops.BaseResourceVariable, "__init__", plain),
        ):
            yield

    def argument(self, handle: Any) -> Argument | None:
        """The copy of a variable, or None if it is none."""
        name = self._variables.name(handle)
        if name is None:
            return None
        if self._kinds is None or name not in self._kinds:
            self._kinds = {each.name: each for each in self._variables.kinds()}
        kind = self._kinds[name]
        outer = outermost(handle)
        copy = self._copies.get(getattr(outer, "_id", -1))
        held = kind.kind if copy is not None else "plain"
        trained = getattr(outer, "_id", -1) in self._trained
        return Argument("variable", name, copy, held, kind.aggregation, digest=_held(outer), trainable=trained)


def _held(handle: Any) -> int:
    """What a variable holds, as a number: 0 where that is all zeros, -1 where it cannot be told."""
    from tensorflow.python.ops import gen_resource_variable_ops

    try:
        (kept,) = handle._handle_data.shape_and_type  # noqa: SLF001 - nothing public knows the dtype
        array = numbers_of(gen_resource_variable_ops.read_variable_op(handle, kept.dtype))
    except CopiesDiffer:
        raise
    except Exception:  # noqa: BLE001 - whatever cannot be read
        return -1
    return zlib.crc32(array.tobytes(), zlib.crc32(repr(array.shape).encode())) | 1 if array.any() else 0


def relaxed(values: Any, yielded: Yielded) -> Any:
    """What to trace with: of examples any number, of anything else what it is."""
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.distribute import input_lib
    from tensorflow.python.distribute.values import PerReplica, PerReplicaSpec

    def spec_of(tensor: Any) -> Any:
        shape = tensor.shape
        if shape.rank:
            shape = tf.TensorShape([None, *shape.as_list()[1:]])
        return tf.TensorSpec(shape, tensor.dtype)

    def looser(value: Any) -> Any:
        if isinstance(value, PerReplica) and all(each in yielded for each in value.values):
            return PerReplicaSpec(*(spec_of(each) for each in value.values))
        if isinstance(value, tf.Tensor) and value in yielded:
            return spec_of(value)
        if isinstance(value, (input_lib.DistributedIterator, iterator_ops.OwnedIterator)):
            return _of_iterator(value, spec_of)
        return value

    return tf.nest.map_structure(looser, values)


def lengths_of(values: Any, yielded: Yielded) -> list[int | None]:
    """How many rows each example has, of each replica, in order; iterators keep that to themselves."""
    import tensorflow as tf

    return [
        each.shape[0] if each.shape.rank else None
        for each in tf.nest.flatten(values, expand_composites=True)
        if isinstance(each, tf.Tensor) and each in yielded
    ]


def _of_iterator(value: Any, spec_of: Callable[[Any], Any]) -> Any:
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.distribute import input_lib
    from tensorflow.python.distribute.values import PerReplicaSpec

    def looser(spec: Any) -> Any:
        if isinstance(spec, PerReplicaSpec):
            return PerReplicaSpec(*(looser(each) for each in spec._value_specs))  # noqa: SLF001
        return spec_of(spec) if isinstance(spec, tf.TensorSpec) else spec

    if isinstance(value, iterator_ops.OwnedIterator):
        return iterator_ops.IteratorSpec(tf.nest.map_structure(looser, value.element_spec))
    return input_lib.DistributedIteratorSpec(
        value._input_workers,  # noqa: SLF001 - as its own from_value
        tf.nest.map_structure(looser, value._element_spec),  # noqa: SLF001
        value._strategy,  # noqa: SLF001
        value._options,  # noqa: SLF001
        cardinality=value._cardinality,  # noqa: SLF001
        enable_get_next_as_optional=value._enable_get_next_as_optional,  # noqa: SLF001
    )


def arguments_of(
    graph: Any, given: Any, yielded: Yielded, handles: Handles, first_replica: int
) -> tuple[Argument, ...]:
    """One for each input of a graph: those that it was called with, then what it has captured."""
    direct = list(_called_with(given, yielded, handles, first_replica))
    captured = list(graph.captures)
    deferred = list(graph.deferred_internal_captures)
    count = len(graph.inputs) - len(captured) - len(deferred)
    if count != len(direct):
        direct = [Argument("other", "the arguments could not be told apart")] * count
    found = list(direct)
    for position, (outer, _) in enumerate(captured):
        found.append(_captured(outer, position, handles))
    found += [Argument("token", "deferred")] * len(deferred)
    return tuple(found)


def pulled_of(given: Any, first: int) -> tuple[Argument, ...]:
    """The rows that iterators give to each replica, of the next batch; nothing where they are at their end."""
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.distribute import input_lib
    from tensorflow.python.distribute.values import PerReplica

    found = []
    for place, iterator in enumerate(tf.nest.flatten(given)):
        if isinstance(iterator, (input_lib.DistributedIterator, iterator_ops.OwnedIterator)):
            for leaf, value in enumerate(tf.nest.flatten(next(iterator))):
                for copy, each in enumerate(value.values if isinstance(value, PerReplica) else (value,)):
                    array = each.numpy() if isinstance(each, tf.Tensor) else None
                    rows = () if array is None or not array.ndim else tuple(zlib.crc32(row.tobytes()) for row in array)
                    found.append(Argument("example", f"iterator {place}, value {leaf}", first + copy, rows=rows))
    return tuple(found)


def _called_with(given: Any, yielded: Yielded, handles: Handles, first: int) -> Iterator[Argument]:
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.distribute import input_lib
    from tensorflow.python.distribute.values import PerReplica

    for place, value in enumerate(tf.nest.flatten(given)):
        name = f"argument {place}"
        if isinstance(value, PerReplica):
            yield from _of_each_replica(value, name, first, yielded)
        elif isinstance(value, iterator_ops.OwnedIterator):
            yield Argument("iterator", name)
        elif isinstance(value, input_lib.DistributedIterator):
            yield Argument("token", name)
            for copy in range(len(tf.nest.flatten(value, expand_composites=True)) - 1):
                yield Argument("iterator", name, first + copy)
        else:
            yield from _of_all(value, name, yielded, handles)


def _of_each_replica(value: Any, name: str, first: int, yielded: Yielded) -> Iterator[Argument]:
    import tensorflow as tf

    for copy, each in enumerate(value.values):
        if isinstance(each, tf.Tensor):
            yield _example(each, name, first + copy, yielded)
        else:
            for _ in tf.nest.flatten(each, expand_composites=True):
                yield Argument("other", f"{name} is no tensor", first + copy)


def _of_all(value: Any, name: str, yielded: Yielded, handles: Handles) -> Iterator[Argument]:
    import tensorflow as tf

    if hasattr(value, "handle") or hasattr(value, "_values"):
        for each in tf.nest.flatten(value, expand_composites=True):
            found = handles.argument(getattr(each, "handle", each))
            yield found or Argument("other", f"{name} is a variable that is not known")
    elif isinstance(value, tf.Tensor) or hasattr(value, "__array__"):
        tensor = value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(value)
        yield _example(tensor, name, None, yielded)
    elif isinstance(value, tf.__internal__.CompositeTensor):
        for _ in tf.nest.flatten(value, expand_composites=True):
            yield Argument("other", f"{name} is a {type(value).__name__}")


def _example(tensor: Any, name: str, replica: int | None, yielded: Yielded) -> Argument:
    if tensor.dtype.name in ("resource", "variant", "string"):
        return Argument("other", f"{name} is a {tensor.dtype.name}", replica)
    array = numbers_of(tensor)
    if tensor in yielded and array.ndim:
        rows = tuple(zlib.crc32(row.tobytes()) for row in array)
        return Argument("example", name, replica, rows=rows, source=yielded.source(tensor))
    if replica is not None:
        return Argument("other", f"{name} is of each replica, and did not come from an iterator", replica)
    return Argument("plain", name, digest=zlib.crc32(array.tobytes()))


def _captured(outer: Any, position: int, handles: Handles) -> Argument:
    if outer.dtype.name == "resource":
        return handles.argument(outer) or Argument("token", "a resource")
    if outer.dtype.name in ("variant", "string"):
        return Argument("other", f"a captured {outer.dtype.name}")
    if not hasattr(outer, "numpy"):
        return Argument("other", "a value that was captured from another graph")
    array = numbers_of(outer)
    shown = f"{array.dtype} {array.shape}"
    return Argument("plain", f"captured {shown}", digest=zlib.crc32(array.tobytes()))
