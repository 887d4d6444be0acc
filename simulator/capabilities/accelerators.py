"""GPUs and TPUs that the machine shows, found without TensorFlow.

TensorFlow's own device listing would create a context in the parent process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path("/")
# The first nvidia-smi after boot initialises the driver, which takes several seconds where persistence mode is off.
_NVIDIA_SMI_SECONDS_MAX = 15.0
_GOOGLE_PCI_VENDOR = "0x1ae0"
_TPU_VARIABLES = ("LOCKSTEP_TPU", "TPU_NAME", "TPU_WORKER_ID", "TPU_ACCELERATOR_TYPE", "COLAB_TPU_ADDR")


def gpus(root: Path = _ROOT) -> tuple[str, ...]:
    """Return one description per NVIDIA GPU: from nvidia-smi, else the model names in the driver's `/proc` folder."""
    return _from_nvidia_smi() or _from_driver(root)


def tpus(environment: Mapping[str, str], root: Path = _ROOT) -> tuple[str, ...]:
    """Return the TPU device files, and the variables that name a TPU.

    A `/dev/vfio` group may be any device handed to this machine, so it counts only next to a PCI device made by Google.
    """
    found = [f"/dev/{path.name}" for path in sorted((root / "dev").glob("accel[0-9]*"))]
    vendors = {_read(path) for path in (root / "sys/bus/pci/devices").glob("*/vendor")}
    if _GOOGLE_PCI_VENDOR in vendors:
        found += [f"/dev/vfio/{path.name}" for path in sorted((root / "dev/vfio").glob("[0-9]*"))]
    found += [f"{name}={environment[name]}" for name in _TPU_VARIABLES if environment.get(name)]
    return tuple(found)


def _from_nvidia_smi() -> tuple[str, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_NVIDIA_SMI_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if done.returncode != 0:
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def _from_driver(root: Path) -> tuple[str, ...]:
    texts = [_read(path) for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))]
    models = [re.search(r"^Model:\s*(.+)$", text, re.MULTILINE) for text in texts]
    return tuple(match.group(1).strip() for match in models if match)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
