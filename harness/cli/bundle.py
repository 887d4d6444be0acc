"""`lockstep bundle`: Lockstep and all that it needs, for a machine without a network."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli._exits import Exit, command
from harness.cli._terminal_width import show
from simulator import UsageError

_EPILOG = """\b
Examples:
  lockstep bundle out/                                    for a machine with this Python, in parts of 58 MiB
  lockstep bundle out/ --python 3.12 --cuda               with NVIDIA's libraries, as TensorFlow asks for them
  lockstep bundle out/ --part-size 10MB -- nvidia-ml-py==12.560.30

\b
There, with all files of out/:
  bash out/install.sh /opt/lockstep && cd /opt/lockstep && venv/bin/lockstep certify report/

\b
Exit codes:
  0  written
  2  usage error
  3  pip failed
"""


@command(epilog=_EPILOG, options_metavar="[OPTIONS]")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- REQUIREMENTS...]")
@click.option("--part-size", default="58MiB", show_default=True, metavar="SIZE", help="The largest size of a file.")
@click.option("--python", metavar="X.Y", help="Version of Python there.  [default: this one]")
@click.option("--cuda", is_flag=True, help="With NVIDIA's libraries, 3 GB, unless the machine has its own.")
def bundle(directory: Path, more: tuple[str, ...], *, part_size: str, python: str | None, cuda: bool) -> int:
    """Write wheels for a machine without a network into DIR, in parts, with checksums and an installer.

    The machine needs Linux, a C library not older than 2.28, the same kind of processor as this one, and that Python
    with venv. What is installed there is what requirements.lock has, Lockstep and its scenarios. REQUIREMENTS come
    along as well, but not what they need themselves.
    """
    import platform

    from harness.bundling import bundle as bundled
    from simulator import LockstepError
    from simulator.units import format_size, parse_size

    here = ".".join(platform.python_version_tuple()[:2])
    try:
        size = parse_size(part_size, "--part-size")
        made = bundled(directory, part_bytes=size, python=python or here, cuda=cuda, more=more)
    except UsageError:
        raise
    except LockstepError as error:
        show(str(error), err=True)
        return Exit.FAILED
    show(
        f"{made.wheels} wheels in {made.parts} parts, {format_size(made.size_bytes)} in {directory}; bring all its "
        f"files to the machine, and there: bash {directory.name}/install.sh PREFIX"
    )
    return Exit.FINE
