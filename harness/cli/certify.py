"""`lockstep certify`: one report for a machine with GPUs."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from harness.cli._exits import Exit, command
from harness.cli._options import timeout_option
from harness.cli._output_files import again
from harness.cli._terminal_width import show
from simulator import UsageError

_EPILOG = """\b
Examples:
  lockstep certify report/                                     all of scenarios/, on the GPUs of this machine
  lockstep certify report/ -- scenarios/test_training.py -k exact
  lockstep certify report/ --rehearse -- scenarios/test_training.py -k exact      on simulated GPUs; certifies nothing

\b
Exit codes:
  0  certified, or nothing found wanting in a rehearsal
  1  not certified: the report says why
  2  usage error
  3  nothing was computed on a GPU
  4  there is no GPU
"""
_NAMES = ("certificate", "rehearsal")
_FILES = ("matrix.json", *(f"{name}.{kind}" for name in _NAMES for kind in ("json", "txt", "html")))


@command(epilog=_EPILOG, options_metavar="[OPTIONS]")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("scenarios", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCENARIOS...]")
@click.option("--rehearse", is_flag=True, help="On simulated GPUs, to see what would be done; certifies nothing.")
@timeout_option("Seconds for each run of a trial.", 120.0)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def certify(directory: Path, scenarios: tuple[str, ...], *, rehearse: bool, timeout: float, as_json: bool) -> int:
    """Run scenarios and trials on the GPUs of this machine, and write what was found into DIR.

    SCENARIOS are arguments of pytest, by default the folder scenarios/ of a checkout. DIR gets matrix.json, which
    `lockstep diff` compares with that of another machine, and certificate.json, .txt and .html: device, driver and
    versions, each scenario that failed and those nearest to their bounds, and for each strategy the seconds of a step,
    the memory, and whether two equal trainings are bit for bit the same.
    """
    from harness.certifying import certificate_page, gpus_to_certify
    from harness.certifying import certify as examined
    from harness.errors import MissingHardware
    from simulator import LockstepError
    from simulator.out import OutDirectory

    chosen = scenarios or ("scenarios/",)
    try:
        if not scenarios and not Path("scenarios").is_dir():
            raise UsageError("there is no folder scenarios/ here; name the scenarios after --, as arguments of pytest")
        place = OutDirectory(directory, _is_report, option="DIR")
        place.check()
        gpus_to_certify(rehearse=rehearse)
        place.make()
        with place.held():
            place.renew(*_FILES)  # those of an earlier time must not stand for these
            found = examined(directory, chosen, rehearse=rehearse, timeout=timeout)
    except UsageError:
        raise
    except MissingHardware as error:
        show(str(error), err=True)
        return Exit.LACKING
    except LockstepError as error:
        show(str(error), err=True)
        return Exit.FAILED
    name, text = "rehearsal" if rehearse else "certificate", "\n".join(found.lines())
    (directory / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(found.to_json())))
    (directory / f"{name}.txt").write_text(f"{text}\n")
    (directory / f"{name}.html").write_text(certificate_page(found, again()))
    if as_json:
        click.echo(msgspec.json.encode(found.to_json()))
    else:
        show(text)
    return Exit.INCONSISTENT if found.reasons else Exit.FINE


def _is_report(directory: Path) -> bool:
    return all(path.name in _FILES for path in directory.iterdir())
