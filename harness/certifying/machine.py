"""What a machine is: its driver, and the versions of what TensorFlow computes with."""

from __future__ import annotations

import platform
import shutil
import subprocess
from typing import Any

from simulator import Cluster, Topology

__all__ = ["machine"]

_SECONDS_MAX = 30.0


def machine() -> dict[str, str]:
    """By name; without what is not known."""
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
        done = subprocess.run(query, capture_output=True, text=True, timeout=_SECONDS_MAX, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]
