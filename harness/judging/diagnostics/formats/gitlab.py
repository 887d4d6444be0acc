"""A report of code quality, which GitLab shows in a merge request."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.judging.diagnostics.formats.protocol import ReportedVerdict, fingerprint, in_repository

_SEVERITIES = {"error": "critical", "warning": "minor"}


class _GitLab:
    def written(self, reported: Sequence[ReportedVerdict]) -> str:
        found = [(each.diagnostic, each.file) for each in reported if each.diagnostic is not None]
        issues = [
            {
                "description": each.title,
                "check_name": each.code,
                "fingerprint": fingerprint(each),
                "severity": _SEVERITIES[each.severity],
                # GitLab needs a place: of what has none it is the program.
                "location": {
                    "path": in_repository(file if each.label is None else each.label.path[0]),
                    "lines": {"begin": 1 if each.label is None else each.label.path[1]},
                },
            }
            for each, file in found
        ]
        return msgspec.json.format(msgspec.json.encode(issues)).decode()


FORMAT = _GitLab()
