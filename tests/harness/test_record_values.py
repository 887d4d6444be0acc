"""What `record` refuses: at the call, in one sentence, and before anything of that call is recorded."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import observe
from harness.evidence.trace import Array
from harness.recording.record_values import ValuePlace, array_of, key_of
from simulator import RunFailed

LOSS = ValuePlace("record.step", "loss")


class _Tensor:
    """Something that NumPy refuses to read."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("it requires a gradient\nand more")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("abc", "record.step got a str as loss; accepted are numbers of at most 64 bits"),
        (b"abc", "got a bytes as loss"),
        (np.array(["a"]), "got an array of str32 as loss"),
        ({"a": 1.0}, "got a dict as loss"),
        ([1.0, None], r"got a list with a NoneType at [1] as loss"),
        (np.array([[1, "x"]], object), "got an array of object with a str at [0, 1] as loss"),
        (2**70, "got the integer 1180591620717411303424 as loss: it does not fit into 64 bits"),
        (10**5000, "got the integer of 16610 bits as loss"),
        ([1, -(2**70)], "got the integer -1180591620717411303424 at [1] as loss"),
        (np.longdouble(1), "cast it to float64"),
        (np.clongdouble(1), "cast it to complex128"),
        (np.datetime64("2020-01-01"), "got a datetime64"),
        (np.timedelta64(1, "s"), "got a timedelta64"),
        ([[1.0], [1.0, 2.0]], "got a list as loss: NumPy cannot read it"),
        ((x for x in [1.0]), "got a generator as loss: a generator can be read only once; give a list"),
        ({1.0}, "got a set as loss"),
        (object(), "got an object as loss"),
        (len, "got a builtin_function_or_method as loss"),
        (_Tensor(), "got a _Tensor as loss: NumPy cannot read it (it requires a gradient)"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "got a masked array as loss: its mask would be lost"),
        (np.zeros(2, [("x", "f4")]), "got an array of void32 as loss"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_no_numbers_is_refused_in_one_sentence(value: Any, sentence: str) -> None:
    """The sentence names the call, what came, where, what to do if that is known, and what is accepted."""
    with pytest.raises(TypeError, match=re.escape(sentence)) as caught:
        array_of(value, LOSS)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("record.step got ")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, "float64"),
        (True, "bool"),
        (2**63, "uint64"),
        (-(2**63), "int64"),
        (1 + 2j, "complex128"),
        ([1.0, 2.0], "float64"),
        ([], "float64"),
        (np.float16(1.0), "float16"),
        (np.zeros((0, 3), np.int8), "int8"),
    ],
)
def test_numbers_of_64_bits_are_accepted(value: Any, dtype: str) -> None:
    """Also the largest, complex ones, and arrays without elements."""
    assert array_of(value, LOSS).dtype.name == dtype


@pytest.mark.parametrize("key", ["w", 0, 1.5, ("layer", 2)])
def test_a_name_is_what_every_process_writes_alike(key: Any) -> None:
    """Strings, numbers, and tuples of them."""
    assert key_of(key, LOSS) == str(key)


@pytest.mark.parametrize("key", [object(), ("a", object()), None, "\ud800"])
def test_another_name_is_refused(key: Any) -> None:
    """The text of an object may hold its address; a lone surrogate cannot be written."""
    with pytest.raises(TypeError, match=r"record\.step got .* loss"):
        key_of(key, LOSS)


def test_the_order_of_bytes_is_no_part_of_a_value() -> None:
    """An array in the order of another machine holds the same numbers."""
    assert Array.of(np.array([1.5, -2.0], ">f4")) == Array.of(np.array([1.5, -2.0], "<f4"))


def _calls(tf: Any, keras: Any, strategy: Any) -> list[tuple[str, dict[str, Any], str]]:
    """Calls that only TensorFlow makes possible, each with a part of its sentence."""
    one = tf.Variable([1.0], name="one")
    per_replica = strategy.run(lambda: tf.constant("a"))
    accepted = "accepted are numbers of at most 64 bits"
    return [
        ("step", {"loss": tf.constant("abc")}, f"record.step got a tensor of string as loss; {accepted}"),
        (
            "step",
            {"loss": tf.sparse.from_dense([1.0])},
            "got a SparseTensor of float32 as loss: give tf.sparse.to_dense",
        ),
        ("step", {"loss": keras.KerasTensor((2,))}, "got a KerasTensor of float32 as loss: it stands for"),
        ("step", {"loss": per_replica}, "got a tensor of string as loss"),
        ("step", {"loss": tf.ragged.constant([["a"], []])}, "got a RaggedTensor of string as loss"),
        (
            "step",
            {"loss": tf.cast(1.0, tf.dtypes.experimental.float8_e5m2)},
            "as loss: tf.cast it to float32, which loses nothing",
        ),
        ("step", {"gradients": {"w": tf.constant("a")}}, "got a tensor of string as gradients['w']; "),
        ("step", {"gradients": [one, {"b": 1.0}]}, "got a dict as gradients[1]; "),
        ("step", {"gradients": [tf.IndexedSlices(one, [0])]}, "as gradients[0]: it has no dense_shape"),
        ("step", {"metrics": {"m": tf.data.Dataset.range(2)}}, "got a _RangeDataset as metrics['m']"),
        (
            "step",
            {"metrics": {one.ref(): 1.0}},
            "as a name in metrics: its text may differ from process to process; accepted are",
        ),
        (
            "step",
            {"variables": [one, tf.Variable("s", name="text")]},
            "as variables[1] ('text'); accepted are TensorFlow",
        ),
        ("step", {"variables": {"w": None}}, "got a NoneType as variables['w']; "),
        ("step", {"variables": [[one, 1.0]]}, "got a float as variables[0][1]; "),
        ("step", {"variables": "abc"}, "got a str as variables; "),
        ("step", {"variables": {"w": [one]}}, "got a list as variables['w']; "),
        (
            "step",
            {"variables": keras.Sequential([keras.Input((1,))])},
            "got a Sequential as variables: give its .variables",
        ),
        ("step", {"variables": (v for v in [one])}, "got a generator as variables"),
        ("step", {"examples": [0.5]}, "got an array of float64 as examples: cast them if they are whole numbers; "),
        ("step", {"examples": {"worker:0": ["a"]}}, "as examples['worker:0']; accepted are integer ids"),
        ("step", {"examples": [2**63]}, "got 9223372036854775808 in examples: ids fit into int64"),
        ("step", {"epoch": 1.5}, "got a float as epoch; accepted are whole numbers of 64 bits"),
        ("step", {"epoch": 2**70}, "got the number 1180591620717411303424 as epoch"),
        (
            "final",
            {"predictions": {"p": [1.0, None]}},
            "record.final got a list with a NoneType at [1] as predictions['p']",
        ),
        ("final", {"variables": [one, None]}, "record.final got a NoneType as variables[1]"),
    ]


def _message(call: Callable[[], object]) -> str:
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error)
    return "nothing was raised"


def test_every_argument_is_checked_at_the_call() -> None:
    """What TensorFlow has and no trace can hold is refused, and leaves no step behind; the rest of the run goes on."""

    def train(strategy: Any, record: Any) -> None:
        import keras
        import tensorflow as tf

        function = tf.function(lambda: record.step(loss=1.0))
        said = [
            (_message(functools.partial(getattr(record, call), **given)), part)
            for call, given, part in _calls(tf, keras, strategy)
        ]
        said.append(
            (_message(function), "record.step was called inside a tf.function, where tensors have no values yet")
        )
        said.append((_message(lambda: strategy.run(lambda: record.step(loss=1.0))), "was called inside strategy.run"))
        wrong = [f"{message}\n   lacks: {part}" for message, part in said if part not in message or "\n" in message]
        assert not wrong, "\n".join(wrong)
        record.step(loss=tf.constant(2.0), variables=[], gradients=[None], metrics={}, examples=[])

    (client,) = observe(train, "mirrored-2").clients
    (step,) = client.steps
    assert (step.index, step.variables, step.gradients, step.metrics, step.examples) == (1, None, None, None, ((),))


def test_a_refusal_is_that_tasks_error_at_once() -> None:
    """The run fails with the sentence first, also from inside a tf.function, and names the task."""

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        tf.function(lambda: record.step(loss=tf.constant(1.0)))()

    with pytest.raises(RunFailed) as caught:
        observe(train, "default")
    assert str(caught.value).startswith("local:0 failed first: TypeError: record.step was called inside a tf.function")
