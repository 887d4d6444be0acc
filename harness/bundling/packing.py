"""Files of a bundle: parts of a bounded size, their checksums, and what installs them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

_CHECKSUMS, _INSTALLER = "SHA256SUMS", "install.sh"


class _Parts(io.RawIOBase):
    """A file to write to, in parts on the disk."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory, self._size = directory, size
        self.sums: dict[str, hashlib._Hash] = {}
        self._file: io.BufferedWriter | None = None
        self._left = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # tarfile hands over bytes
        rest = memoryview(data)
        while rest:
            if not self._left:
                self._next()
            assert self._file is not None
            piece, rest = rest[: self._left], rest[self._left :]
            self._file.write(piece)
            self.sums[Path(self._file.name).name].update(piece)
            self._left -= len(piece)
        return len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def _next(self) -> None:
        if self._file is not None:
            self._file.close()
        name = f"part-{len(self.sums):04}"
        self._file, self._left = (self._directory / name).open("wb"), self._size
        self.sums[name] = hashlib.sha256()


def pack(contents: Path, directory: Path, part_bytes: int, python: str) -> int:
    """Write what a folder holds as parts, with `SHA256SUMS` and `install.sh`.

    Args:
        contents: a folder with `wheels/`, and whatever else shall be at the place of the installation.
        directory: for the files; it exists.
        part_bytes: the largest size of a part.
        python: the version that the wheels are for, such as `3.12`.

    Returns:
        How many parts there are.
    """
    with _Parts(directory, part_bytes) as parts:
        with tarfile.open(fileobj=parts, mode="w|") as archive:
            for path in sorted(contents.iterdir()):
                archive.add(path, path.name)
        sums = {name: found.hexdigest() for name, found in parts.sums.items()}
    installer = _SCRIPT.replace("@PYTHON@", python).replace("@PARTS@", str(len(sums)))
    (directory / _INSTALLER).write_text(installer)
    (directory / _INSTALLER).chmod(0o755)
    sums[_INSTALLER] = hashlib.sha256(installer.encode()).hexdigest()
    (directory / _CHECKSUMS).write_text("".join(f"{found}  {name}\n" for name, found in sums.items()))
    return len(sums) - 1


_SCRIPT = """#!/usr/bin/env bash
# bash install.sh PREFIX [PYTHON]: install what the parts beside this file hold into PREFIX, without a network.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${1:?usage: bash install.sh PREFIX [PYTHON]}
python=${2:-python@PYTHON@}
fail() { echo "install.sh: $1" >&2; exit "$2"; }

[ ! -e "$prefix" ] || fail "$prefix exists already; name a directory that does not" 2
"$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON@")' 2>/dev/null ||
  fail "$python is not Python @PYTHON@, for which these wheels are; name one: bash install.sh PREFIX PYTHON" 4
(cd "$here" && sha256sum --check --quiet SHA256SUMS) >&2 ||
  fail "a part is missing or damaged; bring SHA256SUMS and its @PARTS@ parts here again" 1

mkdir -p "$prefix"
trap 'rm -rf "$prefix"' ERR
cat "$here"/part-* | tar -x -C "$prefix"
"$python" -m venv "$prefix/venv"
"$prefix/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-cache-dir \\
  "$prefix"/wheels/*.whl
rm -r "$prefix/wheels"
echo "installed; go on with: cd $prefix && venv/bin/lockstep doctor"
"""
