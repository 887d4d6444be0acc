"""Install a wheel alone into a new environment, and use it there: `python tools/try_wheel.py WHEEL --python 3.12`."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import click

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "verify_custom_loop.py"
TEST = """
import pytest
from harness import verify
from verify_custom_loop import train

@pytest.mark.strategies("mirrored-2")
def test_train(strategy):
    assert verify(train, strategy)
"""
# What is run, away from the checkout, and the exit code that it must have.
USES: tuple[tuple[tuple[str, ...], int], ...] = (
    (("lockstep", "--version"), 0),
    (("lockstep", "doctor", "--json"), 0),
    (("lockstep", "verify", "verify_custom_loop.py:train", "--strategy", "mirrored-2", "--html", "verdict.html"), 0),
    (("lockstep", "verify", "verify_custom_loop.py:train_wrong", "--strategy", "mirrored-2"), 1),
    (("lockstep", "prove", "verify_custom_loop.py:train"), 0),
    (("lockstep", "run", "--worker", "2", "--", "python", "-c", "print('ran')"), 0),
    (("pytest", "-q", "test_train.py"), 0),
)
_SHOWN_LINES = 25
_SECONDS_MAX = 1200


@click.command()
@click.argument("wheel", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--python", default=sys.executable, show_default=False, help="A version, or a path; of this one.")
@click.option("--lowest", is_flag=True, help="Each dependency in the lowest version that the wheel takes.")
@click.option("--extra", "extras", multiple=True, help="An extra of the wheel; may be given several times.")
def main(wheel: Path, python: str, lowest: bool, extras: tuple[str, ...]) -> None:
    """Install WHEEL with uv, without the checkout, and run what a new user would run: all must end as said."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise click.UsageError("uv is not here: pip install uv")
    with tempfile.TemporaryDirectory(prefix="lockstep-wheel-") as name:
        folder = Path(name)
        there = folder / "environment"
        hidden = {"PYTHONPATH", "PYTEST_ADDOPTS", "VIRTUAL_ENV"}
        environ = {key: text for key, text in os.environ.items() if key not in hidden}
        environ["PATH"] = f"{there / 'bin'}{os.pathsep}{environ['PATH']}"
        _run((uv, "venv", "--quiet", "--python", python, str(there)), folder, environ)
        asked = f"{wheel.resolve()}[{','.join(extras)}]" if extras else str(wheel.resolve())
        lowered = ("--resolution", "lowest-direct", *_dependencies(wheel, extras)) if lowest else ()
        install = (uv, "pip", "install", "--quiet", "--python", str(there / "bin" / "python"))
        _run((*install, asked, *lowered), folder, environ)
        work = folder / "work"
        work.mkdir()
        shutil.copy(EXAMPLE, work)
        (work / "test_train.py").write_text(TEST)
        click.echo(_run((uv, "pip", "freeze", "--quiet", "--python", str(there / "bin" / "python")), folder, environ))
        for command, code in USES:
            _run(command, work, environ, code)
            click.echo(f"ok: {' '.join(command)}: exit code {code}")


def _dependencies(wheel: Path, extras: tuple[str, ...]) -> list[str]:
    """What the wheel depends on, for uv takes only what is asked for by name in its lowest version."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    # Conditions on Python and its platform stay; they are those of the other environment.
    return [text for text in told if "extra ==" not in text] + [
        text.partition(";")[0].strip() for text in told for extra in extras if f'extra == "{extra}"' in text
    ]


def _run(command: tuple[str, ...], folder: Path, environ: dict[str, str], code: int = 0) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if done.returncode != code:
        said = (done.stdout + done.stderr).splitlines()[-_SHOWN_LINES:]
        raise click.ClickException("\n".join([f"{' '.join(command)}: exit code {done.returncode}, not {code}", *said]))
    return done.stdout


if __name__ == "__main__":
    main()
