"""Workflows and actions for GitHub: they may do little, run what is pinned, and quote what comes from outside."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests._installed import MODULE, PACKAGES, ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; make venv installs it")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# What other people's jobs run; the example of a project is one of these.
ACTIONS = (ROOT / "action.yml", ROOT / "examples" / "downstream" / ".github" / "workflows" / "lockstep.yml")
# What a job may do besides reading the repository; all else reads at most.
MAY: dict[tuple[str, str], set[str]] = {
    ("docs.yml", "publish"): {"pages", "id-token"},
    ("release.yml", "release"): {"contents", "id-token", "attestations"},
    ("release.yml", "publish"): {"id-token"},
}
TRIGGERS = {"push", "pull_request", "schedule"}
_PINNED = re.compile(r"uses: (?P<action>[\w.-]+/[\w./-]+)@(?P<hash>[0-9a-f]{40}) # (?P<version>v\d+\.\d+\.\d+)$")


def _read(path: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text())
    return found


def _wrong(name: str, text: str) -> list[str]:
    """What a workflow does against the rules."""
    workflow = yaml.safe_load(text)
    # For YAML 1.1 the key `on` is a truth value.
    wrong = [f"is started by {each}" for each in workflow[True] if each not in TRIGGERS]
    if workflow.get("permissions") != {}:
        wrong.append("its jobs have permissions by default")
    for key, job in workflow["jobs"].items():
        granted = job.get("permissions", {})
        writes = (
            {scope for scope, access in granted.items() if access != "read"} if isinstance(granted, dict) else {"*"}
        )
        if writes != MAY.get((name, key), set()):
            wrong.append(f"{key} may write {sorted(writes)}")
        if "timeout-minutes" not in job:
            wrong.append(f"{key} has no limit of time")
        wrong += [f"{key}: {each}" for each in _wrong_steps(job["steps"])]
    return wrong + _unpinned(text)


def _wrong_steps(steps: list[dict[str, Any]]) -> Iterator[str]:
    for step in steps:
        if "${{" in step.get("run", ""):
            yield f"a value is pasted into a command: {step['run']}"
        if step.get("uses", "").startswith("actions/checkout@") and step["with"]["persist-credentials"] is not False:
            yield "the checkout keeps credentials"


def _unpinned(text: str) -> list[str]:
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()]
    return [f"not pinned: {line}" for line in lines if line.startswith("uses:") and not _PINNED.match(line)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_keeps_to_the_rules(path: Path) -> None:
    """No permission by default and few per job, hashes instead of tags, and no value pasted into a shell."""
    assert _wrong(path.name, path.read_text()) == []


def test_what_is_against_the_rules_is_found() -> None:
    """Each rule finds its contrary."""
    right = (ROOT / ".github" / "workflows" / "docs.yml").read_text()
    for old, new, says in (
        ("permissions: {}\n", "", "by default"),
        ("permissions: {}\n", "permissions: write-all\n", "by default"),
        ("contents: read", "contents: write", "may write ['contents']"),
        ("  pull_request:\n", "  pull_request_target:\n", "pull_request_target"),
        ("run: make site PYTHON=python", "run: make ${{ github.head_ref }}", "pasted"),
        ("persist-credentials: false", "persist-credentials: true", "credentials"),
        ("    timeout-minutes: 10\n", "", "limit of time"),
        ("@cd2ce8fcbc39b97be8ca5fce6e763baed58fa128 # v5.0.0", "@v5", "not pinned"),
    ):
        assert old in right
        found = _wrong("docs.yml", right.replace(old, new))
        assert len(found) == 1, (new, found)
        assert says in found[0]


def test_the_action_is_pinned_too() -> None:
    """What it uses in other people's jobs is what has been looked at."""
    assert _unpinned(ACTIONS[0].read_text()) == []


def test_an_action_has_the_same_hash_everywhere() -> None:
    """Whoever raises a version raises it in all files."""
    found: dict[str, set[tuple[str, str]]] = {}
    for path in (*WORKFLOWS, *ACTIONS):
        for match in re.finditer(_PINNED.pattern, path.read_text(), re.MULTILINE):
            found.setdefault(match["action"], set()).add((match["hash"], match["version"]))
    assert len(found) > 5
    assert {action: pins for action, pins in found.items() if len(pins) > 1} == {}


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_an_issue_asks_for_what_shows_it(path: Path) -> None:
    """The machine as doctor sees it, and a saved run, without which nobody can send it."""
    asked = {each["id"]: each for each in _read(path)["body"]}
    assert "`lockstep doctor --json`" in asked["doctor"]["attributes"]["description"]
    assert "`--out DIR`" in asked["run"]["attributes"]["description"]
    assert all(each["validations"]["required"] for each in asked.values())


def test_the_container_is_built_from_what_there_is() -> None:
    """All that a build needs is copied, and no more."""
    copied = re.findall(r"^COPY ((?!--).*) \S+$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    needed = {*PACKAGES, MODULE, "pyproject.toml", "README.md", "LICENSE"}
    assert {name for names in copied for name in names.split()} == needed


def test_workflows_run_what_there_is() -> None:
    """Targets of the Makefile, and tools of this repository."""
    commands = "\n".join(path.read_text() for path in WORKFLOWS)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z]+)", commands)) | {"test", "scenarios"} <= targets
    tools = set(re.findall(r"python (tools/\w+\.py)", commands))
    assert len(tools) > 2
    assert [tool for tool in tools if not (ROOT / tool).exists()] == []


@pytest.mark.full  # needs zizmor, of the extra `release`
def test_zizmor_finds_nothing() -> None:
    """The linter for the security of workflows, without a network."""
    zizmor = shutil.which("zizmor") or pytest.skip("zizmor is not installed; make dist installs it")
    done = subprocess.run(
        [zizmor, "--offline", "."], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
