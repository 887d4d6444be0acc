"""Unmodified scripts: what can be asked, what their reference is told, what is doubted, and verdicts on real ones."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import verify
from harness.errors import Abstained
from harness.evidence.counters import Counters
from harness.evidence.independence import Touch
from harness.evidence.reference import Reference
from harness.evidence.stand_ins import StandIn
from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, Value
from harness.judging.assumptions import with_assumptions
from harness.judging.explain.protocol import Explanation
from harness.judging.laws.protocol import Finding, judged
from harness.judging.native_scale import NativeRun, factor_of
from harness.judging.verdict import Verdict
from harness.running.script_checks import check_apart
from harness.saved_run import with_saved_findings
from harness.subject.program import Program
from harness.subject.script import Script
from simulator import Cluster, Topology, UsageError
from tests.harness._called import usage_error
from tests.harness._loop import LOOP, Verified
from tools.scripts import result_of
from tools.unmodified.cases import cases

TRAIN = ("--", "python", "train.py")


@pytest.fixture
def place(here: Path) -> Path:
    """A directory with the script `train.py`, which is where this process is."""
    (here / "train.py").write_text(LOOP)
    return here


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ([], "is no command"),
        (["bash", "train.sh"], "'bash' is not Python"),
        (["python"], "after python a file is expected, not nothing"),
        (["python", "-m", "train"], "after python a file is expected, not '-m'"),
        (["python", "-c", "pass"], "not '-c'"),
        (["python", "no.py"], "there is no file 'no.py'"),
        (["python", "-O", "train.py"], "a file is expected, not '-O'"),
        (["python", "-E", "train.py"], "a file is expected, not '-E'"),
        (["python2.7", "train.py"], "and not by python2.7; write python"),
        (["/nonexistent/python3", "train.py"], "and not by /nonexistent/python3; write python"),
        (["/nonexistent/python2.7", "-O", "-E", "train.py"], "and not by /nonexistent/python2.7; write python"),
    ],
)
def test_other_commands_are_refused(place: Path, command: list[str], text: str) -> None:
    """With what is accepted instead."""
    with pytest.raises(UsageError, match=text):
        Program.of(command)


def test_a_command_is_read(place: Path) -> None:
    """The file, its arguments and where it runs; what it stands for changes what is cached of it."""
    program = Program.of([sys.executable, "-u", "train.py", "--epochs", "2"])
    assert program.name == "train.py"
    assert program.script == Script(str(place / "train.py"), ("--epochs", "2"), str(place))
    digests = {program.digest, *(program.under(name, 2, 1).digest for name in ("mirrored-2", "multi_worker-2"))}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--", "python", "train.py"], "say what the script runs on: --devices cpu:2"),
        (["--ps", "1", "--", "python", "train.py"], "--ps needs --worker N too"),
        (["--worker", "2", "--ps", "1", "--devices", "cpu:2", "--", "python", "train.py"], "one device each"),
        (["--worker", "2", "train.py:train"], "--worker is about a script"),
        (["--worker", "2", "--strategy", "mirrored-2", "--", "python", "train.py"], "both say what"),
        (["--devices", "cpu:2", "--hardware", "gpu-simulated", "--", "python", "train.py"], "are two kinds; give one"),
        (["--worker", "2", "--hardware", "tpu", "--", "python", "train.py"], "on CPU devices and GPUs, against"),
        (["--devices", "gpu:2", "--reference", "device", "--", "python", "train.py"], "against a reference on a CPU"),
        (["--devices", "cpu:2", "--assume", "here", "--", "python", "train.py"], "write FILE:LINE=N"),
        (["--devices", "cpu:2", "--prove", "--", "python", "train.py"], "is not proved from its graphs"),
        (
            [
                "--devices",
                "cpu:2",
                "--interrupt-at",
                "2",
                "--resume-strategy",
                "mirrored-4",
                "--",
                "python",
                "train.py",
            ],
            "a script builds its strategy itself",
        ),
        (
            ["--devices", "cpu:2", "--fault", "kind=torn_checkpoint,directory=record.directory,step=2", *TRAIN],
            "a script has no record.directory",
        ),
        (
            ["--devices", "cpu:2", "--fault", "kind=disk_full,task=local:0,step=2,directory=.", *TRAIN],
            "leave out directory of disk_full",
        ),
        (["--strategy", "one_device", "--", "python", "train.py"], "one_device is another strategy"),
        (["--devices", "cpu:2", *TRAIN, os.fsdecode(b"\xff2")], "'\\udcff2' is not UTF-8"),
    ],
)
def test_usage_errors_come_first(place: Path, arguments: list[str], text: str) -> None:
    """Exit code 2 with what to do, before anything is started."""
    assert text in usage_error("verify", *arguments)


def test_a_right_script_is_consistent_and_leaves_nothing(place: Path) -> None:
    """It is ended after the first steps; what the reference was told is listed; its directory stays as it was."""
    program = Program.of_script(Script.of(["python", "train.py", "2"], first=4))
    verdict = verify(program, "mirrored-2", explain=False)
    assert verdict, verdict
    assert "in the reference num_replicas_in_sync multiplies at train.py:6 is 2" in verdict.notes
    assert any(note.startswith("judged are the first 4 steps") for note in verdict.notes)
    assert not any(note.startswith("not seen:") for note in verdict.notes)
    assert verdict.conditions == ()
    assert sorted(path.name for path in place.iterdir()) == ["train.py"]


@pytest.mark.full  # in the quick profile test_scripts_unnamed.py has one
def test_a_wrong_script_is_inconsistent(verified: Verified) -> None:
    """The mean of each replica's own examples, summed over the replicas."""
    verdict = verified(LOOP.replace("** 2) / BATCH", "** 2) / len(x)"), "mirrored-2", "1", explain=False)
    assert verdict.outcome == "inconsistent"
    assert verdict.explanation is not None
    assert verdict.explanation.rule == "loss_times_replicas"


@pytest.mark.full
def test_a_value_for_each_replica_is_made_for_one(verified: Verified) -> None:
    """By its number, which is that of the only one there."""
    wish = "strategy.experimental_distribute_values_from_function(lambda context: 1.0)\n"
    verdict = verified(LOOP.replace("with strategy.scope():", f"{wish}with strategy.scope():"), "mirrored-2", "1")
    assert verdict, str(verdict)


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_script_may_build_several_strategies(wrong: bool, verified: Verified) -> None:
    """Of one kind, or derived from it; all that the second one trains is judged, whose draws nobody knows before."""
    dropped = "x *= tf.cast(tf.random.uniform(tf.shape(x)) < 0.5, tf.float32)"
    loop = LOOP.replace("    with tf.GradientTape()", f"    {dropped}\n    with tf.GradientTape()")
    if wrong:
        loop = loop.replace("** 2) / BATCH", "** 2) / len(x)")
    derived = "type('Replicator', (tf.distribute.MirroredStrategy,), {})"
    loop = loop.replace("tf.distribute.MirroredStrategy()", f"{derived}()")
    loop = f"import tensorflow as tf\ntf.distribute.MirroredStrategy()\n{loop}"
    verdict = verified(loop, "mirrored-2", "1", explain=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert next(law for law in verdict.judgements if law.law == "replicas_ran").status == "held"


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_script_may_train_under_one_strategy_after_another(wrong: bool, verified: Verified) -> None:
    """The variables of the first one's model are looked at under the second, which could not read a copy of them."""
    loss = "lambda y, p: tf.reduce_mean((y - p) ** 2)" if wrong else "'mse'"
    script = f"""
import keras
import tensorflow as tf

x = tf.random.stateless_normal((16, 4), (1, 2))
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8)
for _ in range(2):
    with tf.distribute.MirroredStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("adam", {loss})
        model.fit(data, verbose=0)
"""
    verdict = verified(script, "mirrored-2", explain=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)


@pytest.mark.full
def test_statistics_of_each_replica_are_a_condition(verified: Verified) -> None:
    """Of a layer that nobody synchronizes: what it leads to is what replicas that stand for wholes compute."""
    layer = "    norm = tf.keras.layers.BatchNormalization()\n    norm.build([None, 3])\n"
    loop = LOOP.replace('name="w")\n', f'name="w")\n{layer}', 1).replace(
        "matvec(x, w)", "matvec(norm(x, training=True), w)"
    )
    verdict = verified(loop, "mirrored-2", "1", explain=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert [condition.code for condition in verdict.conditions] == ["own_statistics"]


@pytest.mark.full
def test_a_script_that_trains_nothing_is_not_judged(verified: Verified) -> None:
    """Nor is it a usage error, as a function that reports nothing is: a script was never asked to report."""
    verdict = verified("import tensorflow as tf\nstrategy = tf.distribute.MirroredStrategy()\n", "mirrored-2")
    assert verdict.outcome == "abstained"
    assert "it took no step that Lockstep could see" in str(verdict.abstained)


@pytest.mark.full
def test_a_strategy_of_another_shape_fails(verified: Verified) -> None:
    """The script, not Lockstep, builds the strategy; what comes out has to be what was asked for."""
    with pytest.raises(Exception, match="mirrored-2 should have 2 replicas in sync, TensorFlow sees 1"):
        verified(LOOP.replace("MirroredStrategy()", 'MirroredStrategy(["CPU:0"])'), "mirrored-2", "1")


def _count_uses() -> dict[str, Any]:
    """In a task: what the count of replicas is, wherever it is used."""
    import tensorflow as tf

    from harness.recording.scripts.counts import ReplicaCount, counts_in_json
    from harness.recording.scripts.stand_ins import StandIns

    stand_ins = StandIns(Script(__file__, (), "/", assume={"<count>:1": 7}))
    n = ReplicaCount(2, stand_ins)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    found: dict[str, Any] = {}

    def use(name: str, value: Any) -> None:
        told = stand_ins.found[-1:]
        found[name] = (float(value), told[0].trust if told else "none")
        stand_ins._found.clear()

    use("whole batch", 32 * n)
    use("batch of each", 64 // n)
    use("learning rate", 0.1 * n)
    use("size of each", 64 / n)
    use("sum of parts", tf.constant(4.0) / n.divides(None))
    use("one part", 1.0 / n)
    use("something", 0.5 / n)
    use("as a tensor", tf.cast(n, tf.float32))
    use("as an int", int(n))
    use("how often", len(range(n)))
    use("parts", len(tf.split(tf.zeros(6), n)))
    use("rounded", round(n))
    use("with a sign", abs(-n))
    with counts_in_json():
        use("in JSON", json.loads(json.dumps({"replicas": n}))["replicas"])
    use("in a text", int("%d" % n))  # noqa: UP031 - this is what is tried

    def replica() -> None:
        use("inside: part", tf.constant(4.0) / float(n))
        use("inside: batch", 64 // n)
        use("inside: whole batch", 32 * n)

    strategy.run(replica)
    return found


def test_the_count_of_replicas_knows_where_it_is_used() -> None:
    """Sizes and rates are the cluster's, what replicas divide by is one, and what is not certain says so."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_count_uses)["local:0"].value
    assert found == {
        "whole batch": (64.0, "sure"),
        "batch of each": (32.0, "sure"),
        "learning rate": (0.2, "meant"),
        "size of each": (32.0, "sure"),
        "sum of parts": (4.0, "sure"),
        "one part": (1.0, "unknown"),
        "something": (0.25, "unknown"),
        "as a tensor": (2.0, "unknown"),
        "as an int": (2.0, "unknown"),
        "how often": (2.0, "assumed"),
        "parts": (2.0, "sure"),
        "rounded": (2.0, "unknown"),
        "with a sign": (2.0, "unknown"),
        "in JSON": (2.0, "none"),
        "in a text": (2.0, "none"),
        "inside: part": (4.0, "assumed"),
        "inside: batch": (64.0, "assumed"),
        "inside: whole batch": (64.0, "size"),
    }


def _trace(*, gradient: float, examples: list[list[int]], clients: int = 1, told: tuple[StandIn, ...] = ()) -> RunTrace:
    found = []
    for number in range(clients):
        header = Header(f"worker:{number}", 0, "mirrored-2", 2, 1, clients, 20, {})
        seen = tuple(
            Seen(
                index=index,
                at=0.0,
                examples=(tuple(ids[number::clients]),),
                gradients=(Value("w", (Array.of([gradient / clients]),), per_replica=True),),
                reduced=(Value("", (Array.of([gradient]),)),),
            )
            for index, ids in enumerate(examples, start=1)
        )
        found.append(ClientTrace(header, seen=seen, counters=Counters(stand_ins=told)))
    return RunTrace(tuple(found))


def _verdict(*laws: str, examples: bool = True) -> Verdict:
    finding = Finding("law", "what differs", step=1, observable="variables")
    broken = [judged(law, 1, (finding,)) for law in laws]
    held = [judged("examples_match_reference", 1, ())] if examples and "examples_match_reference" not in laws else []
    return Verdict("train.py", "mirrored-2", (*broken, *held))


ORDER = [[1, 2], [3, 4]]
HOLDS = dataclasses.replace(judged("variables_match_reference", 1, ()), suffices=True)


def test_a_difference_stands_where_nothing_is_doubtful() -> None:
    """What is certain is listed, and the verdict is as it was."""
    told = (StandIn("num_replicas_in_sync multiplies", "train.py:6", "2"),)
    run, reference = _trace(gradient=4.0, examples=ORDER, clients=2), _trace(gradient=2.0, examples=ORDER, told=told)
    verdict = with_assumptions(_verdict("variables_match_reference"), run, reference, 2)
    assert verdict.outcome == "inconsistent"
    assert verdict.notes == ("in the reference num_replicas_in_sync multiplies at train.py:6 is 2",)


def test_a_wrong_beginning_is_not_taken_for_a_scale() -> None:
    """Gradients of replicas that begin with other values say nothing of how often they count."""
    run, reference = _trace(gradient=0.4, examples=ORDER, clients=2), _trace(gradient=2.0, examples=ORDER)
    before = _verdict("variables_match_reference")
    assert with_assumptions(before, run, reference, 2).outcome == "abstained"
    begins = Finding("begins_alike", "w is 2 and not 0", step=1, observable="start")
    found = dataclasses.replace(before, judgements=(judged("begins_alike", 1, (begins,)), *before.judgements))
    assert with_assumptions(found, run, reference, 2).outcome == "inconsistent"


@pytest.mark.parametrize(
    ("trust", "right", "outcome"),
    [
        ("sure", True, "consistent"),
        ("assumed", True, "consistent"),
        ("assumed", False, "abstained"),
        ("unknown", True, "abstained"),
        ("unknown", False, "abstained"),
    ],
)
def test_what_is_not_certain_decides(trust: str, right: bool, outcome: str) -> None:
    """An assumption may be why a run differs; what is unknown may also be why one does not."""
    told = (StandIn("num_replicas_in_sync divides 1", "train.py:9", "1", trust),)
    run, reference = _trace(gradient=2.0, examples=ORDER, clients=2), _trace(gradient=2.0, examples=ORDER, told=told)
    before = Verdict("train.py", "mirrored-2", (HOLDS,)) if right else _verdict("variables_match_reference")
    # Whether the sums of the replicas are the right ones is not known, and only matters where sizes are answered.
    factor = 1.0 if trust != "unknown" else None
    verdict = with_assumptions(before, run, reference, 2, natively=lambda: NativeRun(factor))
    assert verdict.outcome == outcome
    if outcome == "abstained":
        assert "train.py:9" in str(verdict.abstained)


def test_what_is_unknown_is_settled_by_one_device() -> None:
    """Each replica contributes what it should, so the number was the right one; a sum that grows settles nothing."""
    told = (StandIn("num_replicas_in_sync divides 1", "train.py:9", "1", "unknown"),)
    run, reference = (_trace(gradient=2.0, examples=ORDER, clients=c, told=told) for c in (2, 1))
    right = Verdict("train.py", "mirrored-2", (HOLDS,))
    for factor, outcome in ((1.0, "consistent"), (2.0, "abstained")):
        assert with_assumptions(right, run, reference, 2, natively=partial(NativeRun, factor)).outcome == outcome


@pytest.mark.parametrize("trust", ["unknown", "meant"])
def test_a_rate_by_the_number_of_replicas_is_a_condition(trust: str) -> None:
    """Where the share of each is right, and one device has another rate; not where it computes the same."""
    for taken, alone, codes in (("2", None, ["count_of_replicas"]), ("1", None, []), ("2", "consistent", [])):
        told = (StandIn("num_replicas_in_sync divides 0.1", "train.py:9", taken, trust),)
        run, reference = (_trace(gradient=2.0, examples=ORDER, clients=c, told=told) for c in (2, 1))
        right = Verdict("train.py", "mirrored-2", (HOLDS,))
        verdict = with_assumptions(right, run, reference, 2, natively=partial(NativeRun, 1.0, right if alone else None))
        assert verdict.outcome == "consistent"
        assert [each.code for each in verdict.conditions] == codes
        assert all("train.py:9 is 2" in each.text for each in verdict.conditions)


def test_a_share_that_cannot_be_checked_is_not_taken_for_right() -> None:
    """If the script depends on the size of the cluster; one that does not is what it is on one device."""
    right = Verdict("train.py", "mirrored-2", (HOLDS,))
    for what, outcome in (("InputContext", "abstained"), ("replica_id_in_sync_group", "consistent")):
        told = (StandIn(what, "train.py:9", "1", "sure"),)
        run, reference = (_trace(gradient=2.0, examples=ORDER, clients=c, told=told) for c in (2, 1))
        assert with_assumptions(right, run, reference, 2).outcome == outcome


def test_the_same_examples_in_other_steps_are_no_mistake() -> None:
    """Workers that shuffle their own shards; but examples that are missing are one."""
    reference = _trace(gradient=2.0, examples=ORDER)
    reordered, twice = (_trace(gradient=2.0, examples=ids, clients=2) for ids in ([[1, 3], [2, 4]], [[1, 3], [1, 4]]))
    assert with_assumptions(_verdict("examples_match_reference"), reordered, reference, 2).outcome == "abstained"
    # Of workers, others are a mistake only if one is known that makes them.
    assert with_assumptions(_verdict("examples_match_reference"), twice, reference, 2).outcome == "abstained"
    for cause, outcome in (("auto_shard_off", "inconsistent"), ("shuffle_before_shard", "abstained")):
        why = Explanation("examples_duplicated", "the shards overlap", "", cause)
        explained = dataclasses.replace(_verdict("examples_match_reference"), explanation=why)
        assert with_assumptions(explained, twice, reference, 2).outcome == outcome


def test_a_gradient_that_is_the_references_divided_is_not_judged() -> None:
    """It may be divided twice, or by the examples of one replica; one that is multiplied has no such reading."""
    reference = _trace(gradient=2.0, examples=ORDER)
    for gradient, outcome in ((1.0, "abstained"), (4.0, "inconsistent")):
        run = _trace(gradient=gradient, examples=ORDER, clients=2)
        assert with_assumptions(_verdict("variables_match_reference"), run, reference, 2).outcome == outcome


@pytest.mark.parametrize(
    ("of_run", "of_reference", "factor", "outcome"),
    [
        (2.0, 2.0, 1.0, "consistent"),
        (2.0, 2.0, 2.0, "abstained"),  # a sum over examples, or the batch of one replica
        (4.0, 2.0, 2.0, "inconsistent"),  # averaged by each replica and added up
        (1.0, 2.0, 0.5, "inconsistent"),  # divided twice
        (2.0, 4.0, 1.0, "abstained"),  # the reference is the one that is wrong
    ],
)
def test_what_replicas_should_contribute_is_known_from_one_device(
    of_run: float, of_reference: float, factor: float, outcome: str
) -> None:
    """It is asked where the script is told of the cluster's size, or is another multiple of its reference."""
    told = (StandIn("num_replicas_in_sync multiplies", "train.py:6", "2"),)
    run = _trace(gradient=of_run, examples=ORDER, clients=2)
    reference = _trace(gradient=of_reference, examples=ORDER, told=told)
    same = Verdict("train.py", "mirrored-2", (HOLDS,))
    before = same if of_run == of_reference else _verdict("variables_match_reference")
    assert with_assumptions(before, run, reference, 2, natively=lambda: NativeRun(factor)).outcome == outcome


def test_a_script_that_is_told_nothing_is_what_it_is_on_one_device() -> None:
    """So no further process is asked."""
    run, reference = (_trace(gradient=2.0, examples=ORDER, clients=clients) for clients in (2, 1))

    def asked() -> NativeRun:
        raise AssertionError

    assert with_assumptions(Verdict("train.py", "mirrored-2", (HOLDS,)), run, reference, 2, natively=asked)


def test_a_saved_verdict_that_abstained_is_not_judged_again() -> None:
    """What one device computes was not saved, so that `lockstep report` knows less than the verdict did."""
    saved = {"program": "train.py", "tasks": {}, "seconds": 1.0, "abstained": "nobody knows"}
    reference = Reference(_trace(gradient=2.0, examples=ORDER))
    again = with_saved_findings(_verdict("variables_match_reference"), saved, reference)
    assert (again.outcome, again.abstained) == ("abstained", "nobody knows")


def test_of_several_steps_in_a_call_the_first_is_compared() -> None:
    """Their gradients are numbered, and their examples follow each other."""
    run = _trace(gradient=2.0, examples=[[1, 2, 3, 4]], clients=2)
    native = _trace(gradient=2.0, examples=[[1, 3]])

    def twice(trace: RunTrace) -> RunTrace:
        clients = []
        for client in trace.clients:
            (seen,) = client.seen
            later = Value("w#2", (Array.of([9.0]),), per_replica=True)
            both = msgspec.structs.replace(seen, gradients=(*seen.gradients, later))
            clients.append(msgspec.structs.replace(client, seen=(both,)))
        return RunTrace(tuple(clients))

    assert factor_of(twice(run), twice(native), 2) == 1.0


def test_runs_that_write_the_same_file_are_refused() -> None:
    """Where they have no view of their own; reading alone is no matter."""
    written, read = Touch("/tmp/model", 1.0, writes=True), Touch("/tmp/model", 1.0, writes=False)
    check_apart("train.py", {"the reference run": [written, written], "the run": [read]})
    with pytest.raises(UsageError, match="the reference run and the run have both written /tmp/model"):
        check_apart("train.py", {"the reference run": [written], "the run": [written]})


def test_what_was_told_survives_the_file() -> None:
    """Frames of older versions have none of it."""
    counters = Counters(stand_ins=(StandIn("a", "b:1", "2", "assumed"),), cut=3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(counters), type=Counters) == counters
    assert issubclass(Abstained, Exception)


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "multi_worker_loop",
        "multi_worker_loop:not_sharded",
        "manual_shards",
        "tf_keras_fit",
        "custom_loop:divided_twice",
    ],
)
def test_scripts_as_people_write_them(name: str) -> None:
    """Some of those in tools/unmodified, by the command: `python tools/scripts.py` verifies them all."""
    (case,) = cases(name)
    result = result_of(case)
    assert result.outcome == case.answer, result
