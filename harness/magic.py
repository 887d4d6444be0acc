"""`%%lockstep verify mirrored-2` over a cell of a notebook: verifies the `train` that it defines, where it stands."""

from __future__ import annotations

import functools
import html
from pathlib import Path
from typing import TYPE_CHECKING

from harness.subject.notebook import show_source
from simulator import LockstepError
from simulator.agent.places import cell_file

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_FORM = "write %%lockstep verify STRATEGY ..., such as %%lockstep verify mirrored-2, over def train(strategy, record)"
_TRAIN, _VERDICTS = "train", "verdicts"
# A kernel does not know what its notebook is called.
_NOTEBOOK = "notebook"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Give a shell of IPython's the magic, and its cells from now on the names that verdicts show."""
    shell.register_magic_function(functools.partial(_lockstep, shell), "cell", "lockstep")
    # IPython's own are no files of a program: `<ipython-input-3-...>`, or one among temporary files.
    shell.compile.get_code_name = lambda raw_code, transformed_code, number: _named(number)


def _named(number: int) -> str:
    return cell_file(str(Path.cwd() / _NOTEBOOK), number)


def _lockstep(shell: InteractiveShell, line: str, cell: str) -> None:
    """Run the cell, verify its `train`, show each verdict, and leave them in the notebook as `verdicts`.

    Raises:
        IPython's UsageError, which it shows as a sentence: the line is another one, or the run failed.
    """
    from IPython.core.error import UsageError as Said

    command, *names = line.split() or [""]
    if command != "verify" or any(name.startswith("-") for name in names):
        raise Said(_FORM)
    shell.user_ns.pop(_TRAIN, None)
    # The cell's first line is that of the magic; empty ones, which IPython leaves out at its beginning, count too.
    empty = len(cell) - len(cell.lstrip("\n"))
    source = "\n" * (1 + empty) + shell.transform_cell(cell)
    # The shell's own count is that of this cell or of the next, by its version.
    file = _named(len(shell.history_manager.input_hist_parsed) - 1)
    show_source(file, source)
    exec(shell.compile(source, file, "exec"), shell.user_ns)  # noqa: S102 - what a cell is for
    if _TRAIN not in shell.user_ns:
        raise Said(f"the cell defines no train; {_FORM}")
    verdicts = shell.user_ns[_VERDICTS] = {}
    try:
        for name in names or ["mirrored-2"]:
            verdicts[name] = _shown(shell.user_ns[_TRAIN], name)
    except LockstepError as error:
        raise Said(str(error)) from error


def _shown(train: object, name: str) -> object:
    """The verdict under one strategy, which the notebook shows."""
    from IPython.display import display

    from harness.verify import verify

    verdict = verify(train, name)  # type: ignore[arg-type]  # it says what is wrong with anything else
    text = verdict.text()
    display({"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}, raw=True)
    return verdict
