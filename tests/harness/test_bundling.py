"""Bundles for machines without a network: what they hold, what is refused, and an installation without an index."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bundling import bundle, wheels
from harness.bundling.packing import pack
from harness.bundling.wheels import needed
from simulator import LockstepError, UsageError
from tests.harness._called import usage_error

PYTHON = ".".join(map(str, sys.version_info[:2]))
LOCK = """\
asked==1.0 \\
    --hash=sha256:{asked}
    # via tf-lockstep (pyproject.toml)
below==2.0 ; python_full_version < '3.11' \\
    --hash=sha256:{below}
    # via asked
below==3.0 ; python_full_version >= '3.11' \\
    --hash=sha256:{below}
    # via
    #   asked
    #   other
other==1.0 ; sys_platform == 'win32' \\
    --hash=sha256:{below}
    # via asked
unasked==1.0 \\
    --hash=sha256:{below}
    # via tf-lockstep (pyproject.toml)
"""


def _wheel(folder: Path, name: str, version: str, needs: str = "") -> str:
    """A package of one module; returns the wheel's checksum."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {needs}\n" if needs else ""
    )
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"version = {version!r}\n")
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose lock file has small packages, in a place that stands for the package index."""
    index, root = tmp_path / "index", tmp_path / "checkout"
    index.mkdir()
    version = "2.0" if sys.version_info < (3, 11) else "3.0"
    sums = {"asked": _wheel(index, "asked", "1.0", "below"), "below": _wheel(index, "below", version)}
    (root / "scenarios" / "__pycache__").mkdir(parents=True)
    (root / "scenarios" / "test_one.py").write_text("")
    for name in ("conftest.py", "pyproject.toml"):
        (root / name).write_text("")
    (root / "requirements.lock").write_text(LOCK.format(**sums))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setattr(wheels, "_roots", lambda *_: ["Asked"])
    return root


@pytest.mark.parametrize(("python", "version"), [("3.10", "2.0"), ("3.12", "3.0")])
def test_what_a_machine_needs_follows_from_its_python(python: str, version: str) -> None:
    """And from who asked: neither what is for another system nor what only others want."""
    found = needed(LOCK.format(asked="a", below="b"), ["asked"], python, "x86_64")
    assert [entry.partition(" ")[0] for entry in found] == ["asked==1.0", f"below=={version}"]
    assert all("--hash=sha256:" in entry for entry in found)
    with pytest.raises(ValueError, match="not in the lock file: third"):
        needed(LOCK, ["asked", "third"], python, "x86_64")


def test_the_lock_file_has_all_that_is_asked_for() -> None:
    """TensorFlow and the scenarios' packages, and nothing that only whoever works on Lockstep needs."""
    root = Path(__file__).parents[2]
    lock = (root / "requirements.lock").read_text()
    for python in wheels.PYTHONS:
        names = {entry.partition("==")[0] for entry in needed(lock, wheels._roots(root, python), python, "x86_64")}
        assert {"tensorflow", "keras", "numpy", "pytest", "jinja2", "tf-keras", "tensorboard", "grpcio"} <= names
        assert not {"mypy", "ruff", "playwright", "colorama"} & names
        assert ("tomli" in names) == (python == "3.10")


def test_parts_are_of_the_size_that_was_asked_for(tmp_path: Path) -> None:
    """All but the last, and together they are what went in; each has its checksum."""
    (tmp_path / "in" / "wheels").mkdir(parents=True)
    data = bytes(range(256)) * 100
    (tmp_path / "in" / "wheels" / "one.whl").write_bytes(data)
    (tmp_path / "out").mkdir()
    count = pack(tmp_path / "in", tmp_path / "out", 7000, "3.12")
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert len(parts) == count > 3
    assert {part.stat().st_size for part in parts[:-1]} == {7000}
    whole = tmp_path / "whole.tar"
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(whole) as archive:
        member = archive.extractfile("wheels/one.whl")
        assert member is not None
        assert member.read() == data
    sums = dict(line.split()[::-1] for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "out").iterdir()
        if path.name != "SHA256SUMS"
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["out", "--part-size", "0MiB"], "parts of 0 bytes are too small; give 1KiB or more, such as 58MiB"),
        (["out", "--part-size", "58"], "--part-size '58' is not understood"),
        (["out", "--python", "3.9"], "no bundles for Python '3.9'; accepted are 3.10, 3.11, 3.12, 3.13"),
        (["there"], "there exists already; name a directory that does not"),
        (["no/out"], "there is no directory"),
    ],
)
def test_what_cannot_be_written_is_one_error(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is fetched, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wheels, "_pip", lambda *_: pytest.fail("pip was called"))
    (tmp_path / "there").mkdir()
    assert told in usage_error("bundle", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_without_a_checkout_there_is_no_bundle(tmp_path: Path) -> None:
    """Lockstep's own wheel is built from it, and the versions stand in its lock file."""
    with pytest.raises(
        UsageError, match=r"made from a checkout of Lockstep, and .* has no requirements.lock, pyproject"
    ):
        bundle(tmp_path / "out", part_bytes=2**20, python=PYTHON, root=tmp_path)


def _installed(out: Path, prefix: Path, *python: str) -> subprocess.CompletedProcess[str]:
    # Nothing of the test's own index is known there.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = ["bash", str(out / "install.sh"), str(prefix), *python]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_a_bundle_is_installed_without_an_index(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a fresh environment; a damaged part, a missing one, another Python and an existing place are refused."""
    monkeypatch.setattr(wheels, "_build", lambda *_: None)
    out, prefix = tmp_path / "out", tmp_path / "prefix"
    made = bundle(out, part_bytes=1024, python=PYTHON, root=checkout)
    assert (made.wheels, made.parts) == (2, len(list(out.glob("part-*"))))
    done = _installed(out, prefix, sys.executable)
    assert done.returncode == 0, done.stderr
    asked = "import asked, below, sys; print(asked.version, below.version, sys.prefix)"
    told = subprocess.run([prefix / "venv/bin/python", "-c", asked], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["1.0", "2.0" if sys.version_info < (3, 11) else "3.0", str(prefix / "venv")]
    assert [path.name for path in sorted(prefix.iterdir())] == ["conftest.py", "scenarios", "venv"]
    assert [path.name for path in (prefix / "scenarios").iterdir()] == ["test_one.py"]

    _refused(_installed(out, prefix, sys.executable), 2, "exists already")
    _refused(_installed(out, tmp_path / "other", "no-such-python"), 4, f"is not Python {PYTHON}")
    part = out / "part-0001"
    data = part.read_bytes()
    for spoil in (lambda: part.write_bytes(data[:-1] + b"!"), part.unlink):
        spoil()
        _refused(_installed(out, tmp_path / "other", sys.executable), 1, "a part is missing or damaged")
        assert not (tmp_path / "other").exists()


def _refused(done: subprocess.CompletedProcess[str], code: int, told: str) -> None:
    assert done.returncode == code
    assert told in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("spoil", [lambda root: None, lambda root: _wheel(root.parent / "index", "asked", "1.0")])
def test_what_pip_does_not_get_leaves_nothing(
    spoil: Callable[[Path], object], checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel that is not there, or is another than the lock file's, by pip's own words."""
    monkeypatch.setattr(wheels, "_build", lambda *_: None)
    if spoil(checkout) is None:
        next((tmp_path / "index").glob("below*")).unlink()
    with pytest.raises(LockstepError, match="pip download failed: "):
        bundle(tmp_path / "out", part_bytes=1024, python=PYTHON, root=checkout)
    assert not (tmp_path / "out").exists()
