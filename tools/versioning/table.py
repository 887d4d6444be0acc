"""The tables of docs/versions.md, and whether the registry says the same as what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.judging.known_issues import KnownIssue, registry
from tools.versioning.environments import environments
from tools.versioning.results import Measured, Result

_SHOWN = {"shown": "yes", "gone": "no", "hangs": "hangs", "other": "another error"}
_PACKAGES = ("tensorflow", "keras", "tf_keras", "numpy", "python")


def sections(measured: Measured) -> str:
    """All tables: the environments, the defects in each, those of Keras with the versions between, and the files of
    tests and scenarios that were run.
    """
    tables = (_environments(measured), _defects(measured), _defects_between(measured), _files(measured))
    return "\n\n".join("\n".join(table) for table in tables)


def disagreements(issues: Sequence[KnownIssue], measured: Measured) -> Iterator[str]:
    """Where the registry says that a version is affected and its program does not show it, or the other way round.

    What raises another error, and what had not ended, shows nothing either way.
    """
    for environment, versions in measured.versions.items():
        for issue in issues:
            result = measured.results.get(environment, {}).get(f"upstream/{issue.id}")
            if result is None:
                continue
            affected = all(_holds(versions.get(package), text) for package, text in issue.packages.items())
            if affected and result.outcome != "shown":
                yield f"{environment}: {issue.id} is said to be there, and its program ended as {result.outcome!r}"
            elif not affected and result.outcome == "shown":
                yield f"{environment}: {issue.id} is said not to be there, and its program shows it"


def _holds(version: str | None, specifier: str) -> bool:
    return version is not None and SpecifierSet(specifier).contains(version, prereleases=True)


def _environments(measured: Measured) -> Iterator[str]:
    yield from _head("environment", *_PACKAGES)
    for name in _names(measured):
        yield _row(name, *(measured.versions[name].get(package, "-") for package in _PACKAGES))


def _defects(measured: Measured) -> Iterator[str]:
    names = [name for name in _names(measured) if _of(measured, name, "upstream/") and name not in _between()]
    yield from _head("defect", *names, "in the registry")
    for issue in registry():
        said = ", ".join(f"{package} {text}" for package, text in issue.packages.items())
        yield _row(f"`{issue.id}`", *_shown(measured, issue, names), said)


def _defects_between(measured: Measured) -> Iterator[str]:
    """By Keras, the oldest first; a defect that was run in none of them has no row."""
    names = [name for name in _names(measured) if name in _between()]
    names.sort(key=lambda name: Version(measured.versions[name]["keras"]))
    titles = [f"{measured.versions[name]['keras']}, {measured.versions[name]['tensorflow']}" for name in names]
    yield from _head("defect, with Keras and TensorFlow", *titles, "in the registry")
    for issue in registry():
        cells = _shown(measured, issue, names)
        if any(cell != "not run" for cell in cells):
            yield _row(f"`{issue.id}`", *cells, f"keras {issue.packages['keras']}")


def _names(measured: Measured) -> list[str]:
    """In the order of environments.toml, in whatever order they were measured; what is no longer there comes last."""
    order = {each.name: number for number, each in enumerate(environments())}
    return sorted(measured.versions, key=lambda name: order.get(name, len(order)))


def _between() -> set[str]:
    return {each.name for each in environments() if each.between}


def _shown(measured: Measured, issue: KnownIssue, names: Sequence[str]) -> list[str]:
    found = [measured.results.get(name, {}).get(f"upstream/{issue.id}") for name in names]
    return ["not run" if each is None else _SHOWN[each.outcome] for each in found]


def _files(measured: Measured) -> Iterator[str]:
    names = [name for name in _names(measured) if _of(measured, name, "tests/", "scenarios/")]
    files = sorted({file for name in names for file in _of(measured, name, "tests/", "scenarios/")})
    yield from _head("file", *names)
    for file in files:
        yield _row(f"`{file}`", *(_counted(measured.results[name].get(file)) for name in names))


def _counted(result: Result | None) -> str:
    if result is None:
        return "not run"
    counts = ", ".join(f"{number} {name}" for name, number in sorted(result.counts.items()))
    return counts or ("no tests" if result.outcome == "passed" else result.outcome)


def _of(measured: Measured, environment: str, *prefixes: str) -> list[str]:
    return [name for name in measured.results.get(environment, {}) if name.startswith(prefixes)]


def _head(*cells: str) -> Iterator[str]:
    yield _row(*cells)
    yield _row(*("---" for _ in cells))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
