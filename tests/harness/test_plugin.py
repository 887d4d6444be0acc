"""The pytest plugin, in pytest sessions of its own: markers, fixtures, known issues, the matrix, and hangs."""

from __future__ import annotations

import json
import socket
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulator._hosts import hosts_or_skip

ROOT = Path(__file__).parents[2]
Session = Callable[..., pytest.RunResult]

# Verdicts and failures as `verify` would give them, without the seconds that TensorFlow takes.
HELPERS = '''
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict
from _lockstep.verdicts import announce
from simulator import Cluster, Topology

def verdict(*broken, ratio=0.25):
    """A verdict with these laws broken, made known to the plugin."""
    judgements = [Judgement("loss_matches_reference", "held", "", (), ratio, 1, suffices=True)]
    judgements += [Judgement(law, "broken", "", (Finding(law, "it differs"),), 2.0, 1) for law in broken]
    found = Verdict("program", "mirrored-2", tuple(judgements))
    announce(found)
    return found

def fail(error):
    """A run whose only task raises."""
    def body():
        raise error
    with Cluster(Topology(worker=1), preload=(), timeout=20) as cluster:
        cluster.run(body)
'''
CONFTEST = """
import pathlib
from harness.judging import known_issues
known_issues._FILE = pathlib.Path(__file__).with_name("issues.toml")
"""
ISSUES = """
[[issue]]
id = "raises"
summary = "It raises"
reference = "https://example.org/1"
symptom = { exception = "LookupError", message = "no shard" }

[[issue]]
id = "breaks"
summary = "It is wrong"
reference = "https://example.org/2"
loops = ["fit"]
strategies = ["mirrored-*"]
symptom = { laws = ["loss_matches_reference"] }
"""
KNOWN = """
import pytest
from helpers import fail, verdict

raises = pytest.mark.known_issue("raises")

@raises
def test_symptom():
    fail(LookupError("there is no shard 3"))

@raises
def test_other_message():
    fail(LookupError("something new"))

@raises
def test_other_exception():
    assert 1 == 2

@raises
def test_gone():
    pass

@pytest.mark.strategies("mirrored-2", "one_device")
@pytest.mark.parametrize("loop", ["fit"])
def test_law(strategy, loop):
    assert verdict(*["loss_matches_reference"] * (strategy.name == "mirrored-2"))

@pytest.mark.strategies("mirrored-2")
@pytest.mark.loop("fit")
def test_other_law(strategy):
    assert verdict("loss_matches_reference", "replicas_agree")

@pytest.mark.strategies("mirrored-2")
@pytest.mark.loop("fit")
def test_unasserted_other_law(strategy):
    verdict("replicas_agree")

@pytest.mark.strategies("mirrored-2")
@pytest.mark.loop("fit")
def test_law_and_another_error(strategy):
    verdict("loss_matches_reference")
    raise TypeError("new")

@pytest.mark.strategies("mirrored-2")
@pytest.mark.loop("fit")
def test_law_gone(strategy):
    assert verdict()

def test_plain():
    pass

@pytest.mark.parametrize("size", [2, 1])
def test_rows(report_row, size):
    report_row("sizes", {"size": size, "square": size * size})
    report_row("other", {"size": "any"})
"""
KNOWN_OUTCOMES = {
    "test_symptom": "skipped",
    "test_other_message": "failed",
    "test_other_exception": "failed",
    "test_gone": "failed",
    "test_law[mirrored-2-fit]": "skipped",
    "test_law[one_device-fit]": "passed",
    "test_other_law[mirrored-2]": "failed",
    "test_unasserted_other_law[mirrored-2]": "failed",
    "test_law_and_another_error[mirrored-2]": "failed",
    "test_law_gone[mirrored-2]": "failed",
    "test_plain": "passed",
    "test_rows[2]": "passed",
    "test_rows[1]": "passed",
}


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Write a test file and run pytest on it, with the plugin, in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("LOCKSTEP_CACHE", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(helpers=HELPERS)

    def run(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_sample=tests)
        # Hypothesis's own plugin, which nothing here needs, takes a second to load.
        plugins = ("-p", "harness.plugin", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        common = (*plugins, "-rA", "--strict-markers", "--junitxml=junit.xml")
        return pytester.runpytest_subprocess(*common, *options, timeout=120)

    return run


@pytest.fixture
def registry(pytester: pytest.Pytester) -> None:
    """A registry of two issues in place of the one that ships."""
    pytester.makeconftest(CONFTEST)
    (pytester.path / "issues.toml").write_text(ISSUES)


def _cases(pytester: pytest.Pytester) -> dict[str, ET.Element]:
    return {case.attrib["name"]: case for case in ET.parse(pytester.path / "junit.xml").iter("testcase")}


def _outcomes(pytester: pytest.Pytester) -> dict[str, str]:
    """Each test's outcome in the JUnit file; what is known or skipped is `skipped` there."""
    kinds = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return {
        name: next((kinds[child.tag] for child in case if child.tag in kinds), "passed")
        for name, case in _cases(pytester).items()
    }


def test_the_cluster_fixture_has_the_markers_shape(session: Session) -> None:
    """`cluster(...)` gives counts and options; without it, or with an unknown job, the test is an error."""
    result = session(
        """
        import pytest

        @pytest.mark.cluster(worker=2, preload=(), timeout=20)
        def test_two(cluster):
            def body():
                import os
                return os.environ["LOCKSTEP_TASK"]
            assert [task.value for task in cluster.run(body).values()] == ["worker:0", "worker:1"]

        def test_shapeless(cluster):
            pass

        @pytest.mark.cluster(wroker=2)
        def test_typo(cluster):
            pass
        """
    )
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*needs its shape; write @pytest.mark.cluster(worker=2)*", "*wroker*"])


STRATEGIES = """
import pytest

@pytest.mark.strategies("mirrored-2", "multi_worker-2x2:ring", full=("mirrored-4", "mirrored-2"))
def test_each(strategy):
    assert strategy.replicas in (2, 4)

@pytest.mark.full
@pytest.mark.strategies("default")
def test_slow(strategy):
    pass
"""


def test_the_quick_profile_leaves_the_rest_to_the_full_one(session: Session, pytester: pytest.Pytester) -> None:
    """Strategies under `full=` and tests marked `full` run with --profile=full only, each strategy once."""
    session(STRATEGIES).assert_outcomes(passed=2, deselected=2)
    assert list(_outcomes(pytester)) == ["test_each[mirrored-2]", "test_each[multi_worker-2x2:ring]"]
    session(STRATEGIES, "--profile=full").assert_outcomes(passed=4)
    assert set(_outcomes(pytester)) > {"test_each[mirrored-4]", "test_slow[default]"}


NETWORK = """
import socket, pytest
from _lockstep.plugin import required
from simulator import Cluster, Topology

if {why!r}:
    required.why_no_hosts = lambda: {why!r}

@pytest.mark.cluster(worker=2, preload=(), timeout=30)
def test_name(cluster):
    assert cluster.run(socket.gethostname)["worker:1"].value == {name!r}

@pytest.mark.cluster(worker=2, preload=(), network="loopback", timeout=30)
def test_explicit(cluster):
    assert cluster.run(socket.gethostname)["worker:1"].value == socket.gethostname()

@pytest.mark.cluster(preload=(), timeout=30)
def test_one_process_needs_no_host(cluster):
    assert cluster.run(socket.gethostname)["local:0"].value == socket.gethostname()

@pytest.mark.requires(network="namespaces")
def test_hosts(): pass

@pytest.mark.requires(network="loopback")
def test_shared_loopback(): pass
"""


@pytest.mark.full  # in the quick profile test_cli_network.py and test_installed.py have hosts
def test_a_session_can_give_each_task_a_host(session: Session) -> None:
    """With --network=namespaces clusters that name no network get hosts, also under xdist, and the header says so."""
    hosts_or_skip()
    body = NETWORK.format(why="", name="worker-1")
    result = session(body, "--network=namespaces", "-n", "1")
    result.assert_outcomes(passed=4, skipped=1)
    result.stdout.fnmatch_lines(["lockstep: network=namespaces, a host of its own for each task of a cluster"])
    result.stdout.fnmatch_lines(["SKIPPED*needs network=loopback, and this session has network=namespaces"])


@pytest.mark.full
def test_a_machine_without_hosts_says_so(session: Session) -> None:
    """What requires them is skipped with the reason, or fails under --require-hardware; the rest has loopback."""
    body = NETWORK.format(why="needs veth", name=socket.gethostname())
    result = session(body)
    result.assert_outcomes(passed=4, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs network=namespaces, which this machine does not give: needs veth"])
    session(body, "--require-hardware").assert_outcomes(passed=4, errors=1)


def test_a_session_that_cannot_have_hosts_does_not_begin(session: Session, pytester: pytest.Pytester) -> None:
    """The other tier is no substitute: pytest ends with a usage error that names what is missing."""
    pytester.makeconftest("from _lockstep.plugin import required\nrequired.why_no_hosts = lambda: 'needs veth'")
    result = session("def test_nothing(): pass", "--network=namespaces")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--network=namespaces cannot be had on this machine: needs veth; see*doctor*"])


@pytest.mark.full
@pytest.mark.usefixtures("registry")
def test_known_issues_are_strict_both_ways_also_under_xdist(session: Session, pytester: pytest.Pytester) -> None:
    """The exact symptom is xfailed; another failure fails; none fails as fixed upstream; xdist changes nothing."""
    matrices = []
    for options in ((), ("-n", "2")):
        result = session(KNOWN, "--lockstep-out=out", *options)
        result.assert_outcomes(passed=4, failed=7, xfailed=2)
        assert _outcomes(pytester) == KNOWN_OUTCOMES
        result.stdout.fnmatch_lines_random(
            [
                "*fixed upstream? This cell is a known issue (raises: LookupError with 'no shard')*remove the entry.",
                "*This cell is a known issue (raises: *failed in another way:",
                "XFAIL test_sample.py::test_symptom*raises: It raises (https://example.org/1)",
                "XFAIL test_sample.py::test_law?mirrored-2-fit?*breaks: It is wrong (https://example.org/2)",
            ]
        )
        matrices.append(json.loads((pytester.path / "out" / "matrix.json").read_text()))
        assert matrices[-1]["tables"] == [
            {"title": "other", "columns": ["size"], "rows": [["any"]]},
            {"title": "sizes", "columns": ["size", "square"], "rows": [["1", "1"], ["2", "4"]]},
        ]
    serial, parallel = (
        {(cell["row"], cell["strategy"]): cell["outcome"] for cell in found["cells"]} for found in matrices
    )
    assert serial == parallel
    assert matrices[0]["counts"] == matrices[1]["counts"] == {"ok": 1, "skipped": 0, "known": 1, "FAIL": 4}
    assert serial["sample: law[fit]", "mirrored-2"] == "known"


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("marker", "fragment"),
    [
        ('known_issue("typo")', "known_issue('typo') is not in the registry; it holds raises, breaks"),
        ("known_issue()", "known_issue takes ids from the registry"),
    ],
)
def test_a_wrong_known_issue_stops_the_session(marker: str, fragment: str, session: Session) -> None:
    """A typo in an id, or no id at all, is found before anything runs."""
    result = session(f"import pytest\n@pytest.mark.{marker}\ndef test_it(): pass\n")
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    result.assert_outcomes()
    assert fragment in result.stdout.str() + result.stderr.str()


@pytest.mark.full  # without xdist: above
@pytest.mark.usefixtures("registry")
def test_a_wrong_known_issue_is_an_error_of_its_test_under_xdist(session: Session) -> None:
    """A worker cannot stop the session, so the test itself says what is wrong and the others run."""
    marked = "import pytest\n@pytest.mark.known_issue('typo')\ndef test_it(): pass\ndef test_other(): pass\n"
    result = session(marked, "-n", "1")
    result.assert_outcomes(passed=1, errors=1)
    assert "known_issue('typo') is not in the registry; it holds raises, breaks" in result.stdout.str()


MATRIX = """
import pytest
from helpers import fail, verdict

@pytest.mark.strategies("mirrored-2", "multi_worker-2x2:ring", "tpu")
@pytest.mark.parametrize("model", ["cnn"])
def test_model(strategy, model):
    assert verdict(*["loss_matches_reference"] * (strategy.kind == "multi_worker"), ratio=0.125)

def test_without_strategy():
    assert verdict(ratio=0.0)

def test_of_the_project_itself():
    pass
"""


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("mine", "would replace a file: *matrix.json is damaged, or not what Lockstep has written there*"),
        ("test_sample.py/out", "cannot be made: *test_sample.py is no directory*"),
    ],
)
def test_a_matrix_replaces_nothing_but_a_matrix(
    session: Session, pytester: pytest.Pytester, out: str, said: str
) -> None:
    """A usage error before any test runs."""
    pytester.mkdir("mine")
    (mine := pytester.path / "mine" / "matrix.json").write_text("[[1, 0], [0, 1]]")
    result = session("def test_nothing(): pass", f"--lockstep-out={out}")
    assert (result.ret, mine.read_text()) == (pytest.ExitCode.USAGE_ERROR, "[[1, 0], [0, 1]]")
    result.stderr.fnmatch_lines([f"*--lockstep-out={out} {said}"])


def test_the_matrix_is_printed_and_written(
    session: Session, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenarios down, strategies across, reasons below; the same in matrix.json, JUnit properties and GitHub's page."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    result = session(MATRIX, "--lockstep-out=some/where")
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    assert "assert <Verdict program under mirrored-2 is inconsistent>" in result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*lockstep matrix (tensorflow *",
            "*mirrored-2 :ring*tpu",
            "sample: model ?cnn? *ok 0.12*FAIL*skipped*",
            "2 ok, 1 skipped, 0 known, 1 FAIL",
            "FAIL: error[[]loss_matches_reference]: it differs --> program under mirrored-2  [[]multi_worker-2x2:ring]",
            "skipped: needs a TPU, this machine has none  [[]tpu]",
            "written: some/where/matrix.json",
        ]
    )
    written = json.loads((pytester.path / "some/where/matrix.json").read_text())
    assert written["counts"] == {"ok": 2, "skipped": 1, "known": 0, "FAIL": 1}
    assert (written["hardware"], set(written["versions"])) == ("cpu", {"tensorflow", "keras", "tf_keras"})
    assert [cell["strategy"] for cell in written["cells"]] == ["mirrored-2", "multi_worker-2x2:ring", "tpu", ""]
    first = written["cells"][0]
    assert (first["row"], first["ratio"]) == ("sample: model[cnn]", 0.125)
    assert first["test"] == "test_sample.py::test_model[mirrored-2-cnn]"
    assert first["verdicts"][0]["consistent"] is True
    assert _properties(pytester, "test_model[mirrored-2-cnn]") == [first]
    assert "❌ 1 FAIL" in (pytester.path / "summary.md").read_text()
    assert _properties(pytester, "test_model[tpu-cnn]")[0]["outcome"] == "skipped"
    assert _properties(pytester, "test_of_the_project_itself") == []


def _properties(pytester: pytest.Pytester, name: str) -> list[dict[str, Any]]:
    found = [node for node in _cases(pytester)[name].iter("property") if node.attrib["name"] == "lockstep"]
    return [json.loads(node.attrib["value"]) for node in found]


REAL = """
import pytest, threading
from tests.harness import _programs
from harness import verify

@pytest.mark.cluster(worker=1, preload=(), timeout=2)
def test_hang(cluster):
    def wait_for_godot():
        threading.Event().wait()

    cluster.run(wait_for_godot)

@pytest.mark.strategies("mirrored-2")
def test_wrong(strategy):
    assert verify(_programs.exact("copy_off"), strategy, tier="exact")

@pytest.mark.strategies("mirrored-2")
def test_right(strategy):
    assert verify(_programs.exact(), strategy, tier="exact")
"""


@pytest.mark.full
def test_10_a_hang_fails_one_test_and_the_session_goes_on(session: Session, pytester: pytest.Pytester) -> None:
    """The hang fails with its stacks, a wrong program with its whole verdict, and a right one after them passes."""
    result = session(REAL)
    result.assert_outcomes(passed=1, failed=2)
    assert _outcomes(pytester)["test_right[mirrored-2]"] == "passed"
    text = result.stdout.str()
    assert "did not finish within 2 s" in text
    assert "in wait_for_godot" in text
    section = text[text.index("- lockstep verdict -") :]
    for line in ("under mirrored-2: INCONSISTENT (exact tier", "replicas_agree: step 2", "explanation:", "not judged"):
        assert line in section
    result.stdout.fnmatch_lines(["sample: right*ok exact"])


def test_options_are_choices(session: Session) -> None:
    """A typo in an option is a usage error that lists what is accepted."""
    result = session("def test_it(): pass\n", "--profile=fast")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--profile*'fast'*quick*full*"])
