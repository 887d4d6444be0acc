"""From traced steps to a proof: every variable and every reported value has to be what it is on one device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import msgspec

from harness.evidence.step_graph import Argument, GraphNode, StepGraph
from harness.relations.common_length import cut_to_shortest
from harness.relations.culprit import guilty_operation, is_gradient, meaning
from harness.relations.facts import Fact, FactKind, ProofCondition
from harness.relations.proof import Proof, SourcePlace, Suspect, Under
from harness.relations.protocol import World
from harness.relations.terms import Scaled, Terms
from harness.relations.walker import WalkedGraph, walk
from simulator.agent.places import source_at

_SINGLE = Fraction(1)
# What a program does around its function and is never looked at.
_NEVER = ("is called outside", "another function", "traced again", "another object")


@dataclass
class _Found:
    """What has been followed so far."""

    conditions: set[ProofCondition] = field(default_factory=set)
    suspects: list[tuple[str, Fact]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    values: int = 0


def proof_of(clients: Sequence[StepGraph], reference: StepGraph, *, program: str, strategy: str) -> Proof:
    """What follows from the graphs of all clients and of the reference for every batch.

    Never raises for what is in the graphs: what is not understood is open.
    """
    for traced in (*clients, reference):
        if traced.why_not is not None:
            return Proof("open", program, strategy, reasons=(traced.why_not,))
    *clients, reference = cut_to_shortest([*clients, reference])
    functions, doubts = _functions(clients, reference)
    proof = _attempt(functions, frozenset(), program, strategy)
    if proof.status == "open" and (counting := frozenset().union(*(_may_count(each.clients) for each in functions))):
        # Assumed to count, some variables let more be known, under a condition.
        again = _attempt(functions, counting, program, strategy)
        fewer = len(again.suspects) + len(again.reasons) < len(proof.suspects) + len(proof.reasons)
        proof = again if again.status != "open" or fewer else proof
    return replace(proof, status="open", conditions=(), reasons=(*proof.reasons, *doubts)) if doubts else proof


@dataclass(frozen=True)
class _Function:
    """One that changes variables, as all clients have traced it, and the reference; the first one is the step."""

    clients: Sequence[StepGraph]
    reference: StepGraph

    @property
    def name(self) -> str:
        return self.reference.function


def _functions(clients: Sequence[StepGraph], reference: StepGraph) -> tuple[list[_Function], list[str]]:
    """The step, and what is called besides, with what is not certain of these."""
    names = [each.function for each in reference.others]
    doubts = []
    if any([other.function for other in each.others] != names for each in clients):
        doubts.append("outside of the function: other functions change variables than on one device")
        names = []
    clients = [_paired(each, reference) for each in clients]
    found = [_Function(clients, reference)]
    found += [_Function([each.others[at] for each in clients], reference.others[at]) for at in range(len(names))]
    doubts += [
        f"{each.name}, which is called besides: {doubt}"
        for each in found[1:]
        for traced in (*each.clients, each.reference)
        for doubt in traced.doubts
    ]
    return found, doubts


@dataclass(frozen=True)
class _Walked:
    """A function whose graphs were followed."""

    function: _Function
    runs: Sequence[WalkedGraph]
    alone: WalkedGraph


def _walked(functions: Sequence[_Function], counting: frozenset[str]) -> list[_Walked]:
    """All of them, with those variables taken for counts that count in each."""
    terms = Terms()
    while True:
        found = []
        for each in functions:
            alone = walk(each.reference, World(1, terms), counting)
            runs = [walk(client, World(client.replicas, terms), counting) for client in each.clients]
            found.append(_Walked(each, runs, alone))
        wrong = {
            name
            for name in counting
            if not all(_counts(name, each.runs, each.alone) for each in found if _has(each.function, name))
        }
        if not wrong:
            return found
        counting -= wrong


def _attempt(functions: Sequence[_Function], counting: frozenset[str], program: str, strategy: str) -> Proof:
    """What follows for all of them: each leaves every variable what it is on one device, if it was before."""
    step, *besides = [(each, _followed(each)) for each in _walked(functions, counting)]
    proof = _concluded(step[0].function.clients[0], step[0].runs, step[0].alone, step[1], program, strategy)
    for walked, found in besides:
        name = walked.function.name
        beside = _concluded(walked.function.clients[0], walked.runs, walked.alone, found, program, strategy)
        reasons = [f"{name}, which is called besides: {each}" for each in beside.reasons]
        reasons += [
            f"{name}, which is called besides: {each.value} is not known to be what it is on one device, {each.why}"
            for each in beside.suspects
        ]
        # A run's examples are those of its steps, so that they say nothing of these.
        under = [
            replace(each, what=f"in {name}, which is called besides, {each.meaning}") for each in beside.conditions
        ]
        reasons, conditions = [*proof.reasons, *reasons], [*proof.conditions, *under]
        status = "open" if reasons or proof.suspects else "conditional" if conditions else "proved"
        proof = replace(
            proof,
            status=status,  # type: ignore[arg-type]
            conditions=tuple(conditions) if status == "conditional" else (),
            reasons=tuple(dict.fromkeys(reasons)),
            open_operations=tuple(sorted({*proof.open_operations, *beside.open_operations})),
            values=proof.values + beside.values,
        )
    return proof


def _followed(walked: _Walked) -> _Found:
    found, clients, reference = _Found(), walked.function.clients, walked.function.reference
    _check_calls(clients, reference, found)
    _check_replicas(clients, walked.runs, found)
    _follow_variables(clients, walked.runs, walked.alone, found)
    _follow_outputs(clients, reference, walked.runs, walked.alone, found)
    return found


def _has(function: _Function, name: str) -> bool:
    return any(each.name == name for each in function.reference.arguments if each.kind == "variable")


def _paired(traced: StepGraph, reference: StepGraph) -> StepGraph:
    """With the reference's names for those variables that are called otherwise there, in their order.

    Keras 3 names what a metric keeps by the scopes that it is made in. Whichever variables are paired, what follows is
    right: if they begin alike and each step keeps them alike, they are. In all functions they are paired alike.
    """
    mine, theirs = _variables(traced), _variables(reference)
    left, right = [each for each in mine if each not in theirs], [each for each in theirs if each not in mine]
    last = [[name.rpartition("/")[2].partition("#")[0] for name in names] for names in (left, right)]
    if not left or last[0] != last[1]:
        return traced
    other = dict(zip(left, right, strict=True))
    others = tuple(_renamed(each, other) for each in traced.others)
    return msgspec.structs.replace(_renamed(traced, other), others=others)


def _variables(traced: StepGraph) -> list[str]:
    arguments = [each for function in (traced, *traced.others) for each in function.arguments]
    return list(dict.fromkeys(each.name for each in arguments if each.kind == "variable"))


def _renamed(traced: StepGraph, other: Mapping[str, str]) -> StepGraph:
    arguments = tuple(
        msgspec.structs.replace(each, name=other.get(each.name, each.name)) if each.kind == "variable" else each
        for each in traced.arguments
    )
    return msgspec.structs.replace(traced, arguments=arguments)


def _may_count(clients: Sequence[StepGraph]) -> frozenset[str]:
    """Variables of which each replica has its own and which are added up: some of them count examples."""
    arguments = [(each, traced) for traced in clients for each in traced.arguments]
    return frozenset(
        each.name
        for each, _ in arguments
        if each.kind == "variable" and each.synchronization == "on_read" and each.aggregation == "SUM"
    )


def _counts(name: str, runs: Sequence[WalkedGraph], alone: WalkedGraph) -> bool:
    """Whether a variable counts examples after the step if it did before; it is zero when it is reset."""
    truth = alone.states.get((name, None))
    held = [fact for seen in runs for (each, _), fact in seen.states.items() if each == name]
    return truth is not None and all(
        fact.kind is FactKind.ROWS and fact.scaled == truth.scaled and fact.shape in ((), None)
        for fact in (*held, truth)
    )


def _check_calls(clients: Sequence[StepGraph], reference: StepGraph, found: _Found) -> None:
    """What happens around the function has to be the same on one device."""
    for traced in (*clients, reference):
        found.reasons += traced.doubts
        found.conditions |= {ProofCondition(each) for each in traced.limits}
    for traced in clients:
        if traced.changed != reference.changed:
            differing = [each for each in traced.changed if each not in reference.changed]
            differing += [each for each in reference.changed if each not in traced.changed]
            found.reasons.append(
                f"outside of the function: {differing[0] if differing else 'another order of changes'}"
            )
        again = [each for each in traced.changed if any(words in each for words in _NEVER)]
        found.reasons += [f"outside of the function: {each}" for each in again]
        if traced.by_hand:
            found.conditions.add(
                ProofCondition("the input that the program distributes by hand gives each replica its share")
            )
    _check_examples(clients, reference, found)
    _check_beginnings(clients, reference, found)


def _check_beginnings(clients: Sequence[StepGraph], reference: StepGraph, found: _Found) -> None:
    """Every copy of a variable begins with what it holds on one device; copies that add up, with zeros."""
    truth = {each.name: each.digest for each in reference.arguments if each.kind == "variable"}
    for name, held in {
        (each.name, each.digest) for traced in clients for each in traced.arguments if each.kind == "variable"
    }:
        if truth.get(name, held) != held or held == -1:
            found.reasons.append(f"variable {name!r} begins with another value than on one device")
    added_up = {
        each.name
        for traced in clients
        for each in traced.arguments
        if each.kind == "variable" and each.synchronization == "on_read" and each.aggregation != "MEAN" and each.digest
    }
    found.reasons += [
        f"variable {name!r}, which is added up when it is read, does not begin at 0" for name in sorted(added_up)
    ]


def _check_examples(clients: Sequence[StepGraph], reference: StepGraph, found: _Found) -> None:
    """The replicas' rows are those of the one device, as far as the first batch shows it."""
    truth = {each.name: each.rows for each in (*reference.arguments, *reference.pulled) if each.kind == "example"}
    names = {each.name for traced in clients for each in (*traced.arguments, *traced.pulled) if each.kind == "example"}
    if names != set(truth):
        found.reasons.append("the function gets other arguments than on one device")
        return
    if any(_sources(traced) != _sources(reference) for traced in clients):
        found.reasons.append("the function's examples do not come together as they do on one device")
    columns, whole = [], False
    for name in sorted(truth):
        shares = [each for traced in clients for each in _named(traced, name)]
        undistributed = [_is_whole(each, traced) for traced in clients for each in _named(traced, name)]
        if any(undistributed):
            whole = True
            if not all(undistributed) or any(each.rows != truth[name] for each in shares):
                found.reasons.append("a batch that is not distributed is another one than on one device")
            continue
        shares.sort(key=lambda each: each.replica or 0)
        columns.append(
            (tuple(row for each in shares for row in each.rows), truth[name], [len(each.rows) for each in shares])
        )
    if len({tuple(lengths) for _, _, lengths in columns}) > 1:
        found.reasons.append("of the examples' values some have other numbers of rows than others")
    ours = list(zip(*(rows for rows, _, _ in columns), strict=False))
    theirs = list(zip(*(rows for _, rows, _ in columns), strict=False))
    # Next to a batch that every replica has as a whole, the order of the others' rows counts.
    if (ours != theirs) if whole else (sorted(ours) != sorted(theirs)):
        found.reasons.append("the first batch of the replicas together is another one than on one device")


def _sources(traced: StepGraph) -> list[tuple[str, int]]:
    """Which examples are of the same element, whichever it is."""
    examples = [each for each in traced.arguments if each.kind == "example"]
    order = list(dict.fromkeys(each.source for each in examples))
    return list(dict.fromkeys((each.name, order.index(each.source)) for each in examples))


def _named(traced: StepGraph, name: str) -> list[Argument]:
    return [each for each in (*traced.arguments, *traced.pulled) if each.name == name]


def _is_whole(example: Argument, traced: StepGraph) -> bool:
    """Whether every replica has the whole of it: it, or the iterator that gave it, is nobody's in particular."""
    if traced.replicas == 1:
        return False
    if not example.name.startswith("iterator "):
        return example.replica is None
    source = f"argument {example.name.removeprefix('iterator ').partition(',')[0]}"
    return any(each.kind == "iterator" and each.name == source and each.replica is None for each in traced.arguments)


def _check_replicas(clients: Sequence[StepGraph], runs: Sequence[WalkedGraph], found: _Found) -> None:
    """Who adds something up has to do so in every replica, in the same order, with what was made in the same way."""
    orders: dict[int | None, list[object]] = {}
    for seen in runs:
        for replica, key in seen.reduced:
            orders.setdefault(replica, []).append(key)
    expected = clients[0].replicas
    if orders and (set(orders) != set(range(expected)) or len({tuple(each) for each in orders.values()}) != 1):
        found.reasons.append("the replicas do not all add up the same")


def _follow_variables(
    clients: Sequence[StepGraph], runs: Sequence[WalkedGraph], alone: WalkedGraph, found: _Found
) -> None:
    for seen in (*runs, alone):
        found.reasons += [f"what {each} does is not known" for each in sorted(seen.effects)]
    kinds = {each.name: each for traced in clients for each in traced.arguments if each.kind == "variable"}
    names = {name for seen in (*runs, alone) for name, _ in seen.states}
    for name in sorted(names):
        copies = [(replica, fact) for seen in runs for (each, replica), fact in seen.states.items() if each == name]
        truth = alone.states.get((name, None))
        expected: Scaled = (_SINGLE, runs[0].terms.made("variable", name)) if truth is None else truth.scaled
        if truth is not None and truth.kind is FactKind.UNKNOWN:
            found.reasons.append(f"what the one device makes of variable {name!r} is not known")
            continue
        found.values += 1
        if not copies:
            if expected != (_SINGLE, runs[0].terms.made("variable", name)):
                found.reasons.append(f"variable {name!r} is changed on one device only")
            continue
        _follow_copies(name, kinds[name], copies, expected, clients[0].replicas, found)


def _follow_copies(
    name: str, kind: object, copies: list[tuple[int | None, Fact]], expected: Scaled, replicas: int, found: _Found
) -> None:
    on_read = getattr(kind, "synchronization", "") == "on_read"
    whole = getattr(kind, "synchronization", "") in ("mirrored", "on_read")
    changed = any(fact.made is not None for _, fact in copies)
    if whole and changed and {replica for replica, _ in copies} != set(range(replicas)):
        found.reasons.append(f"of variable {name!r} some copies are changed and others are not")
    for _, fact in copies:
        if on_read:
            total = fact.scale if fact.kind in (FactKind.PARTIAL, FactKind.ROWS) else fact.scale * replicas
            if getattr(kind, "aggregation", "") == "MEAN":
                total /= replicas
            fine = (
                fact.kind in (FactKind.PARTIAL, FactKind.ROWS, FactKind.REPLICATED) and (total, fact.term) == expected
            )
            fine = fine and getattr(kind, "aggregation", "") in ("SUM", "MEAN")
        else:
            fine = (
                fact.kind in (FactKind.REPLICATED, *((FactKind.ROWS,) if replicas == 1 else ()))
                and fact.scaled == expected
            )
        if fine:
            found.conditions |= fact.conditions
        elif fact.made is None and fact.kind is not FactKind.UNKNOWN:
            found.reasons.append(f"variable {name!r} is changed on one device only")
        else:
            found.suspects.append((f"variable {name!r}", fact))
    if on_read and len({fact.local for _, fact in copies}) > 1:
        found.reasons.append(f"the replicas do not do the same with variable {name!r}")


def _follow_outputs(
    clients: Sequence[StepGraph], reference: StepGraph, runs: Sequence[WalkedGraph], alone: WalkedGraph, found: _Found
) -> None:
    """What is reported follows from the function's results in the same way, and these are what stood in for them."""
    for traced in clients:
        if (traced.reported or ()) != (reference.reported or ()):
            found.reasons.append(
                "what is reported does not follow from the function's results as it does on one device"
            )
        if len(traced.outputs) != len(reference.outputs):
            found.reasons.append("the function has other results than on one device")
            return
    for number, truth in enumerate(reference.outputs):
        if truth.places[0] < 0:
            found.reasons.append("a result of the function could not be told")
            continue
        expected = alone.outputs[truth.places[0]]
        if alone_dtype(reference, truth.places[0]) in ("resource", "variant", "string"):
            continue
        found.values += 1
        for traced, seen in zip(clients, runs, strict=True):
            output = traced.outputs[number]
            facts = [seen.outputs[place] if place >= 0 else None for place in output.places]
            _follow_output(
                f"result {number} of the function", facts, expected, output.per_replica, traced.replicas, found
            )


def alone_dtype(traced: StepGraph, place: int) -> str:
    """The dtype of a result of the outermost graph."""
    node, output = traced.graphs[0].outputs[place]
    return traced.graphs[0].nodes[node].dtypes[output]


def _follow_output(
    name: str, facts: list[Fact | None], expected: Fact, per_replica: bool, replicas: int, found: _Found
) -> None:
    if any(each is None for each in facts) or expected.kind is FactKind.UNKNOWN:
        found.reasons.append(f"{name} is not known")
        return
    known = [each for each in facts if each is not None]
    for fact in known:
        if fact.scaled == expected.scaled and _stood_in(fact, per_replica, replicas):
            found.conditions |= fact.conditions
        else:
            found.suspects.append((name, fact))
    if per_replica and len({each.local for each in known}) > 1:
        found.reasons.append(f"the replicas do not do the same for {name}")


def _stood_in(fact: Fact, per_replica: bool, replicas: int) -> bool:
    """Whether a value is what the stand-in for it was taken for."""
    if replicas == 1:  # all rows, the only part of a sum and what every replica has are one and the same
        return fact.kind in (FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL, FactKind.ROWS)
    if not per_replica:
        return fact.kind is FactKind.REPLICATED
    rows = bool(fact.shape) and fact.shape is not None and fact.shape[0] is None
    return (fact.kind is FactKind.SPLIT and fact.axis == 0) if rows else fact.kind in (FactKind.PARTIAL, FactKind.ROWS)


def _concluded(
    traced: StepGraph, runs: Sequence[WalkedGraph], alone: WalkedGraph, found: _Found, program: str, strategy: str
) -> Proof:
    operations: dict[str, int] = {}
    for seen in runs:
        for kind, count in seen.operations.items():
            operations[kind] = operations.get(kind, 0) + count
    suspects = list(_suspects(traced, found.suspects, runs[0], alone))
    if suspects and any(seen.drawn for seen in runs):
        found.reasons.append("replicas draw random numbers that are not those of one device: they cannot be compared")
        suspects = [replace(each, definite=False) for each in suspects]
    missing = sorted({fact.unknown.node.type for _, fact in found.suspects if fact.unknown and fact.unknown.ruleless})
    status = "open" if found.reasons or suspects else "conditional" if found.conditions else "proved"
    return Proof(
        status,  # type: ignore[arg-type]
        program,
        strategy,
        conditions=tuple(_conditions(traced, found.conditions)) if status == "conditional" else (),
        suspects=tuple(suspects),
        reasons=tuple(dict.fromkeys(found.reasons)),
        open_operations=tuple(missing),
        values=found.values,
        operations=tuple(sorted(operations.items())),
        sources=_data_sets(traced),
    )


def _data_sets(traced: StepGraph) -> int:
    """How many data sets a function's examples come from."""
    given = {each.source for each in traced.arguments if each.kind == "example"}
    return max(1, len(given) + len({each.name for each in traced.arguments if each.kind == "iterator"}))


def _conditions(traced: StepGraph, conditions: Iterable[ProofCondition]) -> Iterator[Under]:
    for what in sorted({each.what for each in conditions}):
        places = {_place(traced, each.caller, each.op) for each in conditions if each.what == what}
        yield Under(what, tuple(sorted((each for each in places if each), key=lambda each: (each.file, each.line))))


def _place(traced: StepGraph, caller: int | None, op: str) -> SourcePlace | None:
    if caller is None:
        return None
    frame = traced.frames[caller]
    path = Path(frame.file)
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return SourcePlace(shown, frame.line, source_at(frame.file, frame.line), op)


def _suspects(
    traced: StepGraph, suspects: Iterable[tuple[str, Fact]], run: WalkedGraph, alone: WalkedGraph
) -> Iterator[Suspect]:
    """One for each line, what is wrong before any gradient first."""
    known: dict[object, tuple[bool, Suspect]] = {}
    for name, fact in suspects:
        guilty = guilty_operation(fact, run, alone)
        if guilty.unknown is not None:
            node, why, definite = guilty.unknown.node, guilty.unknown.why, not guilty.unknown.ruleless
        else:
            node, why, definite = (guilty.made.node if guilty.made else GraphNode("", "")), meaning(guilty, alone), True
        shown = f"{node.type}: {why}" if node.type else why
        suspect = Suspect(_place(traced, node.caller, node.type), shown, name, definite)
        key = (node.caller, node.type if node.caller is None else "", why)
        known.setdefault(key, (not is_gradient(node.name) and node.caller is not None, suspect))
    yield from (suspect for early in (True, False) for found, suspect in known.values() if found is early)
