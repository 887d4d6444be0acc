"""What was measured with other versions: that the registry says the same, and how it is measured."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from packaging.version import Version

from harness.judging.known_issues import registry
from tools import versions as tool
from tools.versioning.environments import Environment, Unavailable, build, environments
from tools.versioning.results import Measured, Result, read, write
from tools.versioning.running import of_program, of_tests
from tools.versioning.table import disagreements, sections


def test_the_registry_says_what_was_measured() -> None:
    """Every defect is in its range of versions seen wherever it was looked for, and outside of it nowhere."""
    measured = read(tool.MEASURED)
    assert len(measured.results) >= 6
    assert list(disagreements(registry(), measured)) == []


def test_a_range_that_is_too_wide_or_too_narrow_is_found() -> None:
    """The check of the ranges is one that can fail, both ways."""
    measured = read(tool.MEASURED)
    name = f"upstream/{registry()[0].id}"
    environment = next(iter(measured.results))
    assert measured.results[environment][name].outcome == "shown"
    measured.results[environment][name] = Result("gone", 1.0)
    assert len(list(disagreements(registry(), measured))) == 1
    narrow = [msgspec.structs.replace(registry()[0], packages={"tensorflow": "<2"})]
    found = list(disagreements(narrow, read(tool.MEASURED)))
    assert found
    assert all("is said not to be there, and its program shows it" in each for each in found)


def test_a_version_that_is_a_cure_was_measured() -> None:
    """The defect's program has shown it with an older version, and no more with the newest Keras."""
    measured = read(tool.MEASURED)
    newest = max(measured.versions, key=lambda name: Version(measured.versions[name]["keras"]))
    for issue in registry():
        if issue.cured_by == "version":
            name = f"upstream/{issue.id}"
            assert measured.results[newest][name].outcome == "gone"
            assert any(name in each and each[name].outcome == "shown" for each in measured.results.values())


def test_the_page_has_what_was_measured() -> None:
    """If not, run `python tools/versions.py --table`."""
    assert sections(read(tool.MEASURED)) in tool.PAGE.read_text()


def test_environments_are_named_by_what_they_are() -> None:
    """From 2.16 to 2.21 and from Python 3.10 to 3.13, each line with its Keras and its tf_keras; those between by their
    Keras too.
    """
    for each in environments():
        line = each.packages["tensorflow"].rpartition(".")[0]
        assert each.name == f"tf{line}-py{each.python}" + f"-keras{each.packages['keras']}" * each.between
        assert set(each.packages) == {"tensorflow", "keras", "tf_keras"}
    lines = {each.name.partition("-")[0] for each in environments()}
    assert lines == {f"tf2.{number}" for number in range(16, 22)}
    assert {each.python for each in environments()} == {"3.10", "3.11", "3.12", "3.13"}


def test_between_two_environments_defects_of_keras_are_run() -> None:
    """Nothing of TensorFlow or tf_keras alone, and no tests: that is what the others are for."""
    wanted = ["upstream/keras3-ema-overwrite", "upstream/tf-keras-nadam", "tests/test_tidy.py"]
    for each in environments():
        assert tool.wanted_in(each, wanted) == (wanted[:1] if each.between else wanted)


def test_results_are_kept_as_they_come(tmp_path: Path) -> None:
    """What was measured is read again, so that a run that was interrupted goes on."""
    file = tmp_path / "measured.json"
    assert read(file) == Measured()
    measured = Measured({"one": {"tensorflow": "2.16.2"}}, {"one": {"upstream/x": Result("shown", 1.5)}})
    write(file, measured)
    assert read(file) == measured


def test_a_program_shows_its_defect_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown, gone, another error, and one that does not end, which is ended with all that it has started."""
    issue = msgspec.structs.replace(registry()[0], id="program")
    monkeypatch.setattr("tools.versioning.running.PROGRAMS", tmp_path)
    found = []
    for text in ("print('wrong: 2')", "print('all is well')", "raise KeyError('x')", "import signal; signal.pause()"):
        (tmp_path / "program.py").write_text(text)
        found.append(of_program(Path(sys.executable), issue, 5.0 if "pause" not in text else 0.5))
    assert [each.outcome for each in found] == ["shown", "gone", "other", "hangs"]
    assert found[2].why == "KeyError: 'x'"


def test_tests_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By file and outcome, with the names of those that failed, and the log says why."""
    monkeypatch.setattr("tools.versioning.running.ROOT", tmp_path)
    wrong = "import pytest\ndef test_right(): pass\ndef test_wrong(): assert False\n"
    known = "@pytest.mark.xfail\ndef test_known(): assert False\ndef test_skipped(): pytest.skip('no GPU')\n"
    (tmp_path / "test_two.py").write_text(wrong + known)
    (tmp_path / "test_right.py").write_text("def test_right(): pass\n")
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    files = ["test_two.py", "test_right.py", "test_broken.py"]
    found = of_tests(Path(sys.executable), files, 60.0, ("-p", "no:hypothesispytest"), log=tmp_path / "logs" / "two")
    two, right, broken = (found[file] for file in files)
    assert (two.outcome, two.counts) == ("failed", {"passed": 1, "failed": 1, "xfailed": 1, "skipped": 1})
    assert "FAILED test_wrong: " in two.why
    assert (right.outcome, right.counts, right.why) == ("passed", {"passed": 1}, "")
    assert (broken.outcome, broken.counts) == ("failed", {"error": 1})
    assert "nothing_of_this_name" in (tmp_path / "logs" / "two").read_text()


@pytest.mark.full
def test_a_session_that_does_not_end_has_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither has one that could not begin; both are told."""
    monkeypatch.setattr("tools.versioning.running.ROOT", tmp_path)
    (tmp_path / "test_waits.py").write_text("import signal\ndef test_waits(): signal.pause()\n")
    options = ("-p", "no:hypothesispytest")
    assert of_tests(Path(sys.executable), ["test_waits.py"], 5.0, options)["test_waits.py"].outcome == "hangs"
    refused = of_tests(Path(sys.executable), ["test_waits.py"], 60.0, (*options, "--no-such-option"))
    assert refused["test_waits.py"].outcome == "failed"
    assert "--no-such-option" in refused["test_waits.py"].why


def test_what_cannot_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uv nothing can be built, and a glob that fits nothing is refused."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Unavailable, match="there is no uv"):
        build(Environment("x", "3.12", {}), tmp_path)
    result = CliRunner().invoke(tool.main, ["--at", str(tmp_path), "--only", "nothing"])
    assert result.exit_code == 2
    assert "nothing is called like 'nothing'" in result.output
