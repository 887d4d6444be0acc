"""What a file of the code says to people: its docstrings."""

from __future__ import annotations

import inspect
import re
from types import ModuleType


def opening(module: ModuleType) -> str:
    """The first line of a module's docstring, without `Law:` and the like, as a sentence."""
    line = (inspect.getdoc(module) or "").partition("\n")[0]
    kind, colon, rest = line.partition(": ")
    text = (rest if colon and " " not in kind else line).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def paragraphs(documented: object) -> str:
    """A docstring without its first line, with its attributes as a list."""
    text = (inspect.getdoc(documented) or "").partition("\n")[2].strip()
    text = re.sub(r"^(Attributes|Args):$\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"^ {8}", "  ", text, flags=re.MULTILINE)
