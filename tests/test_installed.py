"""The installed command and the pytest plugin, from folders that have packages of the same names."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from _lockstep import __version__
from simulator.capabilities import probe
from tests._installed import COMMAND, MODULE, PACKAGES, ROOT, copied, lay_out, run_there
from tests.simulator._hosts import hosts_or_skip
from tests.simulator.test_command import FAKE_CALLBACKS

# Who has these names may have anything in them.
WORLD = "class World:\n    pass\n"
# Hypothesis's plugin of pytest takes a second to load.
QUICKLY = ("-p", "no:hypothesispytest")
# As the command `pytest` does, without the working directory on the path.
RUN_PYTEST = "import sys; sys.path.pop(0); import pytest; sys.exit(pytest.main())"
TEST_WORLD = """
import harness.tools
from simulator import World
from simulator.physics import step

def test_world():
    assert World and step and harness.tools
"""


@pytest.fixture(params=["editable", "wheel"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where Lockstep is, if not in this environment as `make venv` installs it."""
    return lay_out(tmp_path / "site") if request.param == "wheel" else None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that has packages `simulator` and `harness` of its own."""
    for name, text in {
        "simulator/__init__.py": WORLD,
        "simulator/physics.py": "step = 1.0\n",
        "harness/__init__.py": "",
        "harness/tools.py": "",
    }.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def _wheel(source: Path) -> zipfile.ZipFile:
    options = ("-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", "dist", ".")
    run_there(source, sys.executable, "-m", "pip", "wheel", *options)
    return zipfile.ZipFile(next((source / "dist").glob("*.whl")))


def _of_packages(wheel: zipfile.ZipFile) -> dict[str, bytes]:
    return {name: wheel.read(name) for name in wheel.namelist() if name.partition("/")[0] in (*PACKAGES, MODULE)}


def _in_checkout() -> dict[str, bytes]:
    return {MODULE: (ROOT / MODULE).read_bytes()} | {
        str(path.relative_to(ROOT)): path.read_bytes()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_what_the_checkout_holds(tmp_path: Path) -> None:
    """Every file of the packages is in the wheel, with the entry points that the other tests stand for."""
    wheel = _wheel(copied(tmp_path))
    assert _of_packages(wheel) == _in_checkout()
    points = wheel.read(next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))).decode()
    assert "lockstep = _lockstep.command:main" in points
    assert "harness.plugin = _lockstep.plugin" in points
    assert f"tf_lockstep-{__version__}.dist-info/METADATA" in wheel.namelist()


@pytest.mark.full  # packs and builds once more
def test_from_the_sdist_comes_the_same_wheel(tmp_path: Path) -> None:
    """It has what a build needs and the license, and neither tests nor anything else that lay in the checkout."""
    folder = copied(tmp_path / "checkout")
    (folder / "mine.txt").write_text("nobody else's\n")
    code = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
    name = run_there(folder, sys.executable, "-c", code).stdout.split()[-1]
    with tarfile.open(folder / "dist" / name) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # which early Pythons of 3.11 do not have
        packed.extractall(tmp_path)
    source = tmp_path / name.removesuffix(".tar.gz")
    assert {path.name for path in source.iterdir()} == {
        *PACKAGES,
        MODULE,
        *("LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "tf_lockstep.egg-info"),
    }
    wheel = _wheel(source)
    assert _of_packages(wheel) == _in_checkout()
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())


def test_doctor_finds_what_is_found_here(project: Path) -> None:
    """The installed command tells of this machine what the library tells, whatever lies in the working directory."""
    told = json.loads(run_there(project, *COMMAND, "doctor", "--json").stdout)
    here = {item.name: (item.available, item.detail) for item in probe().items}
    assert {item["name"]: (item["available"], item["detail"]) for item in told["items"]} == here
    assert told["tensorflow"]


@pytest.mark.full
def test_verify_beside_packages_of_these_names(project: Path) -> None:
    """A program is verified in a folder with packages `simulator` and `harness`, of which it imports none."""
    program = "def train(strategy, record):\n    record.step(loss=1.0)\n"
    (project / "train.py").write_text(program)
    command = (*COMMAND, "verify", "train.py:train", "--strategy", "one_device", "--json")
    assert json.loads(run_there(project, *command).stdout)["consistent"]


def test_verify_says_before_the_start_that_a_program_cannot_have_its_own(project: Path) -> None:
    """In the process of a task these names are Lockstep's: who imports such a neighbour learns it at once."""
    (project / "train.py").write_text("def train(strategy, record):\n    from simulator.physics import step\n")
    done = run_there(project, *COMMAND, "verify", "train.py:train", "--strategy", "one_device", code=2)
    assert f"train.py imports 'simulator' (line 2), which beside it is {project}/simulator/__init__.py" in done.stderr
    assert "lockstep run" in done.stderr


def test_a_program_of_run_has_its_own(site: Path | None, project: Path) -> None:
    """An unmodified program imports its neighbours, although Lockstep's have their names, and its steps are counted."""
    (project / "tf_keras" / "src").mkdir(parents=True)
    for name in ("", "src"):
        (project / "tf_keras" / name / "__init__.py").write_text("")
    (project / "tf_keras" / "src" / "callbacks.py").write_text(FAKE_CALLBACKS)
    (project / "train.py").write_text(
        "import harness.tools\nfrom tf_keras.src.callbacks import fit\nfit(2, range(3))\n"
        "from simulator import World\nfrom simulator.physics import step\nprint('has', World, step)\n"
    )
    command = (*_lockstep(site), "run", "--worker", "2", "--json", "--", sys.executable, "train.py")
    done = run_there(project, *command, site=site)
    assert done.stderr.count("has <class 'simulator.World'> 1.0") == 2
    assert "cannot be counted" not in done.stderr
    found = json.loads(done.stdout)
    assert [task["steps"] for task in found["tasks"].values()] == [6, 6]
    assert found["steps_counted_by"] == ["Keras fit"]


def test_the_installed_command_gives_tasks_hosts(tmp_path: Path) -> None:
    """`--network=namespaces` works by the installed command, away from the checkout."""
    hosts_or_skip()
    program = "import socket; print('on', socket.gethostname())"
    command = (*COMMAND, "run", "--worker", "2", "--network", "namespaces", "--", sys.executable, "-c", program)
    text = run_there(tmp_path, *command).stderr
    assert "on worker-0" in text
    assert "on worker-1" in text


@pytest.mark.parametrize(
    ("command", "installed"),
    [
        (("-m", "pytest", *QUICKLY), "wheel"),
        (("-m", "pytest", *QUICKLY, "-n", "1"), "editable"),
        (("-c", RUN_PYTEST, *QUICKLY), "editable"),
    ],
    ids=["python -m pytest", "pytest-xdist", "pytest"],
)
def test_a_project_with_such_packages_tests_itself(
    command: tuple[str, ...], installed: str, project: Path, tmp_path: Path
) -> None:
    """Its own tests import its own packages; a line in the header says that Lockstep keeps out of the way."""
    site = lay_out(tmp_path / "site") if installed == "wheel" else None
    (project / "conftest.py").write_text("from simulator.physics import step\n")
    (project / "test_world.py").write_text(TEST_WORLD)
    text = run_there(project, sys.executable, *command, site=site).stdout
    assert "1 passed" in text
    assert f"lockstep: off, unless a test uses it: 'simulator' is {project}/simulator/__init__.py" in text


def test_who_uses_both_is_told(project: Path) -> None:
    """Where a session has imported its own package, what needs Lockstep's says so, and everything else runs."""
    (project / "test_both.py").write_text(
        TEST_WORLD
        + "import pytest\n\n@pytest.mark.cluster(worker=1)\ndef test_ours(cluster):\n    pass\n\n"
        + "@pytest.mark.parametrize('strategy', ['fast'])\n@pytest.mark.parametrize('loop', ['asyncio'])\n"
        + "def test_theirs(strategy, loop):\n    pass\n"
    )
    text = run_there(project, sys.executable, "-m", "pytest", *QUICKLY, code=1).stdout
    assert "2 passed, 1 error" in text
    assert f"'simulator' is {project}/simulator/__init__.py in this process, and Lockstep has a package of that" in text


def test_who_has_imported_lockstep_is_told_why_another_is_not_found(project: Path) -> None:
    """After `import harness` of Lockstep, the project's own `simulator` is not found, and the error says why."""
    shutil.rmtree(project / "harness")
    code = "import sys; sys.path.insert(0, ''); import harness; assert harness.verify; import simulator.physics"
    text = run_there(project, sys.executable, "-c", code, code=1).stderr
    assert "ModuleNotFoundError: No module named 'simulator.physics' in Lockstep's package 'simulator', which" in text
    assert f"hides {project}/simulator/__init__.py" in text


def test_a_function_of_a_cluster_has_its_own_harness(site: Path | None, project: Path) -> None:
    """Who uses `simulator` alone keeps a `harness` of its own, in the script and in its tasks."""
    shutil.rmtree(project / "simulator")
    (project / "script.py").write_text(
        "import harness.tools\nfrom simulator import Cluster, Topology\n\n"
        "def body():\n    import harness.tools\n    return harness.tools.__file__\n\n"
        "with Cluster(Topology(worker=1), preload=(), timeout=30) as cluster:\n"
        "    print(cluster.run(body)['worker:0'].value)\n"
    )
    text = run_there(project, sys.executable, "script.py", site=site).stdout
    assert text == f"{project}/harness/tools.py\n"


def _lockstep(site: Path | None) -> tuple[str, ...]:
    # The wheel's own script would be the same two lines.
    return COMMAND if site is None else (sys.executable, "-c", "from _lockstep.command import main; main()")
