"""Unmodified scripts with a coordinator, or with data that they shard by hand: stand-ins, and what is not judged."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from harness.evidence.counters import Counters
from harness.evidence.stand_ins import UNFINISHED, UNJOINED, WORKERS, StandIn
from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, SeenVariable, Value
from harness.judging.assumptions import with_assumptions
from harness.judging.closures_script import SERVERS, SingleWorkerScript, not_comparable
from harness.judging.laws.protocol import Finding, Judgement, judged
from harness.judging.verdict import Verdict
from harness.subject.script import Script
from simulator import Cluster, Topology
from tools.scripts import result_of
from tools.unmodified.cases import cases

ORDER = [[1, 2], [3, 4], [1, 2], [3, 4]]


def _run(
    *,
    gradient: float = 2.0,
    examples: list[list[int]] = ORDER,
    moves: bool = True,
    told: tuple[StandIn, ...] = (),
) -> RunTrace:
    """What a coordinator's chief has left: closures whose first takes this gradient, and that move the variables."""
    seen = tuple(
        Seen(
            index=index,
            at=0.0,
            variables=(SeenVariable("w", "plain", (Array.of([float(index if moves else 1)]),)),),
            examples=(tuple(ids),),
            gradients=(Value("w", (Array.of([gradient]),), per_replica=True),),
        )
        for index, ids in enumerate(examples, start=1)
    )
    header = Header("chief:0", 0, "parameter_server-2w1p", 1, 1, 1, 20, {})
    return RunTrace((ClientTrace(header, seen=seen, counters=Counters(stand_ins=told)),))


HELD = (judged("variables_match_reference", 1, ()), judged("examples_match_reference", 1, ()))
HOLDS = tuple(Judgement(law.law, "held", compared=1, suffices=True) for law in HELD)
OTHERS = judged("examples_match_reference", 1, (Finding("law", "what differs"),))
BREAKS = (judged("variables_match_reference", 1, (Finding("law", "what differs"),)), HELD[1])


@pytest.mark.parametrize(
    ("run", "native", "laws", "outcome", "text"),
    [
        (_run(), _run(), HOLDS, "consistent", ""),
        (_run(), _run(), BREAKS, "inconsistent", ""),
        (_run(told=(StandIn(f"{UNJOINED} it saves", "a.py:9", "1", "unknown"),)), _run(), HOLDS, "abstained", "a.py:9"),
        (_run(gradient=1.0), _run(), HOLDS, "abstained", "0.5 times what"),
        (_run(), _run(examples=[[1, 2], [5, 6]]), HOLDS, "abstained", "2 examples that the script reads with a single"),
        (_run(moves=False), _run(), HOLDS, "abstained", "what the coordinator makes of several"),
        (_run(examples=[[]]), _run(), HOLDS[:1], "abstained", "no example was seen"),
        (_run(), _run(), (HOLDS[0], OTHERS), "inconsistent", ""),
        (_run(), _run(), HOLDS[1:], "abstained", "no variable could be compared"),
        (_run(), None, HOLDS, "abstained", "could not be checked"),
    ],
)
def test_closures_are_judged_by_what_was_seen(
    run: RunTrace, native: RunTrace | None, laws: tuple[Judgement, ...], outcome: str, text: str
) -> None:
    """The right one is consistent, what differs is inconsistent, and nothing is consistent by nothing seen."""
    verdict = with_assumptions(
        Verdict("a.py", "parameter_server-2w1p", laws),
        run,
        _run(),
        1,
        alone=lambda: SingleWorkerScript(native, None, native),
    )
    assert verdict.outcome == outcome
    assert text in str(verdict.abstained or "")
    assert SERVERS in verdict.notes


@pytest.mark.parametrize(
    ("what", "way_out"), [(f"{WORKERS} in a replica", "--assume"), ("ValueContext", "synchronized=True")]
)
def test_the_way_out_fits_what_one_replica_answers_in_its_own_way(what: str, way_out: str) -> None:
    """A count can be told; another number of replicas needs another program."""
    told = (StandIn(what, "a.py:9", "1", "assumed"),)
    verdict = with_assumptions(
        Verdict("a.py", "parameter_server-2w1p", BREAKS), _run(), _run(told=told), 1, alone=SingleWorkerScript
    )
    assert verdict.outcome == "abstained"
    assert f"{what} at a.py:9" in str(verdict.abstained)
    assert [each for each in ("--assume", "synchronized=True") if each in str(verdict.abstained)] == [way_out]


def _coordinated(place: str) -> dict[str, Any]:
    """In a task: a coordinator without a cluster, and values that leave a graph by files."""
    import tensorflow as tf
    from tensorflow.python.training import server_lib

    from harness.recording.closure_files import Files
    from harness.recording.scripts.joins import joins_noted
    from harness.recording.scripts.serial_cluster import serial_cluster
    from harness.recording.scripts.stand_ins import StandIns

    found: dict[str, Any] = {"left": []}
    files, stand_ins = Files(Path(place)), StandIns(Script(__file__, (), "/"))
    spec = server_lib.ClusterSpec({"chief": ["a:1"], "worker": ["a:2", "a:3"], "ps": ["a:4"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="chief", task_id=0)
    shards = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    with serial_cluster(), joins_noted(stand_ins, lambda function: False, print) as at_end:
        strategy = tf.distribute.ParameterServerStrategy(resolver, shards)
        with strategy.scope():
            total = tf.Variable(0, name="total", dtype=tf.int64)
            parts = tf.Variable([1.0, 2.0, 3.0], name="parts")
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        data = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(1, 10))

        @tf.function
        def closure(iterator: Any) -> Any:
            value = next(iterator)
            total.assign_add(value)
            files.emit([value, tf.cast(value, tf.float32)], lambda values: found["left"].append(int(values[0])))
            return value

        iterator = iter(data)
        values = [coordinator.schedule(closure, args=(iterator,)) for _ in range(5)]
        found["fetched"] = [int(value) for value in coordinator.fetch(values)]
        found["fetched all"] = len(stand_ins.found)
        last = coordinator.schedule(closure, args=(iterator,))
        at_end()
        found["open"] = [each.what for each in stand_ins.found]
        found["total"], found["last"] = int(total), int(last.fetch())
        found["shards"] = [shard.shape.as_list() for shard in parts.variables]
    files.collect()
    found["in order"] = found.pop("left")
    files.collect()
    return found


def test_a_coordinator_without_a_cluster_gives_each_worker_its_turn(tmp_path: Path) -> None:
    """Each has data of its own; what is neither joined nor fetched at the end is noted; values arrive in order."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_coordinated, str(tmp_path / "closures"))["local:0"].value
    assert found == {
        "fetched": [1, 1, 2, 2, 3],
        "fetched all": 0,
        "open": [f"{UNJOINED} the script ends"],
        "total": 12,
        "last": 3,
        "shards": [[2], [1]],
        "in order": [1, 1, 2, 2, 3, 3],
    }
    assert not list((tmp_path / "closures").iterdir())


_ORDERS = (
    "train join save",
    "fetch save",
    "train save join",
    "train save train join",
    "train save join save",
    "evaluate save",
    "train join save train",
    "train assign join",
    "train other join assign",
    *(f"train {read} join" for read in ("Keras", "tf_keras", "table")),
    "train join Keras tf_keras table",
)


def _saved(place: str) -> dict[str, list[str]]:
    """In a task: what is noted of a coordinator that schedules, saves and joins in some order."""
    import keras
    import tensorflow as tf
    import tf_keras
    from tensorflow.python.training import server_lib

    from harness.recording.scripts.joins import joins_noted
    from harness.recording.scripts.serial_cluster import serial_cluster
    from harness.recording.scripts.stand_ins import StandIns

    spec = server_lib.ClusterSpec({"chief": ["a:1"], "worker": ["a:2", "a:3"], "ps": ["a:4"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="chief", task_id=0)
    found = {}
    with serial_cluster():
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        with strategy.scope():
            total = tf.Variable(0, name="total", dtype=tf.int64)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        checkpoint = tf.train.Checkpoint(total=total)

        @tf.function
        def train() -> Any:
            return total.assign_add(1)

        @tf.function
        def evaluate() -> Any:
            return total + 1

        other = tf.Variable(0, name="other")
        does = {
            "Keras": lambda: keras.metrics.Mean().result(),
            "tf_keras": lambda: tf_keras.metrics.Mean().result(),
            "table": lambda: tf_keras.metrics.MeanIoU(2).result(),
            "train": lambda: coordinator.schedule(train),
            "evaluate": lambda: coordinator.schedule(evaluate),
            "assign": lambda: total.assign(7),
            "other": lambda: other.assign(7),
            "fetch": lambda: coordinator.schedule(train).fetch(),
            "save": lambda: checkpoint.save(f"{place}/saved"),
            "join": lambda: coordinator.join(),  # noqa: PLW0108 - the method is another one by then
        }
        for order in _ORDERS:
            stand_ins, told = StandIns(Script(__file__, (), "/")), list[str]()
            with joins_noted(stand_ins, lambda function: function is train, told.append) as at_end:
                for each in order.split():
                    does[each]()
                at_end()
            found[order] = sorted(
                re.sub(r"when .*:\d+ assigns", "when it assigns", each.what) for each in stand_ins.found
            ) + ["read" for each in told if "before coordinator.join() has all" in each]
    return found


def test_what_is_saved_before_closures_are_joined_is_noted(tmp_path: Path) -> None:
    """It is lost only where they train and nothing that they do is saved later. A metric read before may lack it."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_saved, str(tmp_path))["local:0"].value
    assert found == {
        "train join save": [],
        "fetch save": [],
        "train save join": [f"{UNJOINED} it saves", f"{UNFINISHED} it saves for the last time"],
        "train save train join": [f"{UNJOINED} it saves"],
        "train save join save": [f"{UNJOINED} it saves"],
        "evaluate save": [f"{UNJOINED} it saves", f"{UNJOINED} the script ends"],
        "train join save train": [f"{UNJOINED} the script ends", f"{UNFINISHED} the script ends"],
        "train assign join": [f"{UNJOINED} it assigns what they use"],
        "train other join assign": [],
        "train Keras join": ["read"],
        "train tf_keras join": ["read"],
        "train table join": ["read"],
        "train join Keras tf_keras table": [],
    }


def _sharded() -> dict[str, Any]:
    """In a task: what the reference reads of data that two workers shard by hand."""
    import tensorflow as tf

    from harness.recording.scripts import manual_shards
    from harness.recording.scripts.manual_shards import join_manual_shards
    from harness.recording.scripts.stand_ins import CannotStandIn, StandIns

    StandIns.asked_by_script = lambda self: True  # type: ignore[method-assign]
    pipelines: dict[str, Any] = {
        "examples": lambda data, index: data.shard(2, index).map(lambda x: x + 100).batch(3),
        "batches": lambda data, index: data.batch(3).shard(2, index).prefetch(1),
        "shuffled before": lambda data, index: data.shuffle(13, seed=3).shard(2, index).batch(2),
        "shuffled after": lambda data, index: data.shard(2, index).shuffle(13, seed=3).batch(2),
        "twice": lambda data, index: data.shard(2, index).repeat(2).batch(6),
    }
    found: dict[str, Any] = {}
    for name, pipeline in pipelines.items():
        workers = [[batch.numpy().tolist() for batch in pipeline(tf.data.Dataset.range(12), k)] for k in range(2)]
        with join_manual_shards(StandIns(Script(__file__, (), "/", replicas=2, workers=2))):
            whole = pipeline(tf.data.Dataset.range(12), 0)
            mine = [batch.numpy().tolist() for batch in whole]
        together = [sorted(itertools.chain(*batches)) for batches in zip(*workers, strict=True)]
        found[name] = together == [sorted(batch) for batch in mine], manual_shards.is_joined(whole)
    with join_manual_shards(StandIns(Script(__file__, (), "/", workers=1))):
        found["one"] = [int(x) for x in tf.data.Dataset.range(4).shard(2, 0)]
    with join_manual_shards(StandIns(Script(__file__, (), "/", workers=2))):
        found["own"] = [int(x) for x in tf.data.Dataset.range(4).shard(1, 0)]
        try:
            tf.data.Dataset.range(6).shard(3, 0)
        except CannotStandIn as error:
            found["three"] = "into 3 shards, where there are 2 workers" in str(error)
    return found


def test_shards_by_hand_are_read_together() -> None:
    """In each step what all workers have; shards that are shuffled are in other steps, and nothing hides it."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_sharded)["local:0"].value
    assert found == {
        "examples": (True, True),
        "batches": (True, True),
        "shuffled before": (True, True),
        "shuffled after": (False, True),
        "twice": (True, True),
        "one": [0, 2],
        "own": [0, 1, 2, 3],
        "three": True,
    }


def _unscoped() -> tuple[str, int]:
    """In a task: an update of a variable that was made too early, and the devices of a strategy that names none."""
    import tensorflow as tf

    from harness.recording.scripts.client import all_cpus
    from harness.recording.scripts.scope_errors import unscoped_named
    from harness.recording.scripts.stand_ins import StandIns

    with unscoped_named(StandIns(Script(__file__, (), "/"))):
        early = tf.Variable(1.0, name="early")
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        said = ""
        try:
            strategy.extended.update(early, lambda variable: variable.assign_add(1.0))
        except RuntimeError as error:
            said = str(error)
        with strategy.scope():
            inside = tf.Variable(1.0, name="inside")
        strategy.extended.update(inside, lambda variable: variable.assign_add(1.0))
        assert inside.numpy() == 2.0
    with all_cpus(2):
        return said, tf.distribute.experimental.CentralStorageStrategy().num_replicas_in_sync


def test_a_variable_of_no_scope_is_named() -> None:
    """With where it was made and what to do, in place of an assertion without a word."""
    with Cluster(Topology(devices="cpu:2"), timeout=60) as cluster:
        said, replicas = cluster.run(_unscoped)["local:0"].value
    assert said.startswith("the strategy cannot update variable 'early:0', which was made at ")
    assert "outside of strategy.scope(); build the model and the optimizer within" in said
    assert replicas == 2


_NAMED = {
    "resume_loop:never_restored": "restarted_from_scratch",  # its weights are drawn anew, and so are others
    "resume_loop:optimizer_not_saved": "slots_not_restored",
    "resume_workers:epoch_not_saved": "data_restarted",
    "ps_resume:momentum_not_saved": "slots_not_restored",  # its workers begin their data anew, which is no mistake
}
_AS_PEOPLE_WRITE_THEM = (
    *_NAMED,
    "central_loop:averaged_twice",
    "resume_loop",
    "resume_workers",
    "killed_twice",
    "ps_loop",
    "ps_loop:not_joined_before_it_saves",
    "ps_loop:divided_by_the_workers",
    "ps_loop:multiplied_by_the_workers",
    "ps_fit",
    "ps_resume",
    "ps_killed_worker",
    "ps_own_shards",
    "manual_shards:all_read_the_first_shard",
)


@pytest.mark.full  # tests/harness/test_scripts.py has scripts in the quick profile
@pytest.mark.parametrize("name", _AS_PEOPLE_WRITE_THEM)
def test_scripts_as_people_write_them(name: str) -> None:
    """Some of those in tools/unmodified, by the command: `python tools/scripts.py` verifies them all."""
    (case,) = cases(name)
    result = result_of(case)
    assert result.outcome == case.answer, result
    assert result.rule == _NAMED.get(name, result.rule), result


def test_a_closure_that_may_have_been_run_twice_is_not_judged() -> None:
    """Only a kill at a step, where none is under way, leaves no doubt."""
    law = Judgement(
        "variables_match_reference", "broken", suffices=True, findings=(Finding("variables_match_reference", "step 6"),)
    )
    examples = Judgement("examples_match_reference", "held")
    run = _run()
    for plan, doubts in (
        ({"fault": [{"kind": "kill", "task": "worker:1", "step": 5}]}, False),
        ({"fault": [{"kind": "kill", "task": "worker:1", "after": "2s"}]}, True),
        ({"fault": [{"kind": "kill", "step": 5}], "link": [{"src": "chief:0"}]}, True),
    ):
        verdict = Verdict("train.py", "parameter_server-2w1p", (law, examples), faults={"plan": plan})
        said = list(not_comparable(verdict, [run], run, returned=True))
        assert any("may have run a closure" in each for each in said) is doubts
        assert not list(not_comparable(verdict, [run], run))
