"""The page of all codes of diagnostics: what each means, a wrong program beside the right one, and what is said of it.

What Lockstep says of a wrong program is what its test holds it to, tests/harness/golden/.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from harness.judging.diagnostics.codes import Code, all_codes

_GOLDEN = Path(__file__).resolve().parent.parent.parent / "tests" / "harness" / "golden"
_ELSEWHERE = ("law", "known issue")
"""Kinds that have pages of their own."""


def shown_codes() -> list[Code]:
    """Those that the page has, in its order."""
    codes = [code for code in all_codes().values() if code.kind not in _ELSEWHERE]
    kinds = list(dict.fromkeys(code.kind for code in codes))
    return sorted(codes, key=lambda code: kinds.index(code.kind))


def lines() -> Iterator[str]:
    """The page."""
    yield from ("# Codes of diagnostics", "", "As `lockstep explain CODE` says it. Rules, causes and relations are")
    yield "mistakes; a rule has reproduced the numbers of the run, and a relation is what the values at a line prove."
    for code in shown_codes():
        yield from ("", f"## {code.name}", "", f"{code.says[:1].upper()}{code.says[1:]} ({code.kind}).")
        for text in (code.more, code.cure):
            if text:
                yield from ("", " ".join(text.split()))
        if code.right:
            yield from _example(code)


def _example(code: Code) -> Iterator[str]:
    """The two programs as one, and what is said of the wrong one."""
    interrupted = "" if code.interrupt_at is None else f" and `--interrupt-at {code.interrupt_at}`"
    both = difflib.ndiff(code.program.strip().splitlines(), code.right.strip().splitlines())
    yield from ("", f"Wrong under `{code.strategy}`{interrupted} (-), and right (+):", "", "```diff")
    yield from (line.rstrip() for line in both if not line.startswith("?"))
    yield "```"
    said = (_GOLDEN / f"{code.name}.txt").read_text().rstrip()
    yield from ("", "What is said of it, without its numbers:", "", "```text", *said.splitlines(), "```")
