"""JUnit's XML, which most systems of continuous integration read: a test case for each verification."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from harness.judging.diagnostics.codes import FAILED, LACKING
from harness.judging.diagnostics.formats.protocol import ReportedVerdict, message
from harness.judging.diagnostics.protocol import Diagnostic


class _JUnit:
    def written(self, reported: Sequence[ReportedVerdict]) -> str:
        found = [each.diagnostic for each in reported if each.diagnostic is not None]
        failures = sum(map(_is_wrong, found))
        suite = ET.Element(
            "testsuite",
            name="lockstep verify",
            tests=str(len(reported)),
            failures=str(failures),
            # What was not judged has not passed, nor has what failed.
            errors=str(len(found) - failures),
            time=f"{sum(each.seconds for each in reported):.3f}",
        )
        for each in reported:
            told, named = each.diagnostic, {"classname": _plain(_name(each)), "name": _plain(each.strategy)}
            case = ET.SubElement(suite, "testcase", named, time=f"{each.seconds:.3f}")
            if told is not None:
                kind = "failure" if _is_wrong(told) else "error"
                ET.SubElement(case, kind, type=told.code, message=_plain(told.head)).text = _plain(message(told))
        suites = ET.Element("testsuites")
        suites.append(suite)
        ET.indent(suites)
        return ET.tostring(suites, encoding="unicode", xml_declaration=True)


def _is_wrong(found: Diagnostic) -> bool:
    """Whether numbers are: of what failed none were judged."""
    return found.severity == "error" and found.code not in (FAILED, LACKING)


def _name(each: ReportedVerdict) -> str:
    """The program with its folder, by which those of two folders are told apart."""
    _, colon, function = each.program.rpartition(":")
    return f"{each.file}:{function}" if colon else each.file


def _plain(text: str) -> str:
    """Without characters that XML 1.0 has no way to write."""
    return "".join(
        each
        for each in text
        if each in "\t\n" or " " <= each < "\ud800" or "\ue000" <= each < "\ufffe" or each > "\uffff"
    )


FORMAT = _JUnit()
