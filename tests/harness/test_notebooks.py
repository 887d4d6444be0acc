"""Notebooks: how their cells are read, what is refused, and the cell and line in what is said of them."""

from __future__ import annotations

import inspect
import json
import sys
import traceback
from pathlib import Path

import msgspec
import pytest

from harness import verify
from harness.judging.culprit.protocol import Culprit
from harness.judging.diagnostics import Diagnostic, diagnostic_text
from harness.judging.diagnostics.formats import ReportedVerdict, all_formats
from harness.judging.diagnostics.from_verdict import label_of
from harness.recording.scripts.cells import run_cells
from harness.subject.notebook import NotebookCell, line_on_disk, read_cells, show_to_python
from harness.subject.program import Program
from harness.subject.script import Script
from simulator import UsageError
from simulator.agent.graph_errors import readable
from simulator.agent.places import cell_of, file_and_line, place
from tests.harness._called import lockstep, usage_error
from tests.harness._notebooks import LOOP_CELLS, notebook

nbformat = pytest.importorskip("nbformat", reason="the extra `notebook` is not installed")


def _read(here: Path, *cells: str) -> tuple[NotebookCell, ...]:
    return read_cells(notebook(here / "a.ipynb", *cells))


def test_cells_have_the_numbers_that_jupyter_shows(here: Path) -> None:
    """Those of text and empty ones have none; each line stays where it was."""
    assert _read(here, "x = 1\n\ny = 2", " \n", "z = 3") == (
        NotebookCell(1, "x = 1\n\ny = 2\n"),
        NotebookCell(2, "z = 3\n"),
    )


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if x:\n    !pip install -q a 'b>=2'\ny = 1", "if x:\n    pass\ny = 1"),
        ("!pip install \\\n  a \\\n  b\nx = 1", "pass\n\n\nx = 1"),
        ("!echo it's (\nx = 1", "pass\nx = 1"),
        ("try:\n  %tensorflow_version 2.x\nexcept Exception:\n  pass", "try:\n  pass\nexcept Exception:\n  pass"),
        ("%%time\nx = 1", "\nx = 1"),
        ("\n%%capture\n%%time\nx = 1", "\n\n\nx = 1"),
        ("%time x = f(1)", "x = f(1)"),
        ("x = 1\ntf.data.Dataset?", "x = 1\npass"),
        ("?len", "pass"),
        ("%load_ext lockstep", "pass"),
        ("%%lockstep verify mirrored-2\ndef train(strategy, record): pass", "\ndef train(strategy, record): pass"),
        ("x = (5\n% 3)", "x = (5\n% 3)"),
        ("x = '''\n%%bash\n!rm\n'''", "x = '''\n%%bash\n!rm\n'''"),
        ("x = 1  # !rm", "x = 1  # !rm"),
    ],
)
def test_lines_of_ipython_that_change_no_number_are_left_out(here: Path, source: str, python: str) -> None:
    """What Python can read is Python, whatever it begins with."""
    assert _read(here, source) == (NotebookCell(1, f"{python}\n"),)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("%%bash\nls", "cell 2 begins with %%bash"),
        ("%%writefile a.py\nx = 1", "cell 2 begins with %%writefile"),
        ("%%timeit\nf()", "cell 2 begins with %%timeit"),
        ("%%capture out\nf()", "cell 2 begins with %%capture"),
        ("x = 1\n!wget b", "cell 2, line 2: '!wget b' is for IPython"),
        ("!ls > a", "cell 2, line 1: '!ls > a' is for IPython"),
        ("!pip install a; rm b", "cell 2, line 1: '!pip install a; rm b' is"),
        ("files = !ls", "cell 2, line 1: 'files = !ls' is"),
        ("if x:\n  %cd a", "cell 2, line 2: '%cd a' is"),
        ("%env A=1", "cell 2, line 1: '%env A=1' is"),
        ("x = 1\ny = = 2", "cell 2, line 2 is not Python: invalid syntax: 'y = = 2'"),
        ("await f()", "cell 2, line 1 is not Python: 'await' outside function"),
        ("x = (1", "cell 2, line 1 is not Python: '(' was never closed"),
    ],
)
def test_other_lines_are_refused_with_their_cell(here: Path, source: str, text: str) -> None:
    """With exit code 2 and one sentence, before anything starts; `lockstep run` says the same."""
    notebook(here / "a.ipynb", "x = 1", source)
    for command in ("verify", "run"):
        said = usage_error(command, "--devices", "cpu:2", "--", "python", "a.ipynb")
        assert f"a.ipynb, {text}" in said


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "is no notebook"),
        ("x = 1", "is no notebook"),
        ("[]", "is no notebook"),
        ("{}", "is no notebook"),
        ('{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "is no notebook"),
    ],
)
def test_what_is_no_notebook_is_refused(here: Path, content: str, text: str) -> None:
    """By nbformat, in one sentence."""
    (here / "a.ipynb").write_text(content)
    with pytest.raises(UsageError, match=text):
        Program.of(["python", "a.ipynb"])


def test_other_uses_are_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other languages, a notebook as a function, a cure for one, a neighbour of a name of ours, and no nbformat."""
    with pytest.raises(UsageError, match=r"n\.ipynb has no cell of code"):
        read_cells(notebook(here / "n.ipynb", " "))
    with pytest.raises(UsageError, match="a notebook in julia"):
        read_cells(notebook(here / "j.ipynb", "x = 1", language="julia"))
    notebook(here / "a.ipynb", "x = 1", "import harness")
    for words in (["a.ipynb"], ["--devices", "cpu:2", "--fix", "--", "python", "a.ipynb"]):
        said = usage_error("verify", *words)
        assert "a notebook" in said or "not notebooks" in said
    (here / "harness.py").touch()
    with pytest.raises(UsageError, match=r"a\.ipynb, cell 2 imports 'harness' \(line 1\)"):
        Program.of(["python", "a.ipynb"])
    monkeypatch.setitem(sys.modules, "nbformat", None)
    with pytest.raises(UsageError, match=r"pip install 'tf-lockstep\[notebook\]'"):
        read_cells(here / "a.ipynb")


def test_what_a_program_is_follows_from_its_cells(here: Path) -> None:
    """Variables of the environment that stand at the top are known; what cells have shown changes nothing."""
    set_there = "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'"
    path = notebook(here / "a.ipynb", set_there, "import tensorflow as tf")
    program = Program.of(["python", "a.ipynb"])
    assert program.task_environ == {"TF_USE_LEGACY_KERAS": "1"}
    path.write_text(path.read_text().replace("Then:", "Now:"))
    assert Program.of(["python", "a.ipynb"]).digest == program.digest
    notebook(path, set_there, "import tensorflow")
    assert Program.of(["python", "a.ipynb"]).digest != program.digest


def test_cells_run_as_one_program(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one namespace, with what IPython offers, and with sources that `inspect` and tracebacks find."""
    cells = _read(
        here,
        "from __future__ import annotations\ndef f(x: Nowhere): return x",
        "def g(x: Nowhere): return x\ndisplay(g(3), 'a')\nget_ipython().run_line_magic('matplotlib', 'inline')",
        "import inspect\nassert inspect.getsource(g).startswith('def g')\nassert __name__ == '__main__'",
        "try:\n    get_ipython().system('rm a')\nexcept RuntimeError as error:\n    print(error)\n",
        "\n1 / f(0)",
    )
    with pytest.raises(ZeroDivisionError) as caught:
        run_cells(str(here / "a.ipynb"), cells)
    assert "'!rm a' is for IPython" in (out := capsys.readouterr().out)
    assert out.startswith("3\n'a'\n")
    told = "".join(traceback.format_exception(caught.value))
    assert f'File "{here}/a.ipynb, cell 5", line 2, in <module>\n    1 / f(0)' in told
    assert inspect.isclass(NotebookCell)


def test_places_are_said_and_read() -> None:
    """Of files and of cells."""
    for file, line, text in (("a.py", 3, "a.py:3"), ("b/a.ipynb, cell 12", 3, "b/a.ipynb, cell 12, line 3")):
        assert place(file, line) == text
        assert file_and_line(text) == (file, line)
    assert cell_of("b/a.ipynb, cell 12") == ("b/a.ipynb", 12)
    assert cell_of("a.ipynb") is None
    assert file_and_line("a.py") is None
    culprit = Culprit("a.ipynb, cell 2", 3, "x = 1", "Sum", None, "", "", (), 1)
    assert culprit.where == "a.ipynb, cell 2, line 3"
    assumed = Script.of(["python", __file__], assume=["a.ipynb, cell 2, line 3=1", "a.py:4=2"]).assume
    assert assumed == {"a.ipynb, cell 2, line 3": 1, "a.py:4": 2}
    error = 'Detected at node x defined at (most recent call last):\n  File "/d/a.ipynb, cell 2", line 3, in f\nBad.'
    assert readable(error) == "Bad. (x, a.ipynb, cell 2, line 3)"


def test_tools_are_told_the_line_of_the_file(here: Path) -> None:
    """Formats for machines know files, and a notebook's file has each line of a cell; what was shown is another."""
    path = notebook(here / "a.ipynb", "x = 1", 'y = 2\nz = "ä"')
    list(show_to_python(str(path), read_cells(path)))
    label = label_of("a.ipynb, cell 2", 2, "said", source='z = "ä"')
    assert (label.file, label.line, label.source, label.exact) == ("a.ipynb, cell 2", 2, 'z = "ä"', False)
    file, line = label.path
    assert file == "a.ipynb"
    lines = path.read_text().splitlines()
    assert json.loads(lines[line - 1]) == 'z = "ä"'
    assert '"source"' in lines[line - 3]  # and not what the cell has shown
    found = Diagnostic("error", "code", "wrong", "a.ipynb", "mirrored-2", label)
    assert found.where == "a.ipynb, cell 2, line 2 (a.ipynb under mirrored-2)"
    both = msgspec.structs.replace(found, others=(label_of("a.ipynb, cell 1", 1, "before"),))
    shown = diagnostic_text(both).splitlines()  # what is wrong comes first, whichever cell is
    assert [line for line in shown if line.startswith((" -->", " ::>", "1", "2"))] == [
        *(" --> a.ipynb, cell 2, line 2 (a.ipynb under mirrored-2)", '2 | z = "ä"'),
        *(" ::> a.ipynb, cell 1, line 1", "1 | x = 1"),
    ]
    reported = [ReportedVerdict("a.ipynb", "a.ipynb", "mirrored-2", 1.0, found)]
    assert f"::error file=a.ipynb,line={line},endLine={line},title" in all_formats()["github"].written(reported)
    (issue,) = json.loads(all_formats()["gitlab"].written(reported))
    assert issue["location"] == {"path": "a.ipynb", "lines": {"begin": line}}
    (result,) = json.loads(all_formats()["sarif"].written(reported))["runs"][0]["results"]
    (place_there,) = result["locations"]
    assert place_there["physicalLocation"]["artifactLocation"] == {"uri": "a.ipynb"}
    assert place_there["physicalLocation"]["region"] == {"startLine": line, "snippet": {"text": 'z = "ä"'}}
    path.write_text(json.dumps(json.loads(path.read_text())))  # all in one line
    assert line_on_disk("a.ipynb, cell 2", 2) == ("a.ipynb", 1)
    assert line_on_disk("none.ipynb, cell 2", 2) == ("none.ipynb", 1)
    assert line_on_disk("a.py", 2) == ("a.py", 2)


@pytest.mark.full
def test_a_wrong_notebook_is_found_with_its_cell_and_line(here: Path) -> None:
    """The mean of each replica's own examples, summed over the replicas."""
    wrong = tuple(cell.replace("** 2) / BATCH", "** 2) / len(x)") for cell in LOOP_CELLS)
    notebook(here / "a.ipynb", *wrong)
    program = Program.of_script(Script.of(["python", "a.ipynb"], first=1))
    verdict = verify(program, "mirrored-2", prove=False, explain=True)
    assert verdict.outcome == "inconsistent"
    assert verdict.culprit is not None
    assert verdict.culprit.where == "a.ipynb, cell 3, line 4"
    assert "a.ipynb, cell 3, line 4" in verdict.text()
    assert sorted(path.name for path in here.iterdir()) == ["a.ipynb"]


@pytest.mark.full
def test_a_right_notebook_is_consistent(here: Path) -> None:
    """What the reference was told is listed with its cell; AutoGraph converts what stands in cells."""
    counted = "    count = tf.constant(0)\n    for _ in tf.range(2):\n        count += 1\n"
    cells = [cell.replace("def train(batch):\n", f"def train(batch):\n{counted}") for cell in LOOP_CELLS]
    notebook(here / "a.ipynb", *cells)
    verdict = verify(["python", "a.ipynb"], "mirrored-2", explain=False)
    assert verdict, verdict
    assert "in the reference num_replicas_in_sync multiplies at a.ipynb, cell 2, line 2 is 2" in verdict.notes


@pytest.mark.full
def test_a_notebook_that_fails_says_where(here: Path) -> None:
    """With the cell in the traceback, and no frame of ours; under `lockstep run` too, whose steps are counted."""
    notebook(here / "a.ipynb", *LOOP_CELLS, "\nraise ValueError('no data')")
    result = None
    for command in ("verify", "run"):
        words = [command, "--devices", "cpu:2", "--", "python", "a.ipynb"]
        result = lockstep(*words, code=3)
        assert f'File "{here}/a.ipynb, cell 6", line 2, in <module>' in result.output
        assert "run_cells" not in result.output
    assert result is not None
    assert ", 6 steps, " in result.output
