"""The registry of upstream defects: how it is read, which cells it covers, and what counts as its symptom."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.verify import _show_known
from harness.judging import known_issues
from harness.judging.culprit.kinds import NO_SUM
from harness.judging.culprit.protocol import Looked
from harness.judging.explain.protocol import Explanation
from harness.judging.known_issues import KnownIssue, Symptom, issues_for, load_registry, registry, shown_by
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict
from harness.subject.strategies import strategy_case
from simulator import RunFailed, UsageError
from simulator.errors import TaskError
from simulator.results import RunResult

ISSUE = """
[[issue]]
id = "one"
summary = "It breaks"
reference = "https://example.org/1"
symptom = {{ {symptom} }}
{more}
"""


def _registry(folder: Path, *entries: str) -> Path:
    path = folder / "issues.toml"
    path.write_text("".join(entries))
    return path


def _entry(symptom: str = 'exception = "ValueError"', more: str = "") -> str:
    return ISSUE.format(symptom=symptom, more=more)


def test_the_registry_that_ships_is_sound() -> None:
    """It can be read, and every entry names a symptom, a reference and at least one package."""
    assert registry()
    for issue in registry():
        assert issue.reference
        assert issue.packages, issue.id
        assert str(issue.symptom)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("issue = 3", "Expected `array`"),
        ("[[issue]\n", "not TOML"),
        ('[[issue]]\nid = "one"\n', "missing required field `summary`"),
        (_entry(more='workaround = "none"'), "unknown field `workaround`"),
        (_entry(symptom='exeption = "ValueError"'), "unknown field `exeption`"),
        (_entry(symptom=""), "one names no symptom; give an exception"),
        (_entry() + _entry(), "the id 'one' stands twice"),
        (_entry(more='packages = { keras = "~3" }'), "Invalid specifier"),
        (_entry(more='strategies = "mirrored-2"'), "Expected `array`"),
        (_entry(more='otherwise = [{ packages = { keras = "~3" }, symptom = { rule = "x" } }]'), "Invalid specifier"),
        (_entry(more='otherwise = [{ packages = { keras = ">3" }, symptom = {} }]'), "one names no symptom"),
    ],
)
def test_a_malformed_registry_is_a_usage_error(text: str, fragment: str, tmp_path: Path) -> None:
    """A typo never makes an entry silently apply to nothing or to everything; the file is named."""
    with pytest.raises(UsageError, match=fragment) as caught:
        load_registry(_registry(tmp_path, text))
    assert "issues.toml" in str(caught.value)


def test_defaults_cover_no_loop(tmp_path: Path) -> None:
    """An entry that names no loop applies only where a test names it."""
    (issue,) = load_registry(_registry(tmp_path, _entry()))
    assert not issue.covers("mirrored-2", "keras3_fit")
    assert not issue.covers("mirrored-2", None)
    assert issue.affects_installed_versions()


@pytest.mark.parametrize(
    ("name", "loop", "covered"),
    [
        ("mirrored-2", "fit", True),
        ("mirrored-3:nccl", "fit", True),
        ("mirrored-1", "fit", False),
        ("multi_worker-2x2", "fit", True),
        ("central_storage-2", "fit", False),
        ("mirrored-2", "loop", False),
        ("mirrored-2", None, False),
    ],
)
def test_cells_are_matched_by_strategy_and_loop(name: str, loop: str | None, covered: bool, tmp_path: Path) -> None:
    """Strategies are shell patterns, loops are names."""
    more = 'strategies = ["mirrored-[!1]*", "multi_worker-*"]\nloops = ["fit"]'
    (issue,) = load_registry(_registry(tmp_path, _entry(more=more)))
    assert issue.covers(name, loop) is covered


@pytest.mark.parametrize(
    ("packages", "affected"),
    [
        ({}, True),
        ({"numpy": ">=1"}, True),
        ({"numpy": ">=999"}, False),
        ({"numpy": ">=1", "keras": ">=999"}, False),
        ({"no-such-package": ">=0"}, False),
    ],
)
def test_versions_are_pep_440_specifiers(packages: dict[str, str], affected: bool) -> None:
    """Every package must be installed in an affected version."""
    issue = KnownIssue("one", "", Symptom(rule="r"), "", loops=("fit",), packages=packages)
    assert issue.affects_installed_versions() is affected
    assert issue.covers("mirrored-2", "fit") is affected


@pytest.mark.parametrize(("numpy", "wanted"), [(">=1", "TypeError"), (">=999", "ValueError"), ("<1", "ValueError")])
def test_a_defect_may_show_itself_otherwise_in_some_versions(numpy: str, wanted: str, tmp_path: Path) -> None:
    """Where these are installed only that symptom counts, and elsewhere only the other one."""
    more = f'otherwise = [{{ packages = {{ numpy = "{numpy}" }}, symptom = {{ exception = "TypeError" }} }}]'
    (issue,) = load_registry(_registry(tmp_path, _entry(more=more)))
    fits = {
        name for name in ("TypeError", "ValueError") if issue.symptom_here.fits_failure(_failure(name, "", (name,)))
    }
    assert fits == {wanted}


def test_an_id_that_is_not_in_the_registry_is_a_usage_error() -> None:
    """The message lists the ids there are."""
    with pytest.raises(
        UsageError, match=rf"known_issue\('typo'\) is not in the registry; it holds .*{registry()[0].id}"
    ):
        issues_for("mirrored-2", None, ["typo"])


def _failure(kind: str, message: str, bases: tuple[str, ...] = ()) -> RunFailed:
    return RunFailed((TaskError("worker:0", kind, message, bases=bases),), RunResult({}, 0.0, Path()))


def test_a_failure_fits_by_class_and_fragment() -> None:
    """A base class will do, another message or an exception outside a task will not."""
    symptom = Symptom(exception="LookupError", message="no shard")
    assert symptom.fits_failure(_failure("KeyError", "there is no shard 3", ("KeyError", "LookupError")))
    assert not symptom.fits_failure(_failure("KeyError", "there is no shard 3"))
    assert not symptom.fits_failure(_failure("LookupError", "something else"))
    assert not symptom.fits_failure(LookupError("no shard"))
    assert not Symptom(laws=("finite",)).fits_failure(_failure("LookupError", "no shard"))


def test_a_run_that_fails_as_a_known_issue_does_is_told_so() -> None:
    """Where the strategy and the versions are among the affected ones, and the message is the issue's."""
    failure = _failure("InvalidArgumentError", "You must feed a value for placeholder tensor 'cond/else/_1/cond/P'")
    (issue,) = (issue for issue in registry() if issue.id == "keras3-optimizer-built-in-step")
    assert (issue in shown_by(failure, "mirrored-2")) == issue.affects_installed_versions()
    assert not shown_by(failure, "one_device")
    assert not shown_by(_failure("InvalidArgumentError", "shapes must be equal"), "mirrored-2")
    assert not shown_by(LookupError("no shard"), "mirrored-2")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('cure = "another call"\ncured_by = "program"', "way out: another call"),
        ('cure = "Keras 4"\ncured_by = "version"', "way out: Keras 4"),
        (
            'cure = "all of it is C++; a subclass was tried"',
            "no way out is known: all of it is C++; a subclass was tried",
        ),
        ("", "no way out is known: none was looked for"),
    ],
)
def test_the_way_out_is_told_or_why_there_is_none(more: str, said: str, tmp_path: Path) -> None:
    """An entry without a program says where none is; one with a program that is not in this checkout names its file."""
    (issue,) = load_registry(_registry(tmp_path, _entry(more=more)))
    assert issue.way_out == said
    assert issue.cured_program() == ("# docs/upstream/one.cure.py in a checkout of Lockstep" if "call" in said else "")


@pytest.mark.parametrize(("source", "is_told"), [("import keras", True), ("import tensorflow as tf", False)])
def test_below_an_error_the_way_out_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str, is_told: bool
) -> None:
    """With the known issue that may be its cause; not with one of a package that the program does not name."""
    (issue,) = (issue for issue in registry() if issue.id == "keras3-optimizer-built-in-step")
    if not issue.affects_installed_versions():
        pytest.skip("the installed Keras has not this issue")
    found = _failure("InvalidArgumentError", "You must feed a value for placeholder tensor 'cond/P'")
    (tmp_path / "train.py").write_text(source)
    _show_known(found, strategy_case("mirrored-2"), str(tmp_path / "train.py"))
    assert (f"; way out: {issue.cure}" in " ".join(capsys.readouterr().out.split())) is is_told


_OF_FIT = 'File "site-packages/keras/src/backend/tensorflow/trainer.py", line 399, in fit'
_AT_EXIT = 'File "cluster_coordinator.py", line 860 in stop; File "cluster_coordinator.py", line 1010 in __del__'


@pytest.mark.parametrize(
    ("issue", "kind", "message", "place", "other"),
    [
        (
            "keras3-fit-steps-per-execution",
            "InvalidArgumentError",
            "You must feed a value for placeholder tensor 'cond/then/_1/P'",
            _OF_FIT,
            'File "train.py", line 18, in <module>',
        ),
        (
            "tf-coordinator-exit-hang",
            "Hang",
            "did not finish within 60 s",
            _AT_EXIT,
            'File "train.py", line 3 in <module>: time.sleep(1000)',
        ),
    ],
)
def test_a_message_that_others_share_tells_by_where_it_came_up(
    issue: str, kind: str, message: str, place: str, other: str
) -> None:
    """A loop of one's own is not told of `fit`, and a program that sleeps not of a coordinator."""

    def told(where: str) -> list[str]:
        cause = TaskError("chief:0", kind, message, traceback=where if kind != "Hang" else "")
        stacks = {"chief:0": where} if kind == "Hang" else {}
        failure = RunFailed((cause,), RunResult({}, 0.0, Path()), stacks=stacks)
        return [each.id for each in shown_by(failure, "mirrored-2")]

    assert issue in told(place)
    assert issue not in told(other)


def _verdict(*laws: str, rule: str | None = None) -> Verdict:
    broken = tuple(Judgement(law, "broken", "", (Finding(law, "it differs"),), 2.0, 1) for law in laws)
    held = Judgement("steps_match_reference", "held", "", (), None, 1)
    return Verdict("p", "s", (held, *broken), explanation=None if rule is None else Explanation(rule, "why"))


def test_a_verdict_fits_by_its_broken_laws_and_its_explanation() -> None:
    """Just these laws, no more and no fewer; an explanation only if one is asked for."""
    laws = Symptom(laws=("loss_matches_reference", "finite"))
    assert laws.fits_verdict(_verdict("finite", "loss_matches_reference"))
    assert laws.fits_verdict(_verdict("finite", "loss_matches_reference", rule="loss_times_replicas"))
    assert not laws.fits_verdict(_verdict("finite"))
    assert not laws.fits_verdict(_verdict("finite", "loss_matches_reference", "replicas_agree"))
    assert not laws.fits_verdict(_verdict())
    rule = Symptom(rule="loss_times_replicas")
    assert rule.fits_verdict(_verdict("finite", rule="loss_times_replicas"))
    assert not rule.fits_verdict(_verdict("finite", rule="examples_missing"))
    assert not rule.fits_verdict(_verdict("finite"))
    proved = _verdict("finite").seen(Looked(None, "not found", 0.1, proved=NO_SUM.code))
    assert Symptom(rule=NO_SUM.code).fits_verdict(proved)
    assert not rule.fits_verdict(proved)
    assert not Symptom(exception="ValueError").fits_verdict(_verdict("finite"))


def test_a_verdict_that_is_explained_as_a_known_issue_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the versions that have it, by its rule; laws alone are broken by much else."""
    broken = _verdict("variables_match_reference", rule="gradients_not_reduced")

    def known(keras: str, verdict: Verdict = broken, strategy: str = "mirrored-2") -> list[str]:
        monkeypatch.setattr("harness.judging.known_issues.version", {"keras": keras, "tensorflow": "2.16.2"}.get)
        return [issue.id for issue in shown_by(verdict, strategy)]

    monkeypatch.setattr(
        known_issues, "registry", lambda: [each for each in registry() if "tf_keras" not in each.packages]
    )
    assert known("3.3.3") == ["keras3-gradients-not-reduced"]
    assert known("3.15.1") == []
    assert known("3.3.3", strategy="one_device") == []
    assert known("3.3.3", _verdict("variables_match_reference")) == []
    assert known("3.3.3", _verdict("variables_match_reference", rule="loss_times_replicas")) == []
    assert known("3.6.0", _verdict("variables_match_reference", rule="loss_times_replicas")) == [
        "keras3-fit-gradients-times-replicas"
    ]


@pytest.mark.parametrize(
    ("patterns", "hardware", "covered"),
    [
        (None, "gpu", True),
        (["cpu"], "cpu", True),
        (["cpu"], "gpu-simulated", False),
        (["gpu*"], "gpu-simulated", True),
        (["gpu"], "gpu-simulated", False),
    ],
)
def test_an_issue_may_be_one_of_some_devices_only(
    patterns: list[str] | None, hardware: str, covered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another device it is neither expected nor reported as fixed, also where a test names it."""
    more = 'loops = ["fit"]' + ("" if patterns is None else f"\nhardware = {patterns}")
    (issue,) = load_registry(_registry(tmp_path, _entry(more=more)))
    monkeypatch.setattr("harness.judging.known_issues.registry", lambda: (issue,))
    assert (issues_for("mirrored-2", "fit", (), hardware) == (issue,)) is covered
    assert (issues_for("mirrored-2", None, ("one",), hardware) == (issue,)) is covered
