"""Cures: which changes of a source are tried, what is consistent with one, and what stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import _lockstep
from harness.cli._cures import told_cure
from harness.cures import TriedCure
from harness.cures.kinds import all_cures
from harness.cures.protocol import CureSource
from harness.judging.culprit.kinds import REPORT
from harness.judging.diagnostics.from_verdict import label_of
from harness.judging.verdict import Verdict
from simulator import UsageError

_TRAIN = """\
import helpers


def train(strategy, record):
    import numpy as np
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable([1.0, 2.0], aggregation=tf.VariableAggregation.SUM)

    def replica(x):
        with tf.GradientTape() as tape:
            loss = {loss}
        w.assign_sub(helpers.RATE * tape.gradient(loss, w))
        return loss

    data = tf.data.Dataset.from_tensor_slices(np.arange(16, dtype=np.float32).reshape(8, 2) / 16).batch(4)
    for x in strategy.experimental_distribute_dataset(data):
        record.step(loss=strategy.reduce("SUM", strategy.run(replica, (x,)), axis=None), variables=[w])
    record.final(variables=[w])
"""
_MEAN, _AVERAGE = (
    "tf.reduce_mean(tf.reduce_sum(x * w, 1) ** 2)",
    "tf.nn.compute_average_loss(tf.reduce_sum(x * w, 1) ** 2)",
)


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Path]:
    """A program that averages on each replica, with a module of its own beside it."""
    (tmp_path / "helpers.py").write_text("RATE = 0.1\n")
    file = tmp_path / "train.py"
    file.write_text(_TRAIN.format(loss=_MEAN))
    yield file
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "__pycache__") == ["helpers.py", "train.py"]


def _verify(*arguments: str) -> tuple[int, str]:
    command = ["verify", "--no-prove", "--strategy", "mirrored-2", *arguments]
    done = CliRunner().invoke(_lockstep, command, standalone_mode=False)
    if isinstance(done.exception, click.UsageError):
        return 2, done.exception.format_message()
    return done.return_value, done.stdout


@pytest.mark.full  # what is written is shown as well
def test_a_cure_is_shown_and_the_file_is_as_it_was(train: Path) -> None:
    """The copy that is verified finds what lies beside the file, and with what it shows the program is consistent."""
    code, output = _verify(f"{train}:train", "--fix")
    assert code == 1
    assert "help: verified: with this change it is consistent" in output
    assert f"-            loss = {_MEAN}\n+            loss = {_AVERAGE}\n" in output
    assert train.read_text() == _TRAIN.format(loss=_MEAN)
    train.write_text(_TRAIN.format(loss=_AVERAGE))
    assert _verify(f"{train}:train")[0] == 0


@pytest.mark.full
def test_a_cure_is_written_where_that_is_asked_for(train: Path) -> None:
    """It is what the verified copy had; JSON has the diff, and the culprit with its keys."""
    line = next(number for number, each in enumerate(train.read_text().splitlines(), 1) if "loss = " in each)
    code, output = _verify(f"{train}:train", "--fix", "--write", "--json")
    assert code == 1
    found = json.loads(output)
    assert _AVERAGE in found["cure"]["diff"]
    assert found["culprit"].keys() >= {"file", "line", "source", "op", "layer", "relation", "expected", "inputs"}
    assert (Path(found["culprit"]["file"]).name, found["culprit"]["line"]) == ("train.py", line)
    assert found["looked"]["seconds"] > 0
    assert train.read_text() == _TRAIN.format(loss=_AVERAGE)


@pytest.mark.full
def test_a_file_keeps_its_ends_of_lines_its_encoding_and_its_mode(train: Path) -> None:
    """And a link to it goes on to be one."""
    text = f"# -*- coding: latin-1 -*-\n# größe\x0c\n{_TRAIN}"
    train.write_bytes(text.format(loss=_MEAN).replace("\n", "\r\n").encode("latin-1"))
    train.chmod(0o640)
    link = train.with_name("link.py")
    link.symlink_to(train.name)
    assert _verify(f"{link}:train", "--fix", "--write")[0] == 1
    assert train.read_bytes() == text.format(loss=_AVERAGE).replace("\n", "\r\n").encode("latin-1")
    assert train.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    link.unlink()


@pytest.mark.parametrize(("now", "written"), [("before\n", True), ("another\n", False)])
def test_what_somebody_else_has_changed_is_not_written_over(tmp_path: Path, now: str, written: bool) -> None:
    """While the copy was verified."""
    file = tmp_path / "train.py"
    file.write_text(now)
    found = TriedCure(file, "before\n", "after\n", "utf-8", Verdict("p", "s", ()))
    if written:
        assert told_cure(found, "json", write=True)["diff"].endswith("-before\n+after")
        assert file.read_text() == "after\n"
    else:
        with pytest.raises(UsageError, match="has been changed in the meantime"):
            told_cure(found, "json", write=True)
        assert file.read_text() == now
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.full
def test_a_mistake_beside_the_program_is_cured_there(train: Path) -> None:
    """What calls it is a copy, which finds the changed file."""
    helpers = train.with_name("helpers.py")
    text = "RATE = 0.1\n\n\ndef average(losses):\n    import tensorflow as tnf\n\n    return tnf.reduce_mean(losses)\n"
    helpers.write_text(text)
    train.write_text(_TRAIN.format(loss="helpers.average(tf.reduce_sum(x * w, 1) ** 2)"))
    code, output = _verify(f"{train.parent}/../{train.parent.name}/train.py:train", "--fix", "--write")
    assert code == 1
    assert "+    return tnf.nn.compute_average_loss(losses)" in output
    assert helpers.read_text() == text.replace("reduce_mean", "nn.compute_average_loss")


@pytest.mark.full
def test_another_training_is_no_cure(train: Path) -> None:
    """One more than the replicas is divided by: without that all is consistent, and one device trains otherwise."""
    count = "tf.distribute.get_strategy().num_replicas_in_sync"
    train.write_text(_TRAIN.format(loss=f"{_AVERAGE} / ({count} + 1.0)"))
    code, output = _verify(f"{train}:train", "--fix")
    assert code == 1
    assert re.search(r"help: none of \d known changes of these lines makes it consistent", output)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--write",), "--write writes what --fix has found"),
        (("--fix", "--interrupt-at", "2"), "leave out --interrupt-at"),
        (("--fix", "--no-explain"), "leave out --no-explain"),
        (("--fix", "--format", "junit"), "--fix has no place in --format junit"),
        (("--fix", "--write", "--strategy", "mirrored-3"), "give one --strategy"),
        (("--fix", "--fault", "kind=kill,task=*,step=2"), "leave out --fault"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(train: Path, options: tuple[str, ...], said: str) -> None:
    """Before anything starts."""
    code, output = _verify(f"{train}:train", *options)
    assert code == 2
    assert said in output


def _changes(code: str, text: str, operation: str = "") -> list[str]:
    """What each cure for a code makes of the line of a file that has a mark."""
    lines = text.splitlines()
    line = next(number for number, each in enumerate(lines, start=1) if "# here" in each)
    source = CureSource(text, label_of("nowhere.py", line, "", source=lines[line - 1].strip(), operation=operation))
    return [changed for cure in all_cures() if code in cure.codes for changed in cure.changed(source)]


_CONTEXT = "tf.distribute.get_replica_context()"
_REPLICAS = "tf.distribute.get_strategy().num_replicas_in_sync"


@pytest.mark.parametrize(
    ("code", "wrong", "cured"),
    [
        ("loss_times_replicas", "tf.reduce_mean(x)", "tf.nn.compute_average_loss(x)"),
        ("loss_times_replicas", "tf.reduce_mean(x, 0)", f"tf.reduce_mean(x, 0) / {_REPLICAS}"),
        ("loss_times_replicas", "f(x, global_batch_size=9)", None),
        ("loss_times_replicas", "x / count", f"x / count / {_REPLICAS}"),
        ("loss_times_workers", "tf.nn.compute_average_loss(x, global_batch_size=8)", "tf.nn.compute_average_loss(x)"),
        ("loss_divided_by_replicas", "x / strategy.num_replicas_in_sync", "x"),
        ("loss_divided_by_replicas", "x / (4 * strategy.num_replicas_in_sync)", "x / (4)"),
        ("loss_divided_by_replicas", "x / rows", None),
        ("loss_divided_by_replicas", 'strategy.reduce("MEAN", x)', 'strategy.reduce("SUM", x)'),
        (
            "loss_divided_by_replicas",
            "s.reduce(tf.distribute.ReduceOp.MEAN, x)",
            "s.reduce(tf.distribute.ReduceOp.SUM, x)",
        ),
        ("regularizer_times_replicas", "x + sum(größe)", "x + tf.nn.scale_regularization_loss(sum(größe))"),
        ("gradients_not_reduced", "o.apply_gradients(x, skip_gradients_aggregation=True)", "o.apply_gradients(x)"),
        (
            "examples_duplicated",
            "tf.data.experimental.AutoShardPolicy.OFF",
            "tf.data.experimental.AutoShardPolicy.DATA",
        ),
        ("variables_match_reference", "0.1 * strategy.num_replicas_in_sync", "0.1"),
        ("variables_match_reference", f'{_CONTEXT}.all_reduce("SUM", x)', "x"),
        ("variables_match_reference", "f(tf.VariableAggregation.SUM)", "f(tf.VariableAggregation.MEAN)"),
        (
            "metrics_match_reference",
            "strategy.experimental_local_results(x)[0]",
            'strategy.reduce("SUM", x, axis=None)',
        ),
        ("metrics_match_reference", "strategy.reduce(SUM, x, axis=None)", 'strategy.reduce("MEAN", x, axis=None)'),
        ("batch_statistics_local", "BatchNormalization()(x)", "BatchNormalization(synchronized=True)(x)"),
        ("batch_statistics_local", "BatchNormalization(synchronized=True)(x)", None),
        (
            "variables_match_reference",
            "tf.math.reduce_std(x, axis=0)",
            f"tf.math.reduce_std({_CONTEXT}.all_gather(x, axis=0), axis=0)",
        ),
        (
            "draws",
            "tf.random.stateless_normal([2], [3, step])",
            f"tf.random.stateless_normal([2], [3 + 100003 * {_CONTEXT}.replica_id_in_sync_group, step])",
        ),
        ("draws", "tf.random.stateless_normal([2], seed)", None),
    ],
)
def test_a_cure_changes_an_expression(code: str, wrong: str, cured: str | None) -> None:
    """And nothing else of the file."""
    made = _changes(code, f"before = '# größe'\ny = {wrong}  # here\nafter = 1\n")
    assert made[0] == f"before = '# größe'\ny = {cured}  # here\nafter = 1\n" if cured else made == []


def test_a_cure_sums_gradients_before_they_are_clipped() -> None:
    """What comes after adds up the replicas' shares; names that are no gradients stay."""
    text = "    g = tape.gradient(y, w)\n    h, _ = tf.clip_by_global_norm(g, limit)  # here\n"
    first, third = text.splitlines(keepends=True)
    assert _changes("clipped_before_reduce", f"def f():\n{text}")[0] == (
        f"def f():\n{first}"
        f'    g = {_CONTEXT}.all_reduce("SUM", g)\n'
        f"{third}"
        f"    h = tf.nest.map_structure(lambda each: each / {_REPLICAS}, h)\n"
    )
    assert _changes("clipped_before_reduce", f"def f():\n{text}".replace("tape.gradient", "numbers")) == []


def test_lines_that_are_put_in_end_and_begin_as_their_neighbours() -> None:
    """As files of Windows have it, and those that are indented by tabs."""
    text = "def f():\r\n\tg = tape.gradient(y, w)\r\n\th = tf.clip_by_norm(g, 1.0)  # here\r\n"
    first = _changes("clipped_before_reduce", text)[0]
    assert f'\r\n\tg = {_CONTEXT}.all_reduce("SUM", g)\r\n\th = tf.clip_by_norm' in first
    assert first.count("\n") == first.count("\r\n") == 5


def test_a_cure_shares_what_an_optimizer_adds_up_again() -> None:
    """Gradients that have been summed are the same in all replicas."""
    text = "def f():\n    g = s(tape.gradient(y, w))\n    o.apply_gradients(zip(g, w))  # here\n"
    shared = f"    g = tf.nest.map_structure(lambda each: each / {_REPLICAS}, g)\n"
    lines = text.splitlines(keepends=True)
    assert "".join([*lines[:2], shared, lines[2]]) in _changes("added_up_twice", text)


def test_a_cure_gathers_what_is_centered_and_scaled() -> None:
    """One of both would be another training."""
    made = _changes("loss_matches_reference", "y = (x - tf.reduce_mean(x)) / tf.math.reduce_std(x)  # here\n")
    rows = f"{_CONTEXT}.all_gather(x, axis=0)"
    assert f"y = (x - tf.reduce_mean({rows})) / tf.math.reduce_std({rows})  # here\n" in made


def test_a_report_of_one_replica_is_found_in_all_of_the_file() -> None:
    """No line is named for it, since no operation made it."""
    text = "def report(s, x):\n    return s.experimental_local_results(x)[0]\n"
    made = [changed for cure in all_cures() if REPORT.code in cure.codes for changed in cure.changed(CureSource(text))]
    ways = ("SUM", "MEAN")
    assert made == [f'def report(s, x):\n    return s.reduce("{way}", x, axis=None)\n' for way in ways]
