"""From a machine to its certificate: the scenarios in a session of pytest, then the trials."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.certifying.certificate import Certificate, Trial
from harness.certifying.trials import MEASURED, trials
from harness.errors import MissingHardware
from harness.report import Cell, Matrix
from harness.report.diff import read_matrix
from harness.subject.devices import ran_on
from simulator import Cluster, LockstepError, Topology, UsageError
from simulator.agent.devices import TF32_VARIABLE
from simulator.hardware import Gpu, HardwareMissing, gpus

_WORST_SHOWN = 5
_STDERR = 2
_DRIVER_SECONDS_MAX = 30.0
# What pytest says of a session that came to its end, whether its tests passed or not.
_ENDED = (0, 1)


def _hardware(*, rehearse: bool) -> str:
    return "gpu-simulated" if rehearse else "gpu"


def gpus_to_certify(*, rehearse: bool) -> tuple[Gpu, ...]:
    """The GPUs of this machine, or simulated ones for a rehearsal.

    Raises:
        MissingHardware: there are none.
    """
    try:
        there = gpus(_hardware(rehearse=rehearse))
    except HardwareMissing as error:
        raise MissingHardware(f"a rehearsal needs simulated GPUs: {error}") from error
    if not there:
        raise MissingHardware("a certificate needs a GPU, and TensorFlow sees none here; see `lockstep doctor`")
    return there


def certify(
    directory: Path, scenarios: Sequence[str], *, rehearse: bool = False, timeout: float = 120.0
) -> Certificate:
    """Examine this machine; leaves `matrix.json` of the scenarios in a directory that exists.

    Args:
        directory: for the matrix.
        scenarios: arguments of pytest: files, and what selects among their tests.
        rehearse: on simulated GPUs, which certifies nothing.
        timeout: seconds for each run of a trial.

    Raises:
        MissingHardware: as of `gpus_to_certify`.
        UsageError: pytest did not take the arguments, or no scenario reached a verdict.
        LockstepError: no scenario was computed on the GPUs, so there is nothing to certify.
    """
    hardware, there = _hardware(rehearse=rehearse), gpus_to_certify(rehearse=rehearse)
    ended = _run_scenarios(directory, scenarios, hardware)
    matrix = read_matrix(directory)
    on_device = matrix.devices()
    if not any(ran_on(device, hardware) for device in on_device):
        raise LockstepError("no scenario was computed on a GPU, so there is nothing to certify")
    tried = tuple(trials(hardware, len(there), timeout))
    return Certificate(
        rehearsal=rehearse,
        machine=_machine(),
        gpus=tuple((gpu.name, gpu.memory_bytes) for gpu in there),
        scenarios=matrix.counts(),
        on_device=on_device,
        worst=_worst(matrix.cells),
        failed=tuple(_place(cell, cell.reason) for cell in matrix.cells if cell.outcome == "FAIL"),
        trials=tried,
        reasons=tuple(_reasons(matrix, tried, ended)),
        measured=MEASURED,
        notes=tuple(_notes(tried)),
    )


def _run_scenarios(directory: Path, scenarios: Sequence[str], hardware: str) -> int:
    command = [sys.executable, "-m", "pytest", *scenarios, f"--hardware={hardware}", "--require-hardware"]
    command += [f"--lockstep-out={directory}", "-q", "-p", "no:cacheprovider"]
    # What it says goes to stderr: stdout is for the certificate.
    done = subprocess.run(command, stdout=_STDERR, check=False)
    if done.returncode not in _ENDED:
        raise UsageError(
            f"the scenarios could not be run: `{' '.join(command)}` ended with exit code {done.returncode}"
        )
    return done.returncode


def _worst(cells: Sequence[Cell]) -> tuple[tuple[str, str, float], ...]:
    found = [(cell.label, cell.strategy, cell.ratio) for cell in cells if isinstance(cell.ratio, float) and cell.ratio]
    held = [each for each in found if each[2] <= 1]
    return tuple(sorted(held, key=lambda each: -each[2])[:_WORST_SHOWN])


def _place(cell: Cell, text: str) -> str:
    return f"{cell.label} {cell.strategy}".rstrip() + f": {text}"


def _reasons(matrix: Matrix, tried: Sequence[Trial], ended: int) -> list[str]:
    found = []
    if failed := matrix.counts()["FAIL"]:
        found.append(f"{failed} scenarios failed")
    elif ended:
        found.append("the session of scenarios failed; its output says why")
    found += [f"the training under {trial.name} failed" for trial in tried if trial.seconds_per_step is None]
    found += [
        f"two equal trainings under {trial.name} differ, with op determinism on"
        for trial in tried
        if trial.seconds_per_step is not None and not trial.bit_equal
    ]
    return found


def _notes(tried: Sequence[Trial]) -> Iterator[str]:
    if not any(trial.training == "tf_keras" for trial in tried):
        yield "tf_keras is not installed, so that none of its models was tried"
    if os.environ.get(TF32_VARIABLE) == "1":
        yield f"TF32 is on ({TF32_VARIABLE}=1): products of float32 have 10 bits of mantissa"
    else:
        yield f"TF32 is off, as products of float32 are judged by all their bits; {TF32_VARIABLE}=1 leaves it on"
    if any(trial.training == "coordinator" for trial in tried):
        yield "of parameter servers' workers no memory is asked: they are processes that run no program"


def _machine() -> dict[str, str]:
    """Its driver and the versions of what TensorFlow computes with, by name; without what is not known."""
    with Cluster(Topology(), timeout=120) as cluster:
        found = dict(cluster.run(_versions)["local:0"].value)
    if driver := _driver():
        found["driver"] = driver
    return {**found, "Python": platform.python_version(), "platform": platform.platform()}


def _versions() -> dict[str, str]:
    """Called in a task."""
    import keras
    import tensorflow as tf

    build: dict[str, Any] = dict(tf.sysconfig.get_build_info())
    found = {"TensorFlow": tf.__version__, "Keras": keras.__version__}
    names = {"cuda_version": "CUDA", "cudnn_version": "cuDNN"}
    return found | {shown: str(build[name]) for name, shown in names.items() if build.get(name)}


def _driver() -> str:
    if (program := shutil.which("nvidia-smi")) is None:
        return ""
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_DRIVER_SECONDS_MAX, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]
