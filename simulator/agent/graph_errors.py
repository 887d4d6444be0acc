"""What TensorFlow says of an error in a graph, with the sentence first and the program's own line, and no frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from simulator.agent.places import place

_FRAME = re.compile(r'^(?P<indent>  (  )?)File "(?P<file>[^"]+)", line (?P<line>\d+), in .*$')
_NODE = re.compile(r"^Detected at node (?P<node>\S+) defined at")
_FOREIGN = ("/site-packages/", "/dist-packages/")
_STARTING = ("/multiprocess/",)
_SEVERAL = re.compile(r"\d+ root error\(s\) found\.")
_NUMBERED = re.compile(r"^\(\d+\) [A-Z_]+:\s+")
_OWN = tuple(f"{Path(__file__).parents[2] / name}/" for name in ("simulator", "harness", "_lockstep"))


def readable(text: str, own: Sequence[str] = _OWN) -> str:
    """The text of an error; of one in a graph, which begins with frames, what is wrong and where.

    Args:
        text: of the error.
        own: folders whose frames are not the program's, each with a slash at its end.
    """
    lines = text.splitlines()
    nodes = [found["node"] for line in lines if (found := _NODE.match(line))]
    if not nodes:
        return text
    frames = [found for line in lines if (found := _FRAME.match(line))]
    last = max((number for number, line in enumerate(lines) if _FRAME.match(line)), default=0)
    theirs = [found for found in frames if _is_program(found["file"], own)]
    said = [line.strip() for line in lines[last + 1 :] if line.strip() and not line.strip().startswith("[[")]
    if len(said) > 1 and _SEVERAL.fullmatch(said[0]):
        said = [_NUMBERED.sub("", said[1])]  # the others say the same of other nodes
    at = f", {place(Path(theirs[-1]['file']).name, int(theirs[-1]['line']))}" if theirs else ""
    sentence = "\n".join(said) or lines[0]
    first, _, rest = sentence.partition("\n")
    return f"{first} ({nodes[0]}{at})" + (f"\n{rest}" if rest else "")


def without_own(text: str, own: Sequence[str] = _OWN) -> str:
    """The text without the frames that are in these folders, nor those by which a process begins.

    Those of a graph are a line with an empty one after it. Those of AutoGraph ("in user code:") stand deeper, and have
    a line of source below.
    """
    kept: list[str] = []
    source = ""
    for line in text.splitlines():
        if source and line.startswith(source):
            source = ""
            continue
        source = ""
        found = _FRAME.match(line)
        if found and (found["file"].startswith(("<", *own)) or any(each in found["file"] for each in _STARTING)):
            source = f"{found['indent']}    "
            continue
        if line.strip() or (kept and kept[-1].strip()):  # of a frame that has gone the empty line too
            kept.append(line)
    return "\n".join(kept)


def _is_program(file: str, own: Sequence[str]) -> bool:
    return not (file.startswith(("<", *own)) or any(each in file for each in _FOREIGN))
