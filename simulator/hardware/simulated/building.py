"""Builds the simulated GPU's library from the sources beside this file, once for each TensorFlow and each change."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from filelock import FileLock

from simulator.errors import HardwareMissing
from simulator.hardware.cache import BUILDS_VARIABLE, cache_folder

_SOURCES = Path(__file__).parent
_COMPILER = "g++"
# As TensorFlow's wheels are compiled (`tf.sysconfig.get_compile_flags`). Kernels are called through virtual functions
# only, so that optimising them gains nothing; -O0 takes a third less time.
_FLAGS = (
    "-std=c++17",
    "-D_GLIBCXX_USE_CXX11_ABI=1",
    "-DEIGEN_MAX_ALIGN_BYTES=64",
    "-DNDEBUG",
    "-O0",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
)
_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
_NEEDED = "tensorflow/core/common_runtime/pluggable_device/pluggable_device_factory.h"
# Its streams for copies between devices of a plugin are those that compute, for which they are to wait.
_COPIES_NOTHING = "2.17"
# A file takes up to 40 s on a busy core.
_FILE_SECONDS_MAX = 600.0
_LOCK_SECONDS_MAX = 900.0
_SHOWN_LINES = 8


class NotBuilt(HardwareMissing):
    """Raised when the simulated GPU cannot be built on this machine; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the simulated GPU cannot be built here: {why}")


def why_not() -> str:
    """Why no simulated GPU can be built here, as far as can be told without building one; else nothing."""
    try:
        _check(_tensorflow()[1])
    except NotBuilt as error:
        return str(error)
    return "" if shutil.which(_COMPILER) else f"there is no {_COMPILER}"


@cache
def library() -> Path:
    """The library that makes TensorFlow see simulated GPUs; built now if it is not there yet, which takes a minute.

    It is kept in `$LOCKSTEP_BUILDS`, or else below `$XDG_CACHE_HOME` or `~/.cache`, for all processes of the user.

    Raises:
        NotBuilt: TensorFlow or its headers or a compiler are missing, or the compiler refuses, or this TensorFlow would
            be of no use.
    """
    include, version = _tensorflow()
    _check(version)
    compiler = shutil.which(_COMPILER)
    sources = sorted(_SOURCES.glob("*.cc"))
    name = f"gpu-simulated-{version}-{platform.machine()}-{_digest(include, sources)}"
    folder = cache_folder() / name
    built = folder / "libgpu_simulated.so"
    if built.exists():
        return built
    if compiler is None:
        raise NotBuilt(f"there is no {_COMPILER}; install a C++17 compiler, such as Debian's package g++")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock", timeout=_LOCK_SECONDS_MAX):
            if not built.exists():
                _say(f"building the simulated GPU for TensorFlow {version}, once; this takes about a minute")
                _build(compiler, include, sources, built)
    except (OSError, TimeoutError) as error:
        raise NotBuilt(f"{folder}: {error}; {BUILDS_VARIABLE} names another directory") from error
    return built


def _tensorflow() -> tuple[Path, str]:
    """The folder of the wheel's headers, and its version."""
    try:
        installed = importlib.metadata.distribution("tensorflow")
    except importlib.metadata.PackageNotFoundError as error:
        raise NotBuilt("TensorFlow is not installed") from error
    version = installed.version
    # What is installed, also where the session's path begins with a source checkout of TensorFlow's; then what is
    # imported from elsewhere, as an editable installation is.
    spec = importlib.util.find_spec("tensorflow")  # which imports nothing
    places = (installed.locate_file("tensorflow"), *((spec and spec.submodule_search_locations) or ()))
    for place in places:
        include = Path(str(place)) / "include"
        if (include / _NEEDED).exists():
            return include, version
    raise NotBuilt(f"TensorFlow {version} has come without the headers of its C++ library ({_NEEDED})")


def _check(version: str) -> None:
    if version.startswith(f"{_COPIES_NOTHING}."):
        raise NotBuilt(
            f'TensorFlow {version} cannot copy between the devices of a plugin ("stream cannot wait for itself"); '
            "2.16 can, and 2.18 and later"
        )


def _digest(include: Path, sources: Sequence[Path]) -> str:
    """What a build depends on besides TensorFlow's version and the kind of machine."""
    found = hashlib.sha256(" ".join((*_FLAGS, _wheel() or str(include))).encode())
    for path in [*sources, *sorted(_SOURCES.glob("*.h"))]:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _wheel() -> str:
    """What TensorFlow's headers and libraries are, as its installation has noted it; empty if it has not.

    So environments that have the same wheel have one build.
    """
    noted = importlib.metadata.distribution("tensorflow").read_text("RECORD") or ""
    return "".join(
        line for line in sorted(noted.splitlines()) if line.startswith(("tensorflow/include/", "tensorflow/lib"))
    )


def _say(text: str) -> None:
    sys.stderr.write(f"lockstep: {text}\n")
    sys.stderr.flush()


def _build(compiler: str, include: Path, sources: Sequence[Path], built: Path) -> None:
    """Compile all files side by side, and put the library in its place whole.

    Raises:
        NotBuilt: with what the compiler said first.
    """
    with tempfile.TemporaryDirectory(dir=built.parent) as place:
        objects = [Path(place) / f"{source.stem}.o" for source in sources]
        # Those that take longest, which include most of TensorFlow, come first.
        order = sorted(zip(sources, objects, strict=True), key=lambda pair: -pair[0].read_text().count("#include"))
        compiling = [[compiler, *_FLAGS, f"-I{include}", "-c", "-o", str(to), str(source)] for source, to in order]
        _run_all(compiling, len(os.sched_getaffinity(0)))
        made = Path(place) / built.name
        linked = [f"-L{include.parent}", *(f"-l:{name}" for name in _LIBRARIES)]
        _run_all([[compiler, "-shared", "-o", str(made), *map(str, objects), *linked]], 1)
        made.replace(built)


def _run_all(commands: Sequence[Sequence[str]], at_once: int) -> None:
    waiting = list(commands)
    with contextlib.ExitStack() as stack:
        running: list[subprocess.Popen[str]] = []
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(stack.enter_context(_started(waiting.pop(0))))
            _finish(running.pop(0))


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A running compiler, which ends with this process's interest in it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _finish(process: subprocess.Popen[str]) -> None:
    try:
        said, _ = process.communicate(timeout=_FILE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"the compiler had not ended after {_FILE_SECONDS_MAX:g} s") from None
    if process.returncode != 0:
        lines = [line for line in said.splitlines() if "error" in line.lower()] or said.splitlines()
        shown = "\n  ".join(lines[:_SHOWN_LINES])
        raise NotBuilt(f"the compiler refuses (exit code {process.returncode}):\n  {shown}")
