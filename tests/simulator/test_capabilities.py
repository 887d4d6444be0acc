"""What `probe` says about this machine, and about made-up ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import _lockstep
from simulator import capabilities, hardware
from simulator.capabilities import Capabilities, Capability, accelerators, namespaces, probing, processes, versions
from simulator.hardware.simulated import building
from simulator.machines.local import host


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _made_up(*items: Capability, tensorflow: str | None = "2.21.0") -> Capabilities:
    return Capabilities(
        platform="Linux",
        python="3.11.7",
        tensorflow=tensorflow,
        keras=None,
        tf_keras=None,
        cores=2.0,
        cores_affinity=2,
        cores_quota=None,
        memory_bytes=2**30,
        gpus=(),
        tpus=(),
        items=items,
    )


def _item(name: str, available: bool = True) -> Capability:
    return Capability(name=name, available=available, detail="[found]", cost="much", remedy="buy one")


def test_probe_describes_this_machine() -> None:
    """Every capability is there once; what is missing has a cost and a remedy; numbers are plausible."""
    found = capabilities.probe()
    assert {item.name for item in found.items} == set(probing._CONSEQUENCES)
    assert len(found.items) == len(probing._CONSEQUENCES)
    for item in found.items:
        assert item.detail
        assert bool(item.cost) is bool(item.remedy) is (not item.available)
    assert 0 < found.cores <= found.cores_affinity <= (os.cpu_count() or 1)
    assert found.memory_bytes > 2**28
    json.dumps(found.to_json(), allow_nan=False)


def test_probe_loads_no_tensorflow() -> None:
    """Probing in a fresh interpreter leaves TensorFlow and NumPy unloaded."""
    code = (
        "import sys, simulator.capabilities as c; c.probe(); sys.exit(bool({'tensorflow', 'numpy'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_probe_reports_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without anything, each capability says so."""
    nothing = "refused"
    monkeypatch.setattr(probing, "_version", lambda _: None)
    monkeypatch.setattr(host, "cores_affinity", lambda: 1)
    monkeypatch.setattr(host, "cores_quota", lambda: 0.5)
    monkeypatch.setattr(accelerators, "gpus", lambda: ())
    monkeypatch.setattr(accelerators, "tpus", lambda _: ())
    monkeypatch.setattr(namespaces, "try_namespaces", lambda: dict.fromkeys(namespaces.TRIALS, nothing))
    monkeypatch.setattr(namespaces, "try_private_files", lambda: nothing)
    for function in ("forkserver", "pdeathsig", "pidfd", "dev_shm"):
        monkeypatch.setattr(processes, function, lambda: nothing)
    monkeypatch.setattr(building, "why_not", lambda: nothing)
    found = capabilities.probe()
    assert found.missing == found.items
    assert found.cores == 0.5


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("2.15.1", "there Keras 2 is a part of TensorFlow"),
        ("2.16.1", "the oldest release with which it was ever run"),
        ("2.16.2", ""),
        ("2.22.0.dev20260101", ""),
        ("built by hand", ""),
    ],
)
def test_an_old_tensorflow_is_refused_with_a_reason(version: str, why: str) -> None:
    """Only what is known to be too old is refused, and what to install is said."""
    said = versions.why_refused(version)
    assert bool(said) is bool(why)
    if why:
        assert why in said
        assert "install tensorflow>=2.16.2" in said


def test_doctor_refuses_an_old_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as none: nothing can be run."""
    monkeypatch.setattr(probing, "_version", lambda _: "2.16.1")
    found = capabilities.probe()["tensorflow"]
    assert not found.available
    assert "TensorFlow 2.16.1 is refused" in found.detail
    monkeypatch.setattr(probing, "_version", lambda _: "2.16.2")
    assert capabilities.probe()["tensorflow"].available


def test_what_is_refused_cannot_be_installed_either() -> None:
    """Pip is told of the same limit."""
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'"tensorflow>={versions.OLDEST}"' in project


@pytest.mark.parametrize(("seen", "problem"), [((), "and TensorFlow sees none of it"), (("GPU 0",), "")])
def test_a_gpu_is_one_that_tensorflow_sees(
    seen: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver lists may be hidden, or TensorFlow built without it."""
    monkeypatch.setattr(accelerators, "gpus", lambda: ("NVIDIA H100, 81559 MiB",))
    monkeypatch.setattr(hardware, "gpus", lambda: seen)
    found = capabilities.probe()["gpu"]
    assert found.available is bool(seen)
    assert problem in found.detail


def test_unknown_capability_names_the_known_ones() -> None:
    """Asking for a capability that does not exist lists those that do."""
    found = _made_up(_item("tbf"))
    assert found["tbf"].available
    with pytest.raises(KeyError, match="no capability 'warp'; there are tbf"):
        found["warp"]


def test_capabilities_cannot_be_changed() -> None:
    """The answer is immutable."""
    with pytest.raises(AttributeError):
        _made_up().cores = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/cpu.max": "50000 100000",
            },
            0.5,
        ),
        (
            {
                "proc/self/cgroup": "3:memory:/x\n1:cpu,cpuacct:/x\n0::/\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
    ids=["no groups", "root only", "v2 unlimited", "v2 limit", "v2 limit of the parent", "v1 limit", "v1 unlimited"],
)
def test_quota_is_the_tightest_group_limit(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    """The CPU limit is read from both versions of control groups, from the process's own group up to the root."""
    for path, text in files.items():
        _write(tmp_path, path, text)
    assert host.cores_quota(tmp_path) == quota


@pytest.mark.parametrize(("loads", "waited", "busy"), [
    ("3 0 0 1/79 850", "", False),
    ("5 0 0 1/82 9", "", True),
    ("5 0 0 9/82 9", "some avg10=7.37 avg60=38.38 avg300=48.43 total=4\nfull avg10=0.00", False),
    ("0 0 0 1/82 9", "some avg10=31.00 avg60=3.00 avg300=4.00 total=4\nfull avg10=0.00", True),
    ("", "", False),
])  # fmt: skip
def test_a_machine_is_busy_if_processes_had_to_wait(
    loads: str, waited: str, busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the last ten seconds, or by the load of the last minute where nobody counts that."""
    monkeypatch.setattr(host, "cores", lambda: 4)
    _write(tmp_path, "proc/loadavg", loads)
    if waited:
        _write(tmp_path, "proc/pressure/cpu", waited)
    assert host.is_busy(tmp_path) is busy


def test_memory_is_the_smaller_of_installed_and_allowed(tmp_path: Path) -> None:
    """Memory is what is installed, unless a control group allows less; 0 stands for unknown."""
    assert host.memory_bytes(tmp_path) == 0
    _write(tmp_path, "proc/meminfo", "MemTotal:  1024 kB\nMemFree: 1 kB\n")
    assert host.memory_bytes(tmp_path) == 2**20
    _write(tmp_path, "proc/self/cgroup", "0::/pod\n")
    _write(tmp_path, "sys/fs/cgroup/pod/memory.max", "max")
    assert host.memory_bytes(tmp_path) == 2**20
    _write(tmp_path, "sys/fs/cgroup/pod/memory.max", "4096")
    assert host.memory_bytes(tmp_path) == 4096


def test_gpus_come_from_nvidia_smi_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi is asked first; where it fails or is absent, the driver's folder names the models."""
    _write(tmp_path, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA T4\nIRQ: 1\n")
    program = tmp_path / "bin/nvidia-smi"
    _write(tmp_path, "bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H100, 81559 MiB'\n")
    monkeypatch.setenv("PATH", str(program.parent))
    assert accelerators.gpus(tmp_path) == ("NVIDIA T4",)
    program.chmod(0o755)
    assert accelerators.gpus(tmp_path) == ("NVIDIA H100, 81559 MiB",)
    program.write_text("#!/bin/sh\necho 'no devices were found'\nexit 6\n")
    assert accelerators.gpus(tmp_path) == ("NVIDIA T4",)
    assert accelerators.gpus(tmp_path / "nowhere") == ()


def test_a_hanging_nvidia_smi_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nvidia-smi that never answers counts as no GPU once its deadline has passed."""
    _write(tmp_path, "nvidia-smi", "#!/bin/sh\nexec /usr/bin/tail -f /dev/null\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(accelerators, "_NVIDIA_SMI_SECONDS_MAX", 0.2)
    assert accelerators.gpus(tmp_path) == ()


def test_tpus_are_device_files_or_variables(tmp_path: Path) -> None:
    """TPUs show as accel devices, as vfio groups next to Google hardware only, or in the environment."""
    assert accelerators.tpus({}, tmp_path) == ()
    _write(tmp_path, "dev/vfio/0", "")
    _write(tmp_path, "dev/vfio/vfio", "")
    assert accelerators.tpus({}, tmp_path) == ()
    _write(tmp_path, "sys/bus/pci/devices/0000:00:05.0/vendor", "0x1ae0\n")
    assert accelerators.tpus({}, tmp_path) == ("/dev/vfio/0",)
    _write(tmp_path, "dev/accel0", "")
    found = accelerators.tpus({"TPU_NAME": "mine", "TPU_WORKER_ID": ""}, tmp_path)
    assert found == ("/dev/accel0", "/dev/vfio/0", "TPU_NAME=mine")


def test_namespace_trial_answers_every_question() -> None:
    """The real trial names every capability, and this process keeps its own namespaces."""
    before = Path("/proc/self/ns/net").readlink()
    outcome = namespaces.try_namespaces()
    assert tuple(outcome) == namespaces.TRIALS
    assert Path("/proc/self/ns/net").readlink() == before


def test_namespace_trial_knows_refusals_from_defects() -> None:
    """Whatever this machine refuses, the real trial ends with 0; a defect of Lockstep's own is no refusal."""
    trials = ["from simulator.helpers import trials", "trials.main()"]
    for more, code in (("", 0), ("trials._user = lambda: len(1)", 1), ("trials._user = lambda: open('/absent')", 0)):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join([trials[0], more, trials[1]])],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert ("TypeError" in done.stderr) is bool(code)


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        ("import signal; signal.pause()", "did not end within 0.3 s"),
        ("raise SystemError('no luck')", "ended with exit code 1: SystemError: no luck"),
        ("import os; os.abort()", "ended with exit code -6"),
        ('print(\'{"user_namespaces": "unshare: Operation not permitted"}\')', "gave none"),
    ],
    ids=["hangs", "raises", "aborts", "is refused"],
)
def test_namespace_trial_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch, child: str, reason: str) -> None:
    """A child that hangs, dies or is refused makes the capability missing, never an exception."""
    monkeypatch.setattr(namespaces, "child_command", lambda *_, **__: [sys.executable, "-c", child])
    monkeypatch.setattr(namespaces, "_SECONDS_MAX", 0.3 if "pause" in child else 10.0)
    assert reason in namespaces.try_namespaces()["netem"]


def test_dev_shm_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that does not exist or has little room does not count as a memory file system."""
    assert processes.dev_shm(tmp_path) == ""
    assert "not a writable folder" in processes.dev_shm(tmp_path / "absent")
    monkeypatch.setattr(processes, "_DEV_SHM_BYTES_MIN", 2**62)
    assert "MiB free, less than" in processes.dev_shm(tmp_path)


def test_doctor_prints_costs_and_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table shows each capability, and for a missing one its cost and remedy; brackets are printed as they are."""
    names = ("user_namespaces", "network_namespaces", "tbf")
    monkeypatch.setattr(capabilities, "probe", lambda: _made_up(*map(_item, names), _item("gpu", available=False)))
    result = CliRunner().invoke(_lockstep, ["doctor"])
    assert result.exit_code == 0, result.output
    for text in (
        "TensorFlow 2.21.0, Keras missing",
        "[found]",
        "costs: much",
        "to do: buy one",
    ):
        assert text in result.output


def test_doctor_without_tensorflow_exits_with_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without TensorFlow, or with one that is too old, lacks what is required, in text and in JSON."""
    names = ("user_namespaces", "network_namespaces", "tbf")
    monkeypatch.setattr(capabilities, "probe", lambda: _made_up(*map(_item, names), tensorflow=None))
    assert CliRunner().invoke(_lockstep, ["doctor"]).exit_code == 4
    result = CliRunner().invoke(_lockstep, ["doctor", "--json"])
    assert result.exit_code == 4
    assert json.loads(result.output)["tensorflow"] is None
    monkeypatch.setattr(capabilities, "probe", lambda: _made_up(*map(_item, names), tensorflow="2.16.1"))
    assert CliRunner().invoke(_lockstep, ["doctor"]).exit_code == 4
