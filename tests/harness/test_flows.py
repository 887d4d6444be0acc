"""What workers have combined is followed through the graphs of `tf.function`s to the variables that it changes."""

from __future__ import annotations

from typing import Any

import pytest

from simulator import Cluster, Topology

Seen = dict[str, tuple[str, ...]]

# Of each function below the variables into which goes what was combined.
_CHANGED: dict[str, tuple[str, ...]] = {
    "assigned": ("a",),
    "through a variable": ("a", "b"),
    "read by another function": ("a", "b"),
    "in a called function": ("a",),
    "out of a called function": ("a",),
    "to each copy": ("pair",),
    "only returned": (),
    "beside it": (),
    "out of a called function beside it": (),
    "eager": (),
}


def _probe() -> Seen:
    """Each function with a number that stands for what was combined, and what is said of the variables then."""
    import tensorflow as tf

    from harness.recording.flows import Flows

    seen = {}
    for name in _CHANGED:
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            pair = tf.Variable(1.0, name="pair", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        variables = {"a": tf.Variable(1.0), "b": tf.Variable(1.0), "pair": pair}
        flows = Flows()
        _run(name, variables, flows)
        seen[name] = flows.changed([(each, [variable]) for each, variable in variables.items()])
    return seen


def _run(name: str, variables: dict[str, Any], flows: Any) -> None:
    import tensorflow as tf

    a, b = variables["a"], variables["b"]

    def combined(value: Any) -> Any:
        result = tf.identity(value)
        flows.combined(result)
        return result

    @tf.function
    def update(value: Any) -> None:
        a.assign_sub(0.1 * value)

    @tf.function
    def several(value: Any) -> Any:
        return combined(value), value + 1

    def through_a_variable(x: Any) -> None:
        a.assign(0.9 * a + combined(x))
        b.assign_sub(0.1 * tf.identity(a))

    def out_of_a_function(x: Any, which: int) -> None:
        a.assign_sub(several(x)[which])

    def beside(x: Any) -> Any:
        a.assign_sub(0.1 * x)
        return combined(x) + a

    functions = {
        "assigned": lambda x: a.assign_sub(0.1 * combined(x)),
        "through a variable": through_a_variable,
        "read by another function": lambda x: update(combined(x)),
        "in a called function": lambda x: update(2.0 * combined(x)),
        "out of a called function": lambda x: out_of_a_function(x, 0),
        "to each copy": lambda x: variables["pair"].assign(combined(x)),
        "only returned": combined,
        "beside it": beside,
        "out of a called function beside it": lambda x: out_of_a_function(x, 1),
        "eager": through_a_variable,
    }
    x = tf.constant(1.0)
    functions[name](x) if name == "eager" else tf.function(functions[name])(x)
    if name == "read by another function":
        # It combines something too, or nobody would look at it.
        tf.function(lambda x: (b.assign(2.0 * a), combined(x)))(x)


@pytest.fixture(scope="module")
def seen() -> Seen:
    """What one process says of all of them."""
    with Cluster(Topology(), timeout=60) as cluster:
        value: Seen = cluster.run(_probe)["local:0"].value
    return value


@pytest.mark.parametrize("name", _CHANGED)
def test_what_was_combined_is_followed_into_variables(seen: Seen, name: str) -> None:
    """Into those that it changes, also by way of others and of functions, and into no others."""
    assert seen[name] == _CHANGED[name]
