"""`lockstep audit`: what a program uses, and which known defects it meets by that."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness import verify
from harness.audits import Audit, MetIssue, audit, met_with
from harness.evidence.uses import Use, Used, read_uses, write_uses
from harness.judging.known_issues import registry
from harness.recording.library_uses import _noting
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import strategy_case

SCRIPT = """
import keras
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = tf.random.stateless_normal((16, 4), (1, 2))
with strategy.scope():
    layers = [keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.1, clipnorm=1.0), "mse")
"""


class _Mode(Enum):
    PER_REPLICA = 1


FIT = "model.fit(tf.data.Dataset.from_tensor_slices((x, x[:, :2])).batch(8), verbose=0)\n"


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        (True, True, True),
        (True, "auto", False),
        ("set", 0.5, True),
        ("set", None, False),
        ("set", False, False),
        (">1", 4, True),
        (">1", 1, False),
        (">0", "epoch", False),
        ("*.h5", "model.h5", True),
        ("*.h5", Path("model.keras"), False),
        ("PER_*", _Mode.PER_REPLICA, True),
        ("PER_*", 1, False),
        ("several", ["mse", "mae"], True),
        ("several", ["mse"], False),
        ("a function", lambda target, output: target, True),
        ("a function", "mse", False),
        ("of unknown length", iter(()), True),
        ("of unknown length", [], False),
        ("a generator", iter(()), True),
        ("a generator", [], False),
        ("an array", np.zeros(2), True),
        ("an array", [0.0], False),
        ("not False", None, True),
        ("not False", False, False),
    ],
)
def test_an_argument_fits_or_not(wanted: bool | str, value: Any, fits: bool) -> None:
    """By a value, a predicate or a pattern."""
    assert Use("keras.Model.fit", {"x": wanted}).fits({"x": value}) is fits


def test_uses_are_read_as_they_were_left(tmp_path: Path) -> None:
    """Of several tasks each once."""
    used = Used(Use("keras.Model.fit", {"callbacks": "set"}), "train.py:3")
    for task in ("worker:0", "worker:1"):
        write_uses(tmp_path, task, [used])
    assert read_uses(tmp_path) == [used]


def test_an_audit_shows_line_and_way_out() -> None:
    """One defect as other diagnostics are shown; that a run failed is told."""
    issue = next(each for each in registry() if each.id == "keras3-clip-before-reduction")
    found = Audit("train.py", "mirrored-2", (MetIssue(issue, ("train.py:9",)),), 40, "worker:0 failed")
    first, *_, head, failed = found.text(110).splitlines()
    assert first.startswith("warning[keras3-clip-before-reduction]: Keras 3 optimizers clip")
    assert "  --> train.py:9" in found.text(110)
    assert head == "train.py under mirrored-2: meets 1 of 40 known defects"
    assert failed.endswith("worker:0 failed")
    assert found.to_json()["met"][0]["places"] == ("train.py:9",)


def test_what_an_argument_is_never_fails_the_program() -> None:
    """A data set that raises where it is asked for its length is the program's own."""
    seen: dict[int, str] = {}
    broken = SimpleNamespace(cardinality=lambda: 1 / 0)
    wanted = {0: Use("keras.Model.fit", {"x": "of unknown length"}), 1: Use("keras.Model.fit")}
    places: Any = SimpleNamespace(line=lambda: "train.py:3")
    call = _noting(lambda x: x, wanted, seen, places)
    assert call(broken) is broken
    assert seen == {1: "train.py:3"}
    call(iter(()))
    assert seen == {0: "train.py:3", 1: "train.py:3"}


def _audited(folder: Path, text: str, strategy: str = "mirrored-2") -> list[tuple[str, tuple[str, ...]]]:
    (folder / "train.py").write_text(text)
    script = Script.of([sys.executable, str(folder / "train.py")], 100, ())
    found = audit(Program.of_script(script), strategy_case(strategy))
    assert bool(found.failure) is ("raise ValueError" in text), found.failure
    return [(each.issue.id, tuple(Path(where).name for where in each.places)) for each in found.met]


def test_a_script_meets_what_it_uses(tmp_path: Path) -> None:
    """Each by its line; what it does not use it does not meet."""
    met = dict(_audited(tmp_path, SCRIPT + FIT))
    assert met == {
        "keras3-fit-uneven-first-batch": ("train.py:11",),
        "keras3-clip-before-reduction": ("train.py:10",),
        "keras3-same-random-numbers": ("train.py:8",),
    }


def weighted(strategy: Any, record: Any) -> None:
    """Three replicas whose examples weigh differently, and what `fit` gives callbacks of the program's own step."""
    import keras
    import tensorflow as tf

    class Model(keras.Sequential):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    with strategy.scope():
        model = Model([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse", weighted_metrics=["mse"])
    rows = tf.random.stateless_normal((12, 2), (1, 2))
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1] ** 2, tf.range(1.0, 13.0))).batch(6)
    model.fit(data, verbose=0, callbacks=[record.keras_callback(model)])


@pytest.mark.full
def test_what_nothing_explains_may_be_a_defect_that_the_program_meets() -> None:
    """It is run once more for it, and the defect has to break just the laws that are broken."""
    program, case = Program.of(weighted), strategy_case("mirrored-3")
    verdict = verify(weighted, "mirrored-3", explain=True, prove=False)
    met = met_with(verdict, program, case, timeout=60)
    assert [each.issue.id for each in met] == ["keras3-fit-batch-logs"], str(verdict)
    for other in ({"judgements": ()}, {"looked": None}):  # other laws, and nobody who wants to know
        assert met_with(dataclasses.replace(verdict, **other), program, case, timeout=60) == ()


@pytest.mark.full
def test_a_run_that_fails_has_met_what_it_used_until_then(tmp_path: Path) -> None:
    """Here before `fit`."""
    met = dict(_audited(tmp_path, f"{SCRIPT}raise ValueError\n{FIT}"))
    assert set(met) == {"keras3-clip-before-reduction", "keras3-same-random-numbers"}


@pytest.mark.full
@pytest.mark.parametrize(("strategy", "met"), [("mirrored-3", ("train.py:2",)), ("mirrored-2", None)])
def test_a_way_to_reduce_that_a_script_chooses_is_met(
    strategy: str, met: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """Hierarchical copy is wrong among three replicas, whoever names it."""
    text = "import tensorflow as tf\ncopy = tf.distribute.HierarchicalCopyAllReduce()\n"
    found = dict(_audited(tmp_path, f"{text}tf.distribute.MirroredStrategy(cross_device_ops=copy)\n", strategy))
    assert found.get("tf-hierarchical-copy-odd") == met


@pytest.mark.full
def test_what_the_registry_names_can_be_used() -> None:
    """Each class and function is there in the tested versions; a typo is found."""
    names = sorted({use.of for issue in registry() for all_of in issue.meets for use in all_of})
    text = (
        f"from harness.recording.library_uses import target_of; print([n for n in {names!r} if target_of(n) is None])"
    )
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300)
    assert told.stdout.strip() == "[]"
