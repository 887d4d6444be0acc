"""Scripts that are forked with TensorFlow in them: they see, do and leave what they would from a shell."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from simulator import Cluster, RunFailed, Topology
from simulator.launch.preloaded import FRESH, preloaded

# It counts as a script that imports TensorFlow, and does not.
NEVER = "if __name__ == '':\n    import tensorflow\n"

SEEN = """
import os, signal, sys, threading
print(sys.argv, __name__, __file__, __package__, __spec__, __loader__.__class__.__name__)
print([entry for entry in sys.path], os.getcwd())
print({name: value for name, value in sorted(os.environ.items()) if name not in {'TMPDIR', 'LOCKSTEP_RUN',
      'LOCKSTEP_AGENT', 'TF_CONFIG', 'LOCKSTEP_SEMAPHORES', 'LOCKSTEP_FRESH'}})
print([name in sys.modules for name in ('tensorflow', 'keras', 'tf_keras', 'harness')])
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP)])
print([(stream.name, stream.encoding, stream.errors, stream.isatty(), stream.write_through, stream.line_buffering,
       stream.mode) for stream in (sys.stdin, sys.stdout, sys.stderr)], sys.stdin.read() == '')
print(threading.current_thread().name, threading.active_count(), threading.main_thread() is threading.current_thread())
print(sys.executable, sys.flags.optimize, sys.getrecursionlimit(), sorted(vars()))
import inspect
def here(): 'mine'
print(inspect.getsource(here), here.__module__, here.__code__.co_filename)
"""
ENDS = """
import atexit, os, threading, time
class Held:
    def __del__(self): os.write(1, b'let go\\n')
held = Held()
atexit.register(lambda: print('at exit'))
done = threading.Event()
threading.Thread(target=lambda: (done.wait(), print('joined'))).start()
threading.Timer(0.1, done.set).start()
print('no end of line', end='')
"""
STARTS = """
import concurrent.futures, multiprocessing, os, subprocess, sys
def square(x): return x * x
if __name__ == '__main__':
    for way in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(square, [1, 2, 3]))
    pickled = subprocess.run([sys.executable, '-c', 'import os; print(os.environ["LOCKSTEP_TASK"])'])
    child = os.fork()
    if not child: os._exit(7)
    print(os.waitpid(child, 0)[1] >> 8)
"""
RAISES = """
def inner():
    raise ValueError('no data')
try:
    1 / 0
except ZeroDivisionError:
    inner()
"""
SCRIPTS = {
    "seen": SEEN,
    "ends": ENDS,
    "starts": STARTS,
    "raises": RAISES,
    "exits": "import sys\nsys.exit(3)",
    "exits with a word": "import sys\nsys.exit('no data')",
    "exits by itself": "import os\nos._exit(4)",
    "is interrupted": "raise KeyboardInterrupt",
    "is killed": "import os\nprint('so', end='', flush=True)\nos.kill(os.getpid(), 9)",
    "has a hook": "import sys\nsys.excepthook = lambda *of: print('hooked', of[0])\nraise ValueError('no data')",
}


def _left(folder: Path, text: str, *args: str) -> tuple[str, int | None, str | None]:
    """What a script prints, and how it ends."""
    (folder / "script.py").write_text(text)
    return _ended(folder, "script.py", *args)


def _ended(folder: Path, *command: str) -> tuple[str, int | None, str | None]:
    with Cluster(Topology(worker=1), preload=(), timeout=60) as cluster:
        try:
            result = cluster.run_command(["python", *command], cwd=folder)
        except RunFailed as failure:
            result = failure.result
        task = result["worker:0"]
        return task.log, task.exit, task.signal


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_script_sees_and_leaves_what_it_does_from_a_shell(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments, files, modules, streams and signals, what it starts, and how it ends."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    forked = _left(tmp_path, NEVER + SCRIPTS[name], "--rate", "a b")
    assert preloaded(["python", "script.py"], str(tmp_path), dict(os.environ)) is not None
    monkeypatch.setenv(FRESH, "1")
    assert forked == _left(tmp_path, NEVER + SCRIPTS[name], "--rate", "a b")
    assert forked[0] or forked[1]


def test_another_tensorflow_that_the_script_finds_is_the_one_that_it_gets(tmp_path: Path) -> None:
    """It may put it on its path before it imports it."""
    (tmp_path / "own/tensorflow").mkdir(parents=True)
    (tmp_path / "own/tensorflow/__init__.py").write_text("print('own', __name__)")
    text = "import sys\nsys.path.insert(0, 'own')\nimport tensorflow\nprint(tensorflow.__file__)"
    (tmp_path / "script.py").write_text(text)
    with Cluster(Topology(worker=1), preload=(), timeout=60) as cluster:
        result = cluster.run_command([sys.executable, "script.py"], cwd=tmp_path)
    assert result["worker:0"].log.splitlines()[0] == "own tensorflow"
    assert result["worker:0"].log.splitlines()[-1].endswith("own/tensorflow/__init__.py")


def test_tensorflow_is_there_when_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, whole, and with the steps of the program counted."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    text = """
import sys
assert 'tensorflow' not in sys.modules
import keras, time
began = time.monotonic()
import tensorflow as tf
import tensorflow.python.ops.math_ops
from tensorflow import keras as same
assert time.monotonic() < began + 0.5
assert tf is sys.modules['tensorflow'] and tf.__spec__.name == 'tensorflow' and tf.__spec__.origin == tf.__file__
weight = tf.Variable(1.0)
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = weight * weight
    weight.assign_sub(tape.gradient(loss, weight))
print(same.__version__ == keras.__version__, len(tf.config.list_logical_devices()))
"""
    (tmp_path / "script.py").write_text(text)
    with Cluster(Topology(worker=1, devices="cpu:2"), preload=(), timeout=60) as cluster:
        result = cluster.run_command(["python", "script.py"], cwd=tmp_path)
        assert result["worker:0"].log.endswith("True 2\n")
    assert result["worker:0"].steps == 3


@pytest.mark.parametrize(
    ("text", "command", "more", "forked"),
    [
        ("import tensorflow", ["python", "script.py"], {}, True),
        ("import tensorflow", ["python", "-u", "script.py", "-O"], {}, True),
        ("from keras import layers", [sys.executable, "script.py"], {}, True),
        ("import tensorflow", ["python", "-O", "script.py"], {}, False),
        ("import tensorflow", ["python", "-m", "script", "-x"], {}, True),
        ("import tensorflow", ["python", "-m", "elsewhere"], {}, False),
        ("import tensorflow", ["python", "-m"], {}, False),
        ("import tensorflow", ["/usr/bin/python3", "script.py"], {}, False),
        ("import tensorflow", ["sh", "-c", "python script.py"], {}, False),
        ("import tensorflow", ["python", "script.py"], {"LD_PRELOAD": "x"}, False),
        ("import tensorflow", ["python", "script.py"], {"PYTHONHASHSEED": "3"}, False),
        ("import tensorflow", ["python", "script.py"], {FRESH: "1"}, False),
        ("import numpy", ["python", "script.py"], {}, False),
        ("def f():\n    import tensorflow", ["python", "script.py"], {}, False),
        ("import os\nos.environ['A'] = os.sep\nimport tensorflow", ["python", "script.py"], {}, False),
        ("import tensorflow as", ["python", "script.py"], {}, False),
    ],
)
def test_only_what_can_be_so_is_forked(
    text: str, command: list[str], more: dict[str, str], forked: bool, tmp_path: Path
) -> None:
    """Another Python, another way to begin, an environment that is set by what only a run can tell: from a shell."""
    (tmp_path / "script.py").write_text(text)
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}
    assert (preloaded(command, str(tmp_path), environ) is not None) == forked


MODULE = """
import sys
from . import name
print(sys.argv, sys.path, __name__, __file__, __package__, __spec__.name, sorted(vars()), name)
raise ValueError('no data')
"""


@pytest.mark.parametrize("command", [["-m", "package.train", "--rate"], ["-m", "package"]])
def test_a_module_sees_and_leaves_what_it_does_from_a_shell(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a package, or the package itself."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("name = __name__")
    for file in ("train.py", "__main__.py"):
        (package / file).write_text(NEVER + MODULE)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert preloaded(["python", *command], str(tmp_path), dict(os.environ)) is not None
    forked = _ended(tmp_path, *command)
    monkeypatch.setenv(FRESH, "1")
    assert forked == _ended(tmp_path, *command)
    assert forked[1] == 1


def test_what_a_package_sets_counts_too(tmp_path: Path) -> None:
    """Its `__init__.py` is run before the module."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/train.py").write_text("import tensorflow")
    environ = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    for text, variables in (("", None), ("import os\nos.environ['KERAS_HOME'] = 'x'", "x")):
        (tmp_path / "package/__init__.py").write_text(text)
        found = preloaded(["python", "-m", "package.train"], str(tmp_path), environ)
        assert found is not None
        assert dict(found.variables).get("KERAS_HOME") == variables
    (tmp_path / "package/__init__.py").write_text("import os\nos.environ['KERAS_HOME'] = os.sep")
    assert preloaded(["python", "-m", "package.train"], str(tmp_path), environ) is None


@pytest.mark.parametrize("name", ["simulator", "harness", "tensorflow", "keras", "numpy"])
def test_who_has_a_module_of_a_name_that_is_taken_is_not(name: str, tmp_path: Path) -> None:
    """It would get the forkserver's."""
    (tmp_path / "script.py").write_text("import tensorflow")
    environ = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    assert preloaded(["python", "script.py"], str(tmp_path), environ) is not None
    (tmp_path / f"{name}.py").write_text("")
    assert preloaded(["python", "script.py"], str(tmp_path), environ) is None


@pytest.mark.parametrize(("text", "forked"), [
    ("import math", True),
    ("import os\nos.environ['A'] = '1'", False),
    ("import tensorflow", False),
    ("from further import name", False),
])  # fmt: skip
def test_what_a_module_beside_the_script_may_set_is_not_guessed(text: str, forked: bool, tmp_path: Path) -> None:
    """It is run before TensorFlow is imported, and so are those that it imports."""
    (tmp_path / "further.py").write_text("import os\nname = os.environ.setdefault('A', '1')")
    (tmp_path / "settings.py").write_text(text)
    (tmp_path / "script.py").write_text("import settings\nimport tensorflow")
    assert (preloaded([sys.executable, "script.py"], str(tmp_path), dict(os.environ)) is not None) == forked


def test_what_the_script_sets_before_counts_when_tensorflow_is_imported(tmp_path: Path) -> None:
    """As under plain Python: the forkserver has it."""
    sets = "os.environ['TF_USE_LEGACY_KERAS'] = os.environ['TF_CPP_MIN_LOG_LEVEL'] = os.environ['PYTHONHASHSEED'] = '1'"
    (tmp_path / "script.py").write_text(f"import os\n{sets}\nimport tensorflow as tf")
    found = preloaded([sys.executable, "script.py"], str(tmp_path), dict(os.environ))
    assert found is not None
    assert {("TF_USE_LEGACY_KERAS", "1"), ("TF_CPP_MIN_LOG_LEVEL", "1")} <= set(found.variables)
    assert "PYTHONHASHSEED" not in dict(found.variables)  # which Python reads when it begins
