"""Commands of GitHub Actions, which show a diagnostic at its line in a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from harness.judging.diagnostics.formats.protocol import ReportedVerdict, in_repository, message
from harness.judging.diagnostics.protocol import Diagnostic


class _GitHub:
    def written(self, reported: Sequence[ReportedVerdict]) -> str:
        return "\n".join(_command(each.diagnostic) for each in reported if each.diagnostic is not None)


def _command(found: Diagnostic) -> str:
    """`::error file=train.py,line=19,...::message`; what is text in it is escaped as GitHub's own toolkit does."""
    given = {"title": f"lockstep: {found.code}"}
    if (label := found.label) is not None:
        file, line = label.path
        given = {"file": in_repository(file), "line": str(line), "endLine": str(line), **given}
        if label.exact:
            given |= {"col": str(label.begin + 1), "endColumn": str(label.end)}
    properties = ",".join(f"{key}={_property(value)}" for key, value in given.items())
    return f"::{found.severity} {properties}::{_data(message(found))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMAT = _GitHub()
