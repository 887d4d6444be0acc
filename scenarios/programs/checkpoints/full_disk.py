"""Save on a small file system of one's own that is full: run within new user and mount namespaces."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

from scenarios.programs.checkpoints import formats

_NAME = "CheckpointManager"


def main(folder: Path) -> None:
    """Save step 1, fill the disk, save step 2 in vain, free the disk, save again; copy what is left after each.

    Writes into `folder`: `said` (class of the exception), `full` and `after` (the directories).
    """
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], check=True)
    root = disk / "saved"
    root.mkdir()
    saver = formats.build(_NAME, root)
    formats.fill(saver, 1)
    saver.save(1)
    filler = disk / "filler"
    _fill(filler)
    formats.fill(saver, 2)
    said = "saved"
    try:
        saver.save(2)
    except Exception as error:  # noqa: BLE001 - whatever a save raises is what it says
        said = type(error).__name__
    (folder / "said").write_text(said)
    shutil.copytree(root, folder / "full")
    filler.unlink()
    saver.save(2)
    shutil.copytree(root, folder / "after")


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
