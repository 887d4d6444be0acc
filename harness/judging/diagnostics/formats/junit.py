"""JUnit's XML, which most systems of continuous integration read: a test case for each verification."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from harness.judging.diagnostics.formats.protocol import Reported, message

__all__ = ["FORMAT"]


class _JUnit:
    def written(self, reported: Sequence[Reported]) -> str:
        found = [each.diagnostic for each in reported if each.diagnostic is not None]
        failures = sum(each.severity == "error" for each in found)
        suite = ET.Element(
            "testsuite",
            name="lockstep verify",
            tests=str(len(reported)),
            failures=str(failures),
            # What was not judged has not passed.
            errors=str(len(found) - failures),
            time=f"{sum(each.seconds for each in reported):.3f}",
        )
        for each in reported:
            case = ET.SubElement(
                suite, "testcase", classname=each.program, name=each.strategy, time=f"{each.seconds:.3f}"
            )
            if (told := each.diagnostic) is not None:
                kind = "failure" if told.severity == "error" else "error"
                ET.SubElement(case, kind, type=told.code, message=told.head).text = _plain(message(told))
        suites = ET.Element("testsuites")
        suites.append(suite)
        ET.indent(suites)
        return ET.tostring(suites, encoding="unicode", xml_declaration=True)


def _plain(text: str) -> str:
    """Without characters that XML 1.0 has no way to write."""
    return "".join(each for each in text if each in "\t\n" or each >= " ")


FORMAT = _JUnit()
