"""How a training is asked to be watched, and what it is told where nothing is left."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path
from types import ModuleType

import pytest

from _lockstep import _watching
from harness.evidence.deposit import trainings
from simulator import Cluster, Topology


@pytest.fixture
def watching() -> ModuleType:
    """The module that Python runs at its start, which is not run here."""
    path = Path(next(iter(_watching.__path__))) / "sitecustomize.py"
    spec = importlib.util.spec_from_file_location("not_run_at_the_start", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("value", ["10", ":x", "10:", "x:/dir", "0:/dir", ":", "-5:/dir", "1.5:/dir", "²:/dir"])
def test_a_malformed_variable_is_said(
    watching: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    """With its value and the form that it should have; nothing is watched then."""
    monkeypatch.setenv("LOCKSTEP_WATCH", value)
    watching._watch()
    said = f"lockstep watch: LOCKSTEP_WATCH={value} is malformed, and nothing is watched; write "
    assert capsys.readouterr().err == f"{said}EVERY:DIR, such as 500:/shared/evidence, or DIR\n"


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("/shared/evidence", (None, "/shared/evidence")),
        ("500:/shared/evidence", (500, "/shared/evidence")),
        ("5:with:colon", (5, "with:colon")),
        ("10steps", (None, "10steps")),
    ],
)
def test_what_is_asked_for(watching: ModuleType, value: str, asked: tuple[int | None, str]) -> None:
    """A directory, maybe with the steps that are left."""
    assert watching._asked(value) == asked


def _said(folder: str) -> tuple[list[str], list[bool]]:
    """What is said where a strategy is built or not, and whether trainings have ended that exit with 0 and with 3."""
    import keras
    import tensorflow as tf

    from harness.watch import watch

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])

    def nothing() -> None:
        pass

    def strategy() -> None:
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    found = []
    for of, does in ((None, nothing), (model, nothing), (None, strategy)):
        with contextlib.redirect_stderr(io.StringIO()) as err, watch(out=folder, model=of):
            does()
        found.append(err.getvalue())
    with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.suppress(SystemExit), watch(out=folder):
        raise SystemExit
    found.append(err.getvalue())
    ends = []
    for code in (0, 3):
        with contextlib.suppress(SystemExit), watch(out=f"{folder}/{code}"):
            strategy()
            raise SystemExit(code)
        (training,) = trainings(Path(folder, str(code)))
        ends.append(training.is_over)
    return found, ends


def test_that_no_strategy_was_built_is_said(tmp_path: Path) -> None:
    """At the end, or at once of a model that has none; also of a script that exits, which has ended if that is well."""
    with Cluster(Topology(devices="cpu:2"), timeout=60) as cluster:
        (without, of_model, with_strategy, exits), ends = cluster.run(_said, str(tmp_path))["local:0"].value
    assert ends == [True, False]
    none = f"lockstep watch: no strategy of tf.distribute was built here, so nothing is left in {tmp_path}\n"
    assert (without, exits) == (none, none)
    told = f"the model was built under no strategy of tf.distribute, so nothing is left in {tmp_path}"
    assert of_model == f"lockstep watch: {told}\n"
    assert "lockstep watch" not in with_strategy


def _twice(folder: str) -> None:
    import tensorflow as tf

    from harness.watch import watch

    with watch(out=f"{folder}/outer"), watch(out=f"{folder}/inner"):
        tf.distribute.MirroredStrategy(["CPU:0"])


def test_a_process_that_is_watched_is_not_watched_again(tmp_path: Path) -> None:
    """As that of a judge, whose script would leave evidence beside the job's."""
    with Cluster(Topology(), timeout=60) as cluster:
        cluster.run(_twice, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["outer"]
