"""The GPUs that TensorFlow sees here, asked of TensorFlow itself, once, in a child process.

What nvidia-smi lists is not what TensorFlow can use: a driver may be too old, CUDA's libraries missing, a device hidden
by `CUDA_VISIBLE_DEVICES`. The parent itself never creates a context of TensorFlow.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from filelock import FileLock

from simulator.agent.devices import SIMULATED
from simulator.agent.gpus import SeenGpu, look
from simulator.errors import LockstepError
from simulator.hardware.simulated import variables
from simulator.launch import DEFAULT_PRELOAD, at_import, fork
from simulator.launch.protocol import EntryPoint
from simulator.machines.local.scratch import scratch

Gpu = SeenGpu
ANSWERS_VARIABLE = "LOCKSTEP_CACHE"
SESSION_VARIABLE = "LOCKSTEP_SESSION"
"""Names the session of pytest whose processes share an answer, in the directory that the other one names."""

# Where drivers of AMD, Intel, and of Windows below Linux show, next to NVIDIA's.
_SIGNS = ("proc/driver/nvidia", "dev/nvidiactl", "dev/kfd", "dev/dxg", "dev/dri/renderD128")
# CUDA initialises each GPU for up to some seconds, and the import of TensorFlow comes before.
_ANSWER_SECONDS_MAX = 180.0
_ROOT = Path("/")


def may_have_gpus(environ: Mapping[str, str], root: Path = _ROOT) -> bool:
    """Whether anything hints at a GPU; if nothing does, TensorFlow, which takes seconds to import, is not asked."""
    return bool(environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH")) or any((root / sign).exists() for sign in _SIGNS)


def task_variables(kind: str) -> dict[str, str]:
    """What a task that computes on devices of this kind has in its environment besides the parent's.

    Raises:
        NotBuilt: the simulated GPU cannot be built here.
    """
    return variables() if kind == "gpu-simulated" else {}


def gpus(kind: str = "gpu") -> tuple[Gpu, ...]:
    """The GPUs that a task started here sees: real ones, or those that `gpu-simulated` gives it.

    TensorFlow is asked once by each process, and once by all processes of a session of pytest together.

    Args:
        kind: `gpu` or `gpu-simulated`.

    Raises:
        NotBuilt: the simulated GPU cannot be built here.
        LockstepError: TensorFlow gave no answer.
    """
    environ = {**os.environ, **task_variables(kind)}
    if not may_have_gpus(environ):
        return ()
    relevant = (*at_import(environ), *((name, environ.get(name, "")) for name in _RELEVANT))
    wanted = kind == "gpu-simulated"
    return tuple(gpu for gpu in _listed(relevant) if gpu.name.startswith(SIMULATED) == wanted)


_RELEVANT = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "HIP_VISIBLE_DEVICES",
    "LOCKSTEP_SIMULATED_GPUS",
    "LOCKSTEP_SIMULATED_GPU_MEMORY_MB",
)


@cache
def _listed(relevant: tuple[tuple[str, str], ...]) -> tuple[Gpu, ...]:
    """The answer for an environment that has these variables."""
    given, session = os.environ.get(ANSWERS_VARIABLE), os.environ.get(SESSION_VARIABLE)
    if not given or not session:
        return _ask(relevant)
    directory = Path(given)
    directory.mkdir(parents=True, exist_ok=True)
    known = directory / f"gpus-{session}-{hashlib.sha256(repr(relevant).encode()).hexdigest()[:16]}.json"
    with FileLock(known.with_suffix(".lock")):
        if not known.exists():
            found = _ask(relevant)
            known.write_bytes(msgspec.json.encode(found))
        return msgspec.json.decode(known.read_bytes(), type=tuple[Gpu, ...])


def _ask(relevant: tuple[tuple[str, str], ...]) -> tuple[Gpu, ...]:
    environ = {**os.environ, **{name: value for name, value in relevant if value}}
    with scratch("gpus") as directory:
        answer = directory / "gpus.json"
        process = fork(EntryPoint(DEFAULT_PRELOAD, look, (environ, answer), at_import(environ)), "gpus")
        process.end(_ANSWER_SECONDS_MAX)
        why: str | tuple[Gpu, ...] = f"exit code {process.exit_code()}, {_ANSWER_SECONDS_MAX:g} s at most"
        if answer.exists():
            why = msgspec.json.decode(answer.read_bytes(), type=tuple[Gpu, ...] | str)
    if isinstance(why, str):
        raise LockstepError(
            f"TensorFlow did not say which GPUs there are: {why}; does `python -c 'import tensorflow as tf; "
            "print(tf.config.list_physical_devices())'` end well?"
        )
    return why
