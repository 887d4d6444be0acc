"""Wheel and sdist of a commit, of which two builds are equal byte by byte."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

_SECONDS_MAX = 600
_HOOK = "import sys; from setuptools import build_meta; print(build_meta.build_{}(sys.argv[1]))"


def moment(checkout: Path) -> int:
    """Seconds since 1970 by which all files are dated: `SOURCE_DATE_EPOCH`, or the time of the commit."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    return int(told or _run(["git", "log", "-1", "--format=%ct"], checkout))


def exported(checkout: Path, folder: Path) -> Path:
    """What HEAD has, and nothing else that lies in the checkout, in a new folder."""
    folder.mkdir(parents=True)
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=checkout, check=True, capture_output=True).stdout
    _unpack(io.BytesIO(packed), folder)
    return folder


def build(source: Path, dist: Path, seconds: int, environ: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """The sdist of a folder, and the wheel from that sdist; by this environment's setuptools, without a network.

    Args:
        source: the folder with `pyproject.toml`; the build leaves files of its own there.
        dist: where they are put; made if need be.
        seconds: the date of everything in them.
        environ: variables that the build has besides those of this process.
    """
    dist.mkdir(parents=True, exist_ok=True)
    dist = dist.resolve()
    variables = {**os.environ, **(environ or {}), "SOURCE_DATE_EPOCH": str(seconds)}
    sdist = dist / _built("sdist", source, dist, variables)
    sdist.write_bytes(repack(sdist.read_bytes(), seconds))
    unpacked = source / "unpacked"
    unpacked.mkdir()
    _unpack(io.BytesIO(sdist.read_bytes()), unpacked)
    wheel = dist / _built("wheel", unpacked / sdist.name.removesuffix(".tar.gz"), dist, variables)
    return sdist, wheel


def repack(packed: bytes, seconds: int) -> bytes:
    """A .tar.gz with the same files by name, of nobody, with one date; setuptools leaves the machine's."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as before,
        gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda each: each.name):
            executable = member.isdir() or bool(member.mode & 0o100)
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.size, entry.mtime = member.type, member.size, seconds
            entry.mode = 0o755 if executable else 0o644
            after.addfile(entry, before.extractfile(member) if member.isfile() else None)
    return out.getvalue()


def _built(kind: str, source: Path, dist: Path, environ: Mapping[str, str]) -> str:
    return _run([sys.executable, "-c", _HOOK.format(kind), str(dist)], source, environ).split()[-1]


def _unpack(packed: io.BytesIO, folder: Path) -> None:
    with tarfile.open(fileobj=packed) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # which early Pythons of 3.11 do not have
        archive.extractall(folder)  # noqa: S202 - made by git and by this file


def _run(command: list[str], folder: Path, environ: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout
