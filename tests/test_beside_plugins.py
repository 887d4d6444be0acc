"""Other people's plugins of pytest beside Lockstep's, in an environment of their own, with every warning an error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests._installed import run_there

PLUGINS = ("pytest-asyncio", "pytest-randomly", "pytest-cov", "pytest-timeout", "pytest-rerunfailures")
# What pip says of a registry that it cannot reach; whatever else fails, fails the test.
UNREACHABLE = "NewConnectionError|NameResolutionError|ConnectTimeout|ProxyError|Network is unreachable|Retrying"
INSTALL_SECONDS_MAX = 300
CONFIGURATION = """
[pytest]
addopts = --strict-markers --strict-config
filterwarnings = error
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
TESTS = """
import asyncio
import os
import threading
from pathlib import Path

import pytest
from harness import verify


def reduced(strategy, how):
    import tensorflow as tf

    return strategy.reduce(how, strategy.run(lambda: tf.constant(1.0)), axis=None)


def right(strategy, record):
    record.step(loss=reduced(strategy, "MEAN"))


def wrong(strategy, record):
    record.step(loss=reduced(strategy, "SUM"))


def pid():
    return os.getpid()


async def test_asynchronous_passes():
    await asyncio.sleep(0)


@pytest.mark.xdist_group("verdicts")
@pytest.mark.strategies("one_device", "mirrored-2")
def test_right_passes(strategy):
    assert verify(right, strategy)


@pytest.mark.xdist_group("verdicts")
@pytest.mark.flaky(reruns=0)
def test_wrong_fails():
    assert verify(wrong, "mirrored-2")


@pytest.mark.cluster(worker=1)
def test_cluster_passes(cluster):
    assert cluster.run(pid)["worker:0"].value != os.getpid()


@pytest.mark.strategies("one_device")
def test_flaky_passes(strategy):
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert verify(right, strategy) and not first


@pytest.mark.flaky(reruns=0)
@pytest.mark.timeout(3, method="signal")
def test_hanging_fails():
    threading.Event().wait()
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the plugins, which has TensorFlow and Lockstep from this one."""
    home = tmp_path_factory.mktemp("beside") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = next(home.glob("lib/python*/site-packages"))
    around = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (site / "_around.pth").write_text(around)
    place = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(place), "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *PLUGINS], capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False)
    if done.returncode and re.search(UNREACHABLE, done.stderr):
        pytest.skip(f"{', '.join(PLUGINS)} cannot be installed without a network")
    assert done.returncode == 0, done.stderr
    return place


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [("--cov=.", "--timeout=120"), ("-n", "2", "--dist=loadgroup", "--timeout=120", "--timeout-method=thread")],
    ids=["coverage", "xdist"],
)
def test_each_keeps_to_its_own(options: tuple[str, ...], python: Path, tmp_path: Path) -> None:
    """What is right passes, what is wrong or hangs fails, and of what was run again the matrix has the last time."""
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    (tmp_path / "test_all.py").write_text(TESTS)
    command = (str(python), "-m", "pytest", "-p", "no:hypothesispytest", "--reruns=1", "--lockstep-out=out", *options)
    said = run_there(tmp_path, *command, "-rA", code=1).stdout
    found = {name: word for word, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::test_(\w+)", said, re.MULTILINE)}
    assert found == {name: {"passes": "PASSED", "fails": "FAILED"}[name.rpartition("_")[2]] for name in found}, said
    assert re.search(r"2 failed, 5 passed, 1 rerun in ", said), said
    matrix = json.loads((tmp_path / "out" / "matrix.json").read_text())
    assert matrix["counts"] == {"ok": 3, "FAIL": 1, "skipped": 0, "known": 0}, matrix
    (again,) = (cell["reason"] for cell in matrix["cells"] if "flaky" in cell["row"])
    assert "run 2 times" in again
