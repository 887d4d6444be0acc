"""The line of Python that first makes of right values what does not mean what one device has.

What is laid out wrongly over the mesh is followed back: through the names that its statement reads, to the statements
that bound them, and into the functions that were called there.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from harness.evidence.bindings import ARGUMENT, CONSTANT, ENTRY, GRAPH, NAME, RETURN, Bindings, Bound
from harness.evidence.watched_step import Frame
from harness.judging.culprit.kinds import NUMBER, TIMES, UNLIKE
from harness.judging.culprit.parts_by_hand import RIGHT, WRONG, Meaning, meant
from harness.judging.culprit.protocol import Culprit, NoCulprit
from simulator.agent.places import source_at

_WITHIN = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")
"""Functions that stand within a statement of another one, whose names they read."""

_Key = tuple[int, tuple[Frame, ...], str, str]


def made_by_hand(clients: Sequence[Bindings], reference: Bindings, axes: tuple[int, int]) -> Culprit | NoCulprit:
    """The line, or why none is named.

    Args:
        clients: what each client has bound until the end of the first wrong step.
        reference: what one device has bound.
        axes: how many devices the mesh has along each of its axes.
    """
    if not all(each.whole for each in (*clients, reference)):
        return NoCulprit("the program binds more values than there is room for")
    found = _ByHand(clients[0], _meanings(clients, reference, axes))
    bound = clients[0].bound
    on_mesh = [place for place, meaning in found.meanings.items() if bound[place].shards and RIGHT not in meaning]
    if on_mesh:
        source = found.source(on_mesh[0])
        if source is None:
            return NoCulprit("what is wrong first was made of values that one device has not, or not by one line")
        if not found.is_of_graph(source):
            return found.culprit(source)
    numbers = [place for place, meaning in found.meanings.items() if not (meaning or bound[place].parts[0].shape)]
    sources = [source for place in numbers if not bound[place].shards and (source := found.source(place)) is not None]
    lines = {found.line(source)[1]: source for source in sources}
    lines = lines or {found.line(place)[1]: place for place in _otherwise(clients[0], reference)}
    if len(lines) == 1:
        return found.culprit(next(iter(lines.values())))
    return NoCulprit("no line outside of a graph was seen to make a wrong value of right ones")


def _meanings(clients: Sequence[Bindings], reference: Bindings, axes: tuple[int, int]) -> dict[int, Meaning]:
    """What each value of the first client means, together with those of the others, where that is known."""
    ours = [_by_key(client) for client in clients]
    theirs = _by_key(reference)
    names = _in_the_end(clients[0]), _in_the_end(reference)
    found: dict[int, Meaning] = {}
    for key, places in ours[0].items():
        known = theirs.get(key) or _known_in_the_end(key, [clients[0].bound[place].call for place in places], *names)
        if key[2] == CONSTANT or not known or len(places) % len(known):
            continue
        if any(len(each.get(key, ())) != len(places) for each in ours):
            continue
        size = len(places) // len(known)
        for number, at in enumerate(known):
            these = slice(number * size, (number + 1) * size)
            groups = [
                [client.bound[place] for place in each[key][these]] for client, each in zip(clients, ours, strict=True)
            ]
            meaning = meant(groups, reference.bound[at], axes)
            if meaning is not None:
                found.update(dict.fromkeys(places[these], meaning))
    return dict(sorted(found.items()))


_Names = dict[_Key, dict[int, int]]
"""Of each name the place of the last value that it is bound to, by the number of the call."""


def _in_the_end(client: Bindings) -> _Names:
    found: _Names = defaultdict(dict)
    for key, places in _by_key(client).items():
        if (name := _name_of(key)) is None:
            continue
        for place in places:
            call = client.bound[place].call
            found[name][call] = max(place, found[name].get(call, 0))
    return {name: dict(sorted(calls.items())) for name, calls in found.items()}


def _known_in_the_end(key: _Key, calls: Sequence[int], ours: _Names, theirs: _Names) -> list[int]:
    """What one device's name holds in the end, for a line that it does not pass, such as a loop over the others."""
    name = _name_of(key)
    if name is None or name not in theirs or len(ours[name]) != len(theirs[name]):
        return []
    by_call = dict(zip(ours[name], theirs[name].values(), strict=True))
    return [by_call[call] for call in calls]


def _name_of(key: _Key) -> _Key | None:
    """A name in a call, wherever it is bound there."""
    step, lines, kind, name = key
    return (step, (*lines[:-1], msgspec.structs.replace(lines[-1], line=0)), kind, name) if kind == NAME else None


def _otherwise(client: Bindings, reference: Bindings) -> Iterator[int]:
    """Numbers of a graph that are others in that of one device."""
    ours, theirs = _by_key(client), _by_key(reference)
    for key, places in ours.items():
        if key[2] == CONSTANT and len(places) == len(others := theirs.get(key, ())):
            pairs = zip(places, others, strict=True)
            yield from (at for at, other in pairs if client.bound[at].parts != reference.bound[other].parts)


def _by_key(client: Bindings) -> dict[_Key, list[int]]:
    found: dict[_Key, list[int]] = defaultdict(list)
    for place, bound in enumerate(client.bound):
        lines = tuple(client.frames[number] for number in bound.lines)
        found[bound.step, lines, bound.kind, bound.name].append(place)
    return found


class _ByHand:
    """What one client has bound, and what that means.

    Attributes:
        meanings: of values by their places, in their order.
    """

    def __init__(self, client: Bindings, meanings: dict[int, Meaning]) -> None:
        self.meanings = meanings
        self._client = client
        self._in_call: dict[int, list[int]] = defaultdict(list)
        self._given_to: dict[int, list[int]] = defaultdict(list)
        self._within: dict[int, tuple[int, str]] = {}
        for place, bound in enumerate(client.bound):
            (self._given_to[bound.within] if bound.kind == RETURN else self._in_call[bound.call]).append(place)
            self._within[bound.call] = bound.within, client.frames[bound.lines[-1]].function

    def source(self, place: int) -> int | None:
        """The first value that is surely bad, each made of the one before, of which this one comes.

        What may mean the right thing as well as the bad one is passed by. None where that is not known: a statement
        reads what nothing is known of, or changes a bad value on.
        """
        like, seen, found = self.meanings[place], {place}, place
        while True:
            new = [each for each in self._inputs(place) if each not in seen]
            meanings = {each: self.meanings[each] for each in new if each in self.meanings}
            bad = [each for each, meaning in meanings.items() if RIGHT not in meaning and (like or not meaning)]
            maybe = [each for each, meaning in meanings.items() if meaning & like]
            if not bad and not maybe:
                unknown = (self._client.bound[each] for each in self._inputs(found) if each not in self.meanings)
                return None if any(map(_is_told, unknown)) else found
            before, place = place, max(bad or maybe)
            if bad and self._is_changed(before, place):
                return None
            found = place if bad else found
            seen.add(place)

    def _is_changed(self, after: int, before: int) -> bool:
        """Whether a statement binds a name to what it makes of the same name."""
        ours, theirs = self._client.bound[after], self._client.bound[before]
        return (ours.kind, ours.name, ours.call) == (theirs.kind, theirs.name, theirs.call) and ours.kind == NAME

    def _inputs(self, place: int) -> Iterator[int]:
        """What the statement that made a value has read, and what functions have given back to it."""
        call, lines = self._made(place)
        frame = self._frame(lines)
        statement = statement_at(frame.file, frame.line)
        for name in statement.names:
            yield from self._named(name, call, place)
        for each in self._given_to[call]:
            at = self._frame(self._client.bound[each].lines[:-1])
            if each < place and at.file == statement.file and statement.first <= at.line <= statement.last:
                yield each

    def _named(self, name: str, call: int, before: int) -> Iterator[int]:
        """What a name was bound to last, in a call of a function or around it."""
        while call in self._within:
            this = self._client.bound[before]
            earlier = (each for each in self._in_call[call] if each < before and self._name(each) == name)
            others = (each for each in earlier if self._client.bound[each].kind != ENTRY)
            # In a loop over devices a line adds to a list what it has added to before.
            bound = [each for each in others if not _is_again(self._client.bound[each], this)]
            if bound:  # of a container each entry, that of a dictionary by itself
                yield from {self._client.bound[each].name: each for each in bound}.values()
                return
            call, function = self._within[call]
            if function not in _WITHIN:
                return

    def _name(self, place: int) -> str:
        bound = self._client.bound[place]
        return bound.name.partition("[")[0]

    def _made(self, place: int) -> tuple[int, tuple[int, ...]]:
        """In which call a value was made, and the lines that lead there: an argument is made by who calls."""
        bound = self._client.bound[place]
        return (bound.within, bound.lines[:-1]) if bound.kind == ARGUMENT else (bound.call, bound.lines)

    def _frame(self, lines: Sequence[int]) -> Frame:
        return self._client.frames[lines[-1]] if lines else Frame("", 0, "")

    def line(self, place: int) -> tuple[Frame, Statement]:
        """The line that made a value; of a function that makes right ones for others, the line that calls it."""
        lines = self._made(place)[1]
        bound = self._client.bound[place]
        same = (
            self._made(other)[1]
            for other, each in enumerate(self._client.bound)
            if (each.kind, each.name) == (bound.kind, bound.name) and RIGHT in self.meanings.get(other, WRONG)
        )
        if len(lines) > 1 and any(others[-1:] == lines[-1:] and others != lines for others in same):
            lines = lines[:-1]
        frame = self._frame(lines)
        return frame, statement_at(frame.file, frame.line)

    def is_of_graph(self, place: int) -> bool:
        """Whether the statement that made a value has called a graph, in which nothing is watched."""
        call, _ = self._made(place)
        statement = self.line(place)[1]
        graphs = (self._client.bound[each] for each in self._in_call[call] if self._name(each) == GRAPH)
        own = (self._frame(each.lines) for each in graphs)
        return any(at.file == statement.file and statement.first <= at.line <= statement.last for at in own)

    def culprit(self, place: int) -> Culprit | NoCulprit:
        """What there is to say of the line that made a value."""
        bound = self._client.bound[place]
        frame, _ = self.line(place)
        if not frame.file:
            return NoCulprit("what is wrong first was made outside of the program")
        meaning = self.meanings.get(place)
        if meaning is None:
            kind, number = NUMBER, bound.parts[0].numpy()
            relation = f"{number} is built into the graph, and another number on one device"
        else:
            kind = TIMES if meaning else UNLIKE
            times = f"{min(meaning):g} times" if meaning else "something else than"
            relation = f"the devices together get {times} what one device has"
        right = (each for each in self._inputs(place) if RIGHT in self.meanings.get(each, WRONG))
        read = sorted({self._name(each) for each in right} - {""})
        return Culprit(
            file=_shown(frame.file),
            line=frame.line,
            source=source_at(frame.file, frame.line),
            op=bound.name if bound.kind == ENTRY else "Python",
            layer=None,
            relation=relation,
            expected="expected values that mean the same on one device",
            inputs=tuple(f"{name!r} is right" for name in read),
            step=bound.step,
            kind=kind.code,
        )


def _is_again(one: Bound, other: Bound) -> bool:
    return (one.kind, one.name, one.lines) == (other.kind, other.name, other.lines)


def _is_told(bound: Bound) -> bool:
    """Whether something is wanted to be known of a value: not of counts."""
    return bound.kind != ENTRY and (bound.hidden or any(part.is_floating or len(part.shape) for part in bound.parts))


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


# ---------------------------------------------------------------------- statements and the names that they read


@dataclass(frozen=True)
class Statement:
    """A statement, of one that holds others only its head.

    Attributes:
        file: which has it.
        first: its first line.
        last: its last line.
        names: what it reads.
    """

    file: str
    first: int
    last: int
    names: frozenset[str] = frozenset()


def statement_at(file: str, line: int) -> Statement:
    """The innermost statement at a line; where the file cannot be read, the line with no names."""
    around = [node for node in _statements(file) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if not around:
        return Statement(file, line, line)
    node = max(around, key=lambda each: each.lineno)
    heads = [head for name in ("iter", "test", "items", "subject") for head in _listed(getattr(node, name, None))]
    if not hasattr(node, "body"):
        return Statement(file, node.lineno, node.end_lineno or node.lineno, _names([node]))
    return Statement(file, line, line, _names(heads))


def _listed(value: object) -> list[ast.AST]:
    several = value if isinstance(value, list) else [value]
    return [each for each in several if isinstance(each, ast.AST)]


def _names(nodes: list[ast.AST]) -> frozenset[str]:
    added = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    every = (each for node in nodes for each in ast.walk(node))
    read = (each for each in every if isinstance(each, ast.Name) and (isinstance(each.ctx, ast.Load) or each in added))
    return frozenset(each.id for each in read)


@cache
def _statements(file: str) -> tuple[ast.stmt, ...]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))
