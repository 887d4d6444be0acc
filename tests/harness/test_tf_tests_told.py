"""Test files of TensorFlow's that say little by themselves: hangs, TPUs, and processes without TensorFlow's runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tf_tests.inside import stacks
from tests.harness._hosted import meant, run


def test_the_stacks_of_a_hang_begin_with_its_main_thread(tmp_path: Path) -> None:
    """Faulthandler has that last; what Lockstep itself runs beside it is no reason."""
    own = 'Thread 0x1 (most recent call first):\n  File "/x/harness/tf_tests/inside/hosting.py", line 81 in _tell\n'
    own += '  File "/lib/threading.py", line 982 in run\n  File "/lib/threading.py", line 1045 in _bootstrap_inner\n'
    theirs = own.replace("/x/harness/tf_tests/inside/hosting.py", "/x/some_test.py").replace("0x1", "0x2")
    main = 'Current thread 0x3 (most recent call first):\n  File "/x/some_test.py", line 3 in waits\n'
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "7").write_text(f"{own}\n{theirs}\n{main}")
    assert stacks.read(tmp_path) == {"7": f"{main}\n{theirs}".rstrip()}


_TPU_TESTS = """
import unittest
import tensorflow as tf
from tensorflow.dtensor.python import accelerator_util
from tensorflow.python.distribute.cluster_resolver.tpu import tpu_cluster_resolver

class TpuTest(unittest.TestCase):
    def test_dtensor_skips(self): accelerator_util.initialize_accelerator_system("TPU")
    def test_dtensor_then_skips(self): accelerator_util.initialize_accelerator_system("TPU")
    def test_dtensor_without_them_fails(self): accelerator_util.initialize_accelerator_system("CPU")
    def test_placed_skips(self): tf.constant(1.0)._copy(device_name="/device:TPU:0")
    def test_placed_elsewhere_fails(self): tf.constant(1.0)._copy(device_name="/device:GPU:9")
    def test_resolver_skips(self): tpu_cluster_resolver.TPUClusterResolver()
    def test_other_fails(self): raise ValueError("no TPU of mine")
"""


@pytest.mark.full
def test_what_is_for_tpus_only_is_skipped_with_the_reason(tmp_path: Path) -> None:
    """Where TensorFlow itself says that there is none; any other error fails."""
    (tmp_path / "tpu_test.py").write_text(_TPU_TESTS)
    outcomes, said = run(tmp_path)
    assert outcomes == {name: meant(name) for name in outcomes}, said
    assert len(outcomes) == 7
    assert "requires a TPU, and nothing is run on one here: no valid TPUs found" in said


_CHECKOUT_TEST = """
import multiprocessing
import tensorflow as tf
from tensorflow.python.platform import test
from tensorflow.somewhere.helper import double


def child(pipe, value):
    pipe.send((double(value), tf.__version__))


class ProcessesTest(test.TestCase):
    def _in_another(self, method):
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        process = context.Process(target=child, args=(theirs, 4))
        process.start()
        self.assertEqual(ours.recv(), (8, tf.__version__))
        process.join()
        self.assertEqual(process.exitcode, 0)
        with context.Pool(2) as pool:
            self.assertEqual(pool.map(double, [1, 2]), [2, 4])

    def test_forkserver(self): self._in_another("forkserver")

    def test_spawn(self): self._in_another("spawn")


if __name__ == "__main__":
    test.main()
"""


@pytest.mark.full
def test_processes_of_the_standard_library_import_what_the_test_has_imported(tmp_path: Path) -> None:
    """In a checkout whose package cannot be imported they would end at once, and the test wait for ever."""
    tests = tmp_path / "tensorflow" / "somewhere" / "python" / "tests"
    tests.mkdir(parents=True)
    for folder in (tests, tests.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "tensorflow" / "__init__.py").write_text("raise ImportError('these are sources')")
    (tmp_path / "tensorflow" / "somewhere" / "helper.py").write_text("def double(value):\n    return 2 * value\n")
    (tests / "some_test.py").write_text(_CHECKOUT_TEST)
    outcomes, said = run(tmp_path, "--tf-test-seconds=60", "tensorflow/somewhere/python/tests/some_test.py")
    assert outcomes == {"test_forkserver": "passed", "test_spawn": "passed", "test_session": "skipped"}, said
