"""`%load_ext lockstep` and `%%lockstep`, in a stand-in for IPython's registration and in a shell of IPython's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lockstep
from harness import verify
from harness.subject.program import Program

TRAIN = """%%lockstep verify mirrored-2
def train(strategy, record):
    x = tf.random.stateless_normal([24, 3], seed=[1, 2])
    dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1))).batch(8)
    with strategy.scope():
        w = tf.Variable(tf.zeros([3]), name="w")

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(w, x, y)
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))

    for batch in strategy.experimental_distribute_dataset(dataset):
        tf.function(strategy.run)(step, args=batch)
        record.step(variables={"w": w})
"""
LOSS = """import tensorflow as tf

def loss_of(w, x, y):
    total = tf.constant(0.0)
    for _ in tf.range(1):
        total += tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)
    return total
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell of IPython's that keeps no history in a file, with the extension."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance(user_ns={"__name__": "__main__"})
    found.history_manager.enabled = False
    _run(found, "%load_ext lockstep")
    yield found
    InteractiveShell.clear_instance()


def _run(shell: Any, cell: str) -> str | None:
    """Run a cell, and give what it raised."""
    done = shell.run_cell(cell, store_history=True)
    error = done.error_before_exec or done.error_in_exec
    return None if error is None else f"{type(error).__name__}: {error}"


def test_the_extension_registers_one_magic() -> None:
    """Of a cell, by IPython's own call, and imports no IPython for it."""
    registered = []
    shell = SimpleNamespace(
        register_magic_function=lambda *given: registered.append(given[1:]), compile=SimpleNamespace()
    )
    lockstep.load_ipython_extension(shell)
    assert registered == [("cell", "lockstep")]
    assert shell.compile.get_code_name("x", "x", 3) == f"{Path.cwd()}/notebook, cell 3"


def test_a_cell_is_verified_under_each_strategy(
    shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its `train` has its source, by the number of its cell, in this process and for tasks; verdicts are shown."""
    asked = []

    def judged(train: Any, name: str) -> Any:
        asked.append((Program.of(train), train, name))
        return SimpleNamespace(text=lambda: f"said of {name}")

    monkeypatch.setattr(sys.modules[verify.__module__], "verify", judged)
    assert _run(shell, "def outside(): return 3") is None
    cell = "%%lockstep verify mirrored-2 one_device\ndef train(strategy, record):\n    return outside()\n"
    assert _run(shell, cell) is None
    assert [name for _, _, name in asked] == ["mirrored-2", "one_device"]
    assert list(shell.user_ns["verdicts"]) == ["mirrored-2", "one_device"]
    shown = capsys.readouterr().out
    assert "said of mirrored-2" in shown
    assert "said of one_device" in shown
    program, train, _ = asked[0]
    assert train.__code__.co_filename == f"{Path.cwd()}/notebook, cell 3"
    assert train.__code__.co_firstlineno == 2
    loaded = program.load()
    assert loaded(None, None) == 3
    assert inspect.getsource(loaded) == "def train(strategy, record):\n    return outside()\n"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%%lockstep\ndef train(strategy, record): pass", "UsageError: write %%lockstep verify STRATEGY"),
        ("%%lockstep verify --fix\ndef train(strategy, record): pass", "UsageError: write %%lockstep verify STRATEGY"),
        ("%%lockstep verify\nx = 1", "UsageError: the cell defines no train"),
        (
            "%%lockstep verify\ndef train(strategy): pass",
            "UsageError: train cannot be called as train(strategy, record)",
        ),
        ("%%lockstep verify none\ndef train(strategy, record): pass", "UsageError: strategy 'none' is unknown"),
        ("%%lockstep verify\n1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_wrong_with_a_cell_is_said(shell: Any, cell: str, text: str) -> None:
    """In one sentence, without a traceback unless the cell raised."""
    assert (_run(shell, cell) or "").startswith(text)


@pytest.mark.full
def test_a_wrong_cell_is_found(shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in a function of another cell, which AutoGraph converts in the tasks, is named by that cell's line."""
    # In a session of pytest nobody asks for the line by default.
    monkeypatch.setattr(sys.modules[verify.__module__], "verify", partial(verify, explain=True))
    assert _run(shell, LOSS) is None
    assert _run(shell, TRAIN) is None
    verdict = shell.user_ns["verdicts"]["mirrored-2"]
    assert verdict.explanation.rule == "loss_times_replicas"
    assert "error[loss_times_replicas]" in capsys.readouterr().out
    assert verdict.culprit is not None
    assert verdict.culprit.where == "notebook, cell 2, line 6"
    assert _run(shell, LOSS.replace("reduce_mean", "0.125 * tf.reduce_sum").replace("tf.0", "0")) is None
    assert _run(shell, TRAIN) is None
    assert shell.user_ns["verdicts"]["mirrored-2"]
