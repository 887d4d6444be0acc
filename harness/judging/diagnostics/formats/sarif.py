"""SARIF 2.1.0, the OASIS standard for results of analyses, which code scanning reads.

The specification is at https://docs.oasis-open.org/sarif/sarif/v2.1.0/; lines and columns count from 1, and the column
that ends a region is behind its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from _lockstep import __version__
from harness.judging.diagnostics.codes import all_codes
from harness.judging.diagnostics.formats.protocol import ReportedVerdict, fingerprint, in_repository, message
from harness.judging.diagnostics.protocol import Diagnostic, Label

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class _Sarif:
    def written(self, reported: Sequence[ReportedVerdict]) -> str:
        both = [(each.diagnostic, each.file) for each in reported if each.diagnostic is not None]
        found = [diagnostic for diagnostic, _ in both]
        known = all_codes()
        codes = {each.code: known[each.code].says if each.code in known else each.title for each in found}
        driver: dict[str, Any] = {
            "name": "lockstep",
            "version": __version__,
            "rules": [{"id": code, "shortDescription": {"text": codes[code]}} for code in sorted(codes)],
        }
        run = {
            "tool": {"driver": driver},
            "columnKind": "unicodeCodePoints",
            "results": [_result(*each) for each in both],
        }
        log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
        return msgspec.json.format(msgspec.json.encode(log)).decode()


def _result(found: Diagnostic, file: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.code,
        "level": found.severity,
        "message": {"text": message(found)},
        "partialFingerprints": {"lockstep/v1": fingerprint(found)},
    }
    # Who reads it shows no result without a place: of what has no line it is the program.
    label = found.label or Label(file, 1, "", 0, 0, "", exact=False)
    result["locations"] = [_location(label)]
    if found.others:
        others = [{"id": number, **_location(each)} for number, each in enumerate(found.others, start=1)]
        result["relatedLocations"] = [
            {**place, "message": {"text": each.text}} for place, each in zip(others, found.others, strict=True)
        ]
    return result


def _location(label: Label) -> dict[str, Any]:
    file, line = label.path
    region: dict[str, Any] = {"startLine": line}
    if label.source:
        region["snippet"] = {"text": label.source}
    if label.exact:
        region |= {"startColumn": label.begin + 1, "endColumn": label.end + 1}
    path = PurePath(in_repository(file))
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


FORMAT = _Sarif()
