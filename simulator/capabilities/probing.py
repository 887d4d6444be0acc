"""Run every probe once and say, for whatever is missing, what that costs and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from simulator import hardware
from simulator.capabilities import accelerators, namespaces, processes
from simulator.capabilities.report import Capabilities, Capability
from simulator.capabilities.versions import OLDEST, why_refused
from simulator.errors import LockstepError
from simulator.hardware.simulated import building
from simulator.machines.local import host

_CORES_MIN = 2.0

# name -> (what is lost without it, what to do about it)
_CONSEQUENCES: dict[str, tuple[str, str]] = {
    "tensorflow": ("nothing can be run", f"pip install 'tensorflow>={OLDEST}'"),
    "keras": ("programs that use Keras 3 cannot be run", "pip install keras"),
    "tf_keras": (
        "Keras 2 programs cannot be run, nor Model.fit with parameter servers or several workers",
        "pip install tf_keras, in the version of TensorFlow",
    ),
    "cores": (
        "tasks take turns on one core: runs are slow, and pauses may look like failures to TensorFlow's heartbeats",
        "give the container or machine at least 2 cores",
    ),
    "gpu": (
        "strategies run on CPU devices only; scenarios that require GPUs are skipped",
        "use a machine with an NVIDIA GPU, its driver, and tensorflow[and-cuda]",
    ),
    "gpu_simulated": (
        "hardware=gpu-simulated is skipped",
        "install a C++17 compiler, such as Debian's package g++, beside a wheel of TensorFlow",
    ),
    "tpu": ("strategy `tpu` is skipped", "use a Cloud TPU machine with libtpu and a TensorFlow build for TPUs"),
    "forkserver": (
        "functions cannot be run as tasks; programs on the command line still can",
        "use Linux, and pip install multiprocess",
    ),
    "pdeathsig": (
        "if the parent is killed outright, its tasks are found and ended only by the next clean-up",
        "use Linux outside a sandbox that forbids prctl",
    ),
    "pidfd": ("a signal could reach another process that was given the same id", "use Linux 5.3 or newer"),
    "dev_shm": ("traces and buffers go through the disk, more slowly", "mount a tmpfs; with docker: --shm-size=1g"),
    "user_namespaces": (
        "network=namespaces: see hosts",
        "set sysctl user.max_user_namespaces, and kernel.apparmor_restrict_unprivileged_userns=0; permit unshare",
    ),
    "mount_namespaces": (
        "network=namespaces: see hosts",
        "set sysctl user.max_mnt_namespaces and user.max_uts_namespaces; in a container, permit mount",
    ),
    "network_namespaces": (
        "network=namespaces: see hosts",
        "set sysctl user.max_net_namespaces; in a container, use a seccomp profile that permits unshare",
    ),
    "veth": ("network=namespaces: see hosts", "pip install pyroute2, and load the kernel module veth"),
    "tbf": ("network=namespaces: see hosts", "load the kernel module sch_tbf"),
    "nftables": ("network=namespaces: see hosts", "load the kernel module nf_tables"),
    "netem": ("nothing: delays between hosts are the relay's", "load the kernel module sch_netem"),
    "pid_namespaces": ("network=namespaces: see hosts", "set sysctl user.max_pid_namespaces"),
    "hosts": (
        "network=namespaces: tasks share this machine's loopback interface, and its network reaches TensorFlow's ports",
        "provide what it needs, above",
    ),
    "private_files": (
        "unmodified scripts cannot be verified, as with `lockstep verify --worker 2 -- python train.py`",
        "permit mount namespaces and overlays; in a container --cap-add SYS_ADMIN",
    ),
}


def probe() -> Capabilities:
    """Examine this machine, without importing TensorFlow.

    Whatever runs another program has a deadline; a probe that overruns counts as missing, with that as its reason.
    """
    versions = {name: _version(name) for name in ("tensorflow", "keras", "tf_keras")}
    affinity, quota = host.cores_affinity(), host.cores_quota()
    cores = min(float(affinity), quota) if quota is not None else float(affinity)
    gpus, tpus = accelerators.gpus(), accelerators.tpus(os.environ)

    refused = {"tensorflow": why_refused(versions["tensorflow"]) if versions["tensorflow"] else ""}
    items = [
        _item(name, refused.get(name, "") if version else "not installed", version or "")
        for name, version in versions.items()
    ]
    items.append(_item("cores", "" if cores >= _CORES_MIN else f"{cores:g} usable", f"{cores:g} usable"))
    items.append(_item("gpu", _why_no_gpu(gpus), "; ".join(gpus)))
    items.append(_item("gpu_simulated", building.why_not(), "can be built"))
    items.append(_item("tpu", "" if tpus else "no TPU found", "; ".join(tpus)))
    items.append(_item("forkserver", processes.forkserver()))
    items.append(_item("pdeathsig", processes.pdeathsig()))
    items.append(_item("pidfd", processes.pidfd()))
    items.append(_item("dev_shm", processes.dev_shm()))
    trials = namespaces.try_namespaces()
    items += [_item(name, problem) for name, problem in trials.items()]
    items.append(_item("hosts", namespaces.try_hosts(trials)))
    items.append(_item("private_files", namespaces.try_private_files()))
    return Capabilities(
        platform=platform.platform(),
        python=platform.python_version(),
        tensorflow=versions["tensorflow"],
        keras=versions["keras"],
        tf_keras=versions["tf_keras"],
        cores=cores,
        cores_affinity=affinity,
        cores_quota=quota,
        memory_bytes=host.memory_bytes(),
        gpus=gpus,
        tpus=tpus,
        items=tuple(items),
    )


def _why_no_gpu(listed: tuple[str, ...]) -> str:
    """Why there is no GPU to compute on. What a driver lists is none unless TensorFlow, which is asked, sees it."""
    if not listed:
        return "no NVIDIA GPU found"
    try:
        seen = hardware.gpus()
    except LockstepError as error:
        return str(error)
    return "" if seen else f"the driver lists {'; '.join(listed)}, and TensorFlow sees none of it"


def _item(name: str, problem: str, found: str = "works") -> Capability:
    """Describe the capability `name`, which is available if `problem` is empty."""
    cost, remedy = _CONSEQUENCES[name]
    if problem:
        return Capability(name=name, available=False, detail=problem, cost=cost, remedy=remedy)
    return Capability(name=name, available=True, detail=found, cost="", remedy="")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
