"""What a program sets in its environment before it imports TensorFlow, and that it counts as under plain Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness import verify
from harness.subject.program import Program
from simulator.launch.before_import import before_tensorflow


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import os\nos.environ['A'] = '1'\nimport tensorflow as tf\nos.environ['B'] = '2'", {"A": "1"}),
        ("import os as o, sys\no.environ['A'] = '1'\nfrom keras import layers\no.environ['B'] = '2'", {"A": "1"}),
        ("from os import environ\nenviron['A'] = '1'\nenviron['A'] = '2'", {"A": "2"}),
        ("from os import environ as e\nVALUE = '-1'\ne['A'] = VALUE + '0'", {"A": "-10"}),
        ("import os\nos.environ.setdefault('A', '1')\nos.environ.setdefault('SET', '1')", {"A": "1", "SET": "0"}),
        ("import os\nos.environ.update({'A': '1', 'B': '2'}, C='3')", {"A": "1", "B": "2", "C": "3"}),
        ("import os\nos.environ['SET'] += ' 1'", {"SET": "0 1"}),
        ("import os\nos.environ['A'] = os.environ.get('B', '') + ' 1'", {"A": " 1"}),
        ("import os\nos.environ['A'] = os.environ['SET']", {"A": "0"}),
        ("try:\n    import tensorflow\nexcept ImportError:\n    pass\nimport os\nos.environ['A'] = '1'", {}),
        ("import os\nif len(os.sep) > 1:\n    os.environ['A'] = '1'", {}),
        ("import os\ndef f():\n    os.environ['A'] = '1'\n    import tensorflow\nos.environ['B'] = '1'", {"B": "1"}),
        ("import os\nos.environ['A'] = str(len(os.sep))", {}),
        ("import os\nos.environ['A']: str = '1'", {"A": "1"}),
        ("import os, sys\nos.environ['A'] = '1'\nos.environ['A'] = sys.argv[0]", {}),
        ("import os\nVALUE = '1'\nif len(os.sep) > 1:\n    VALUE = '0'\nos.environ['A'] = VALUE", {}),
        ("import os\nVALUE, other = '1', '2'\nos.environ['A'] = VALUE", {}),
        ("import os\nVALUE = '1'\nfor VALUE in '23':\n    pass\nos.environ['A'] = VALUE", {}),
        ("import os\nos.environ['A'] = '1'\nif len(os.sep) > 1:\n    os.environ.update(A='2')", {}),
        ("import os\nos.environ['A'] = os.environ['B'] = '1'\ndel os.environ['A']", {"B": "1"}),
        ("import os\nos.environ['A'] = os.environ['B'] = '1'\nos.environ.pop('A')", {"B": "1"}),
        ("import os\nx = os.environ.setdefault('A', '1')", {}),
        ("import os\nother = {}\nother['A'] = '1'\nother.update(B='1')", {}),
    ],
)
def test_what_is_set_is_read_off_the_text(text: str, found: dict[str, str]) -> None:
    """In Python's order, until somebody imports what reads it; what is not certain is not said."""
    assert before_tensorflow(ast.parse(text), {"SET": "0"}).variables == found


_LEGACY = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.python.util import _pywrap_util_port

def check():
    made = tf.keras.layers.Dense, layers.Dense
    assert all(each.__module__.startswith("tf_keras.") for each in made), made
    assert not _pywrap_util_port.IsMklEnabled()
"""

_SCRIPT = """
check()

def apart(truth, predicted):
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return (truth - predicted) ** 2 * (1.0 + tf.cast(replica, tf.float32))

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([layers.Dense(1, kernel_initializer="zeros", input_shape=(3,))])
    model.compile("sgd", LOSS)
x = np.arange(24, dtype="float32").reshape(8, 3) / 24
model.fit(tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(4), verbose=0)
"""

_FUNCTION = """
def train(strategy, record):
    check()
    record.step(loss=1.0)
"""


def test_a_program_knows_what_its_file_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is another program where that is."""
    file = tmp_path / "train.py"
    file.write_text("import os\nos.environ.setdefault('CHOSEN', '1')\ndef train(strategy, record): ...\n")
    monkeypatch.delenv("CHOSEN", raising=False)
    programs = [Program.of(f"{file}:train"), Program.of(["python", str(file)])]
    assert [each.task_environ for each in programs] == [{"CHOSEN": "1"}] * 2
    monkeypatch.setenv("CHOSEN", "2")
    others = [Program.of(f"{file}:train"), Program.of(["python", str(file)])]
    assert [each.task_environ for each in others] == [{"CHOSEN": "2"}] * 2
    assert all(one.digest != other.digest for one, other in zip(programs, others, strict=True))


@pytest.mark.full  # in the quick profile tests/simulator/test_environ_of_calls.py has it without TensorFlow
@pytest.mark.parametrize(("loss", "outcome"), [('"mse"', "consistent"), ("apart", "inconsistent")])
def test_a_script_gets_the_keras_that_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str, outcome: str
) -> None:
    """By whichever way it imports it, in the run and as its own reference."""
    (tmp_path / "train.py").write_text(_LEGACY + _SCRIPT.replace("LOSS", loss))
    monkeypatch.chdir(tmp_path)
    verdict = verify(["python", "train.py"], "mirrored-2", explain=False)
    assert verdict.outcome == outcome, str(verdict)


@pytest.mark.full
def test_so_does_a_function_of_a_file(tmp_path: Path) -> None:
    """Which asserts it."""
    (tmp_path / "train.py").write_text(_LEGACY + _FUNCTION)
    assert verify(f"{tmp_path / 'train.py'}:train", "one_device", explain=False, prove=False)
