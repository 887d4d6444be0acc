"""What is known of the scale of a step from the script as it is on one device."""

from __future__ import annotations

import numpy as np
import pytest

from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, SeenVariable, Start, Value
from harness.judging.native_scale import adds_up, factor_of, is_whole, taken_of_sum, times_of
from harness.judging.reduction import share_of
from tests.harness._loop import LOOP, Verified


def _step(*parts: float, reduced: float | None = None, also: float = 1.0) -> Seen:
    """One in which each local replica took a gradient of two elements, and something was reduced."""
    taken = tuple(Array.of([part, also * part]) for part in parts)
    sums = () if reduced is None else (Value("", (Array.of([reduced, also * reduced]),)),)
    return Seen(1, 0.0, gradients=(Value("w", taken, per_replica=True),), reduced=sums)


def _run(*steps: Seen) -> RunTrace:
    return RunTrace((ClientTrace(Header("local:0", 0, "mirrored-2", 2, 2, 1, 20), seen=steps),))


@pytest.mark.parametrize(
    ("steps", "linear"),
    [
        ([_step(1.0, 2.0, reduced=3.0)], True),
        ([_step(1.0, 2.0, reduced=1.5)], True),  # their mean
        ([_step(1.0, 2.0, reduced=2.5)], False),  # something was done to one of them before
        ([_step(1.0, 2.0)], False),  # nobody knows what was reduced
        ([_step(1.0, 2.0), _step(2.0, 1.0, reduced=6.0)], True),  # of two steps
        ([_step(1.0, 2.0), _step(2.0, 1.0, reduced=4.0)], False),
        ([_step(1.0, 2.0, reduced=3.0), _step(1.0, 2.0, reduced=2.5)], False),
    ],
)
def test_replicas_do_nothing_by_themselves_where_gradients_add_up(steps: list[Seen], linear: bool) -> None:
    """At every step, to a multiple of what one device takes, and reduced as they were taken, or accumulated."""
    one = _run(*(_step(4.0) for _ in steps))
    assert adds_up(_run(*steps), one, 2) is linear
    if linear:
        assert not adds_up(_run(*steps), _run(*(_step(4.0, also=1.1) for _ in steps)), 2)


@pytest.mark.parametrize(
    ("run", "native", "factor"),
    [
        (_step(1.0, 3.0, reduced=4.0), _step(4.0), 1.0),
        (_step(1.0, 3.0, reduced=4.0), _step(2.0), 2.0),
        (_step(1.0, 3.0, reduced=2.0), _step(1.0, 3.0), 1.0),  # the mean of steps on the rows of each
        (_step(1.0, 3.0, reduced=4.0), _step(1.0, 3.0), 2.0),
        (_step(1.0, 3.0), _step(4.0), None),
        (_step(1.0, 3.0, reduced=2.5), _step(4.0), None),
    ],
)
def test_what_replicas_contribute_is_known_where_it_is_reduced_as_it_was_taken(
    run: Seen, native: Seen, factor: float | None
) -> None:
    """Else what is divided in between may be what is wrong."""
    assert factor_of(_run(run), _run(native), 2) == (None if factor is None else pytest.approx(factor))


def _moved(end: float, also: float, *, name: str = "w", by_hand: bool = True) -> RunTrace:
    """A run that takes no gradients, whose first step moves a variable of two elements from one."""
    begun = SeenVariable("w", "mirrored", (Array.of(np.ones(2, np.float32)),))
    ended = SeenVariable(name, "mirrored", (Array.of(np.array([end, 1 + also], np.float32)),))
    header = Header("local:0", 0, "mirrored-2", 2, 2, 1, 20)
    seen = Seen(1, 0.0, variables=(ended,), by_hand=by_hand)
    return RunTrace((ClientTrace(header, seen=(seen,), start=Start(0.0, (begun,))),))


@pytest.mark.parametrize(
    ("run", "native", "factor"),
    [
        (_moved(3.0, 2.0), _moved(3.0, 2.0), 1.0),
        (_moved(3.0, 2.0), _moved(2.0, 1.0), 2.0),
        (_moved(3.0, 2.0), _moved(2.0, 3.0), None),
        (_moved(3.0, 2.0), _moved(2.0, 1.0, name="other"), None),
        (_moved(3.0, 2.0, by_hand=False), _moved(2.0, 1.0, by_hand=False), None),  # gradients that were not seen
    ],
)
def test_what_a_step_by_hand_moves_tells_what_replicas_contribute(
    run: RunTrace, native: RunTrace, factor: float | None
) -> None:
    """No gradient is seen of such a step; what one replica moves by its own examples says nothing."""
    assert factor_of(run, native, 2) == (None if factor is None else pytest.approx(factor))
    assert times_of(run, native, 2) == (None if factor is None else pytest.approx(factor))
    assert factor_of(run, native, 2, first=True) is None


@pytest.mark.parametrize(
    ("run", "native", "factor"),
    [
        (_step(1.0, 3.0, reduced=4.0), _step(2.0), 1.0),  # half of it
        (_step(1.0, 3.0, reduced=4.0), _step(1.0), 2.0),
        (_step(1.0, 3.0, reduced=2.0), _step(1.0), 1.0),  # their mean
        (_step(1.0, 3.0), _step(2.0), None),
    ],
)
def test_what_the_first_replica_contributes_is_known_from_its_own_examples(
    run: Seen, native: Seen, factor: float | None
) -> None:
    """One of two contributes half of what one device computes from the same."""
    found = factor_of(_run(run), _run(native), 2, first=True)
    assert found == (None if factor is None else pytest.approx(factor))


@pytest.mark.full
@pytest.mark.parametrize("mean", [True, False])
def test_a_batch_that_is_written_as_a_number_is_settled_on_one_device(mean: bool, verified: Verified) -> None:
    """Where replicas are averaged, each step is the mean of what one device does with the rows of each; else it is
    twice that, and whether the number is meant for this cluster nobody knows.
    """
    loop = LOOP.replace("BATCH = 4 * strategy.num_replicas_in_sync", "BATCH = 4")
    loop = loop.replace(".batch(BATCH)", ".batch(BATCH * int(strategy.num_replicas_in_sync))")
    loop = loop.replace('all_reduce("sum"', 'all_reduce("mean"') if mean else loop
    verdict = verified(loop, "mirrored-2", "1", explain=False)
    assert verdict.outcome == ("consistent" if mean else "abstained"), str(verdict)
    assert any("the mean of steps on the examples of each replica" in note for note in verdict.notes) is mean


_LOSS = "tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / BATCH"


@pytest.mark.full
@pytest.mark.parametrize(
    ("size", "loss", "outcome"),
    [
        ("BATCH", _LOSS, "abstained"),
        ("BATCH", "tf.nn.compute_average_loss((tf.linalg.matvec(x, w) - y) ** 2, None, BATCH)", "inconsistent"),
        ("4", _LOSS, "consistent"),
    ],
)
def test_a_batch_that_each_replica_reads_whole_is_no_mean_of_steps(
    size: str, loss: str, outcome: str, verified: Verified
) -> None:
    """On one device the script reads fewer examples than a replica has, and divides by as many."""
    loop = LOOP.replace(_LOSS, loss).replace(".batch(BATCH)", f".batch({size})")
    given = "strategy.distribute_datasets_from_function(lambda _: dataset)"
    loop = loop.replace("strategy.experimental_distribute_dataset(dataset)", given)
    verdict = verified(loop, "mirrored-2", "1", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)


@pytest.mark.full
def test_what_replicas_do_by_themselves_is_not_settled_so(verified: Verified) -> None:
    """A clip before the reduction is what one device does with the rows of each replica, too; it is found."""
    loop = LOOP.replace("BATCH = 4 * strategy.num_replicas_in_sync", "BATCH = 4")
    loop = loop.replace(".batch(BATCH)", ".batch(BATCH * int(strategy.num_replicas_in_sync))")
    clipped = 'all_reduce("mean", tf.clip_by_norm(gradient, 0.1))'
    loop = loop.replace('all_reduce("sum", gradient)', clipped)
    assert verified(loop, "mirrored-2", "1", explain=False).outcome == "inconsistent"


_SHARES = """
import sys
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
share = 8 // strategy.num_replicas_in_sync
x = tf.random.stateless_normal([24, 3], seed=[1, 2])
with strategy.scope():
    w = tf.Variable([0.5, -0.25, 0.75])

def step(x):
    with tf.GradientTape() as tape:
        losses = (tf.linalg.matvec(x + 0.1 * tf.random.normal([share, 3]), w) - 1.0) ** 2
        loss = tf.reduce_mean(losses)
        if "wrong" not in sys.argv:
            loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))

train = tf.function(lambda x: strategy.run(step, args=(x,)))
data = strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.from_tensor_slices(x).batch(share))
for batch in data:
    train(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_script_that_draws_a_batch_of_one_replica_is_judged_as_it_is_on_one_device(
    wrong: bool, verified: Verified
) -> None:
    """Told of all replicas it fails with the examples of all; told of one it is right, or may differ as it means to."""
    verdict = verified(_SHARES, "mirrored-2", *(["wrong"] if wrong else []), explain=False)
    assert verdict.outcome == ("abstained" if wrong else "consistent"), str(verdict)


_MASKED = """
        count = tf.distribute.get_replica_context().all_reduce("sum", tf.reduce_sum(mask[0]))
        loss = tf.reduce_sum(mask[0] * (tf.linalg.matvec(x, w) - y) ** 2) / count
"""


@pytest.mark.full
@pytest.mark.parametrize(("divisor", "outcome"), [("count", "consistent"), ("4.0", "abstained")])
def test_a_mean_is_known_by_what_twice_as_many_examples_make_of_it(
    divisor: str, outcome: str, verified: Verified
) -> None:
    """Of a mean over what a mask keeps replicas have no equal shares; a number that is written is another one then."""
    loop = LOOP.replace(
        "tf.reduce_sum(x, axis=1))", "tf.reduce_sum(x, axis=1), tf.cast(tf.range(24) % 8 < 5, tf.float32))"
    )
    loop = loop.replace("def step(x, y):", "def step(x, y, *mask):").replace("tf.zeros([3])", "[0.5, -0.25, 0.75]")
    before, _, after = loop.partition("        loss = ")
    loop = before.rstrip() + _MASKED.replace("/ count", f"/ {divisor}") + after.partition("\n")[2]
    if divisor == "count":  # replicas that stand each for a whole do not show it: a mean of theirs is not made a sum
        mean = 'all_reduce("mean", gradient) * strategy.num_replicas_in_sync'
        loop = loop.replace('all_reduce("sum", gradient)', mean)
    verdict = verified(loop, "mirrored-2", "1", explain=False)
    assert verdict.outcome == outcome, str(verdict)


_FAKES = "tf.reduce_sum(tf.linalg.matvec(tf.random.normal([4, 3]), w) ** 2) / BATCH + "
_ONES = "tf.ones([3])"
_COUNT = "tf.distribute.get_replica_context().num_replicas_in_sync"
_NOISE = f"tf.random.normal([3], stddev=0.1 / {_COUNT} ** 0.5)"


@pytest.mark.full
@pytest.mark.parametrize(
    ("term", "noise", "begun", "outcome"),
    [
        (_FAKES, "", _ONES, "consistent"),
        (_FAKES.replace("BATCH", "4"), "", _ONES, "inconsistent"),
        ("", f" + {_NOISE}", "tf.zeros([3])", "consistent"),
        ("", f" + {_NOISE}", _ONES, "abstained"),  # the first gradient is zero, which shows no scale
        ("", " + tf.random.normal([3], stddev=0.1)", _ONES, "inconsistent"),
    ],
)
def test_own_draws_of_a_script_are_judged_as_it_is_on_one_device(
    term: str, noise: str, begun: str, outcome: str, verified: Verified
) -> None:
    """As many fakes as one replica has examples are right, and noise that adds up to that of one device."""
    loop = LOOP.replace("loss = tf.reduce_sum", f"loss = {term}tf.reduce_sum").replace("tf.zeros([3])", begun)
    loop = loop.replace("tape.gradient(loss, w)\n", f"tape.gradient(loss, w){noise}\n")
    verdict = verified(loop, "mirrored-2", "1", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_mistake_stands_that_no_meaning_of_the_number_of_replicas_explains(wrong: bool, verified: Verified) -> None:
    """A rate of which nobody knows whether it should grow, beside weights that decay once for each replica."""
    loop = LOOP.replace("w.assign_sub(0.1 *", "w.assign_sub(0.1 * int(strategy.num_replicas_in_sync) *")
    if wrong:
        loop = loop.replace("loss = ", "loss = 0.3 * tf.reduce_sum(w * w) + ", 1)
        loop = loop.replace("tf.zeros([3])", "tf.ones([3])")
    verdict = verified(loop, "mirrored-2", "1", explain=False)
    assert (verdict.outcome == "inconsistent") is wrong, str(verdict)


@pytest.mark.parametrize(("parts", "factor"), [((1024.0, 3072.0), 1.0), ((512.0, 1536.0), 0.5)])
def test_the_scale_of_a_loss_is_taken_off_before_gradients_are_reduced(
    parts: tuple[float, float], factor: float
) -> None:
    """Alike on one device, where it shows by how much."""
    run = _run(_step(*parts, reduced=sum(parts) / 1024.0))
    assert factor_of(run, _run(_step(4096.0, reduced=4.0)), 2) == pytest.approx(factor)
    assert factor_of(run, _run(_step(4096.0, reduced=3.0)), 2) is None


def test_a_reduction_is_known_by_what_was_seen_of_it() -> None:
    """Not all gradients may be among what left it, nor all that left it among these; shapes tell a loss from a bias."""
    bias, kernel, loss = np.array([3.0]), np.array([[3.0, 4.0]]), np.array(3.0)
    assert share_of([bias], [bias, kernel], 2) == 1.0
    assert share_of([bias / 2, kernel / 2, loss], [bias, kernel], 2) == 0.5
    assert share_of([loss], [bias, kernel], 2) is None


@pytest.mark.parametrize(
    ("factor", "says"),
    [(1.0, True), (2.0, True), (0.5, True), (-2.0, True), (1.333, False), (0.75, False), (0.0, False)],
)
def test_a_factor_that_is_no_whole_number_says_nothing(factor: float, says: bool) -> None:
    """Such as that of a mask, of which each replica has another number of rows."""
    assert is_whole(factor) == says


def _follows(*gradients: np.ndarray, taken: float = 1.0, clip: float = 0.0, decay: float = 1.0) -> RunTrace:
    """A run whose steps take so much of what left their reduction, of which a clip may hide the size."""
    held = np.array([1.0, 2.0, 3.0, 4.0])[: len(gradients[0])]
    start = Start(0.0, (SeenVariable("w", "mirrored", (Array.of(held),)),))
    seen = list[Seen]()
    for gradient in gradients:
        norm = float(np.linalg.norm(gradient))
        held = decay * held - 0.1 * taken * gradient * (clip / norm if clip else 1.0)
        shown = (SeenVariable("w", "mirrored", (Array.of(held),)),)
        seen.append(Seen(len(seen) + 1, 0.0, variables=shown, reduced=(Value("", (Array.of(gradient),)),)))
    return RunTrace((ClientTrace(Header("local:0", 0, "mirrored-2", 2, 2, 1, 20), seen=tuple(seen), start=start),))


_G = np.array([1.0, -1.0, 0.5, 2.0])
_H = 2.0 * np.array([-3.0, 0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    ("run", "native", "taken"),
    [
        (_follows(_G, _H), _follows(_G), 1.0),
        (_follows(_G, _H, taken=0.5), _follows(0.5 * _G), 0.5),
        (_follows(_G, _H, taken=0.5, decay=0.9), _follows(_G, decay=0.9), 0.5),
        (_follows(_G[:1], _H[:1], taken=0.5), _follows(_G[:1]), 0.5),  # a single number, which nothing decays
        (_follows(_G, _H, clip=0.5), _follows(0.5 * _G, clip=0.5), None),
        (_follows(_G, _H, taken=2.0), _follows(_G), None),  # a rate that grows with the replicas
        (_follows(_G, _G[::-1], taken=0.5), _follows(_G), None),  # gradients of one size show no clip
        (_follows(_G, taken=0.5), _follows(_G), None),  # nor does a single step
    ],
)
def test_how_much_of_a_sum_is_taken_is_known_where_steps_are_linear_in_it(
    run: RunTrace, native: RunTrace, taken: float | None
) -> None:
    """A clip takes as much of a gradient of any size."""
    assert taken_of_sum(run, native) == (None if taken is None else pytest.approx(taken))


_LATER = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).normal(size=(48, 3)).astype("float32")
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12))
with strategy.scope():
    w = tf.Variable(tf.zeros([3, 1]))

def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
    w.assign_sub(0.1 * CHANGE)

@tf.function
def step(batch):
    strategy.run(replica, args=(batch,))

for batch in data:
    step(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ("gradient / strategy.num_replicas_in_sync", "consistent"),
        ("gradient / strategy.num_replicas_in_sync ** 2", "inconsistent"),
        ("gradient", "inconsistent"),
        ("gradient / (2 * strategy.num_replicas_in_sync)", "consistent"),  # a divisor, and no size
        ("gradient / strategy.num_replicas_in_sync / (2 * strategy.num_replicas_in_sync)", "abstained"),  # twice
        ("tf.clip_by_norm(gradient / strategy.num_replicas_in_sync, 0.01)", "abstained"),  # hidden by the clip
        ("tf.clip_by_value(gradient / strategy.num_replicas_in_sync, -1.0, 1.0)", "consistent"),  # not of all elements
        ("tf.clip_by_value(gradient, -1.0, 1.0) / strategy.num_replicas_in_sync", "inconsistent"),
        ("tf.sign(gradient) + 0.0 * gradient / strategy.num_replicas_in_sync", "abstained"),  # divided for nothing
    ],
)
def test_a_sum_of_means_may_be_divided_after_it(change: str, outcome: str, verified: Verified) -> None:
    """What replicas add up to is too large by their number then, and the step is not."""
    verdict = verified(_LATER.replace("CHANGE", change), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)


_EVALUATED = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
BATCH = 8 * strategy.num_replicas_in_sync
x = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")
data = strategy.distribute_datasets_from_function(
    lambda context: tf.data.Dataset.from_tensor_slices(x).batch(context.get_per_replica_batch_size(BATCH))
)
with strategy.scope():
    w = tf.Variable(tf.zeros([3, 1]))

def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(x @ w - 1.0)[:, 0], global_batch_size=BATCH)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("HOW", tape.gradient(loss, w)))

@tf.function
def step(batch):
    strategy.run(replica, args=(batch,))

@tf.function
def evaluate(batch):
    return strategy.reduce("SUM", strategy.run(lambda x: tf.reduce_sum(x @ w), args=(batch,)), axis=None)

batches = iter(data)
for _ in range(3):
    step(next(batches))
print(sum(float(evaluate(batch)) for batch in data))
"""


@pytest.mark.full
@pytest.mark.parametrize(("how", "outcome"), [("SUM", "consistent"), ("MEAN", "inconsistent")])
def test_a_last_batch_of_an_evaluation_is_smaller_than_one_device_has_it(
    how: str, outcome: str, verified: Verified
) -> None:
    """On one device the script has batches of one replica, of which one more is whole."""
    verdict = verified(_EVALUATED.replace("HOW", how), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
