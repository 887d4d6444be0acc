"""The text of an issue, ready to be filed: what is wrong, the program that shows it, what came and what should have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from harness.judging.known_issues import KnownIssue
from tools.upstreaming.observed import FOLDER, Observed, about
from tools.upstreaming.proposed import Tried, fix_of, own_tests

_REPOSITORIES = {"keras": "keras-team/keras", "tf_keras": "keras-team/tf-keras", "tensorflow": "tensorflow/tensorflow"}
_AS_ALONE = "No error: the same program runs with one replica, or without a strategy."


def path_of(name: str) -> Path:
    """Where the text of a defect stands: beside its program."""
    return FOLDER / f"{name}.md"


def repository(issue: KnownIssue) -> str:
    """Where it is to be filed, by the source that its reference begins with."""
    if found := re.match(r"https://github\.com/([\w-]+/[\w-]+)/", issue.reference):
        return found[1]
    return _REPOSITORIES[issue.reference.partition("/")[0]]


def text_of(issue: KnownIssue, seen: Observed, tried: Tried | None = None) -> str:
    """The whole text, as Markdown; with the proposed change, if one was tried."""
    source = (FOLDER / f"{issue.id}.py").read_text()
    tree = ast.parse(source)
    program = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip("\n")
    observed, expected = _told(issue, seen, about().get(issue.id, {}).get("expected", ""))
    packages = ", ".join(f"{name} {number}" for name, number in seen.packages.items())
    return "\n".join([
        f"# {issue.summary}",
        "",
        f"For {repository(issue)}. Written by `python tools/upstream.py` from [{issue.id}.py]({issue.id}.py) and its",
        "entry among the [known issues](../known-issues.md).",
        "",
        "## What happens",
        "",
        *(ast.get_docstring(tree) or "").splitlines(),
        "",
        f"**Versions.** {packages}; Python {seen.python}, Linux, CPU devices. Affected, as far as it is known:",
        f"{', '.join(f'{name} {specifier}' for name, specifier in issue.packages.items())}.",
        "",
        "## Program",
        "",
        "```python",
        program,
        "```",
        "",
        "## Observed",
        "",
        "```text",
        *observed,
        "```",
        "",
        "## Expected",
        "",
        *expected,
        "",
        "## Cause",
        "",
        *_cause(issue),
        "",
        "## Until it is mended",
        "",
        *_cure(issue),
        "",
        *(_proposed(issue, tried) if tried else []),
    ])  # fmt: skip


def _told(issue: KnownIssue, seen: Observed, expected: str) -> tuple[list[str], list[str]]:
    """What came, and what is right: as the program says it, else as is said here."""
    came, right = [], []
    for line in seen.lines:
        wrong, says, after = line.partition("right:")
        if not says:
            came.append(_plain(line))
            continue
        if wrong.strip():
            came.append(_plain(wrong))
        right.append(after.strip())
    if seen.raised:
        came.append(seen.raised)
    if seen.hung:
        came.append("(still there after five minutes)")
    if right:
        return came, ["```text", *dict.fromkeys(right), "```", *([expected] if expected else [])]
    return came, [expected or (_AS_ALONE if issue.symptom.exception else "")]


def _plain(line: str) -> str:
    return line.removeprefix("wrong:").strip().rstrip(",")


def _cause(issue: KnownIssue) -> list[str]:
    if issue.reference.startswith("https://"):
        said = [f"It is reported already: <{issue.reference}>. This is a smaller program that shows it today."]
    else:
        said = [f"{issue.reference}, in the versions above."]
    return [*said, *(["", f"See also {', '.join(f'<{each}>' for each in issue.threads)}."] if issue.threads else [])]


def _cure(issue: KnownIssue) -> list[str]:
    """What to do today, and the same program made right."""
    said = f"{issue.way_out[0].upper()}{issue.way_out[1:]}."
    if issue.cured_by != "program":
        return [said]
    return [said, "", *_shown(issue.cured_program())]


def _shown(source: str) -> list[str]:
    """A program: what it says of itself, and its code."""
    tree = ast.parse(source)
    said, rest = ast.get_docstring(tree) or "", source.splitlines()[tree.body[0].end_lineno :]
    return [*said.splitlines(), "", "```python", "\n".join(rest).strip("\n"), "```"]


def _proposed(issue: KnownIssue, tried: Tried) -> list[str]:
    """What to change in the package, in words and as a patch of the process, and what came of it."""
    came = [*tried.seen.lines, *([tried.seen.raised] if tried.seen.raised else [])]
    return [
        "## Proposed change",
        "",
        *_shown(fix_of(issue.id).read_text()),
        "",
        f"**Tried.** After [{issue.id}.fix.py]({issue.id}.fix.py), in the same process, the program above prints:",
        "",
        "```text",
        *came,
        "```",
        "",
        *_tests(issue.id, tried),
    ]


def _tests(name: str, tried: Tried) -> list[str]:
    """The package's own tests of the module, before and after."""
    if tried.before is None or tried.after is None:
        return []
    files = ", ".join(f"`{each}`" for each in own_tests(name))
    new = [each for each in tried.after.failed if each not in tried.before.failed]
    rows = [
        f"| {when} | {each.passed} | {len(each.failed)} |"
        for when, each in (("without the change", tried.before), ("with it", tried.after))
    ]
    return [
        f"The package's own tests of the module ({files}):",
        "",
        "| run | passed | failed |",
        "| --- | --- | --- |",
        *rows,
        "",
        *([f"Failed with the change alone: {', '.join(new)}.", ""] if new else []),
    ]
