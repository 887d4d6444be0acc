"""Copies of a variable are known by one name, also where several variables have none."""

from __future__ import annotations

from simulator import Cluster, Topology


def _names() -> list[list[str | None]]:
    import tensorflow as tf

    from harness.recording.watch.variables import Variables

    known = Variables(lambda: None)
    with known.active():
        outside = tf.Variable(0.0)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            inside = [tf.Variable(1.0), tf.Variable(2.0)]
    return [[known.name(copy.handle) for copy in copies] for copies in ([outside], *(each.values for each in inside))]


def test_copies_of_a_variable_without_a_name_have_that_of_the_first() -> None:
    """One that was made outside of all scopes counts among the first copies, and not among the others."""
    with Cluster(Topology(devices="cpu:2"), timeout=120) as cluster:
        outside, *inside = cluster.run(_names)["local:0"].value
    assert all(len(set(names)) == 1 for names in inside)
    assert len({outside[0], *(names[0] for names in inside)}) == 3
