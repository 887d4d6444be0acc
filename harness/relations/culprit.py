"""From a wrong value back to the operation of which all operands are the one device's, and the result is not."""

from __future__ import annotations

from harness.relations.facts import Fact, FactKind
from harness.relations.walker import WalkedGraph, plain_name

_GRADIENT = "gradient_tape/"


def is_gradient(name: str) -> bool:
    """Whether an operation of this name belongs to a gradient."""
    return _GRADIENT in name


def meaning(fact: Fact, alone: WalkedGraph) -> str:
    """What a value is, next to what it is on one device."""
    same = alone.by_name.get(plain_name(fact.made.node.name), ()) if fact.made else ()
    twin = next((each for each in same if each.term == fact.term and each.scale), None)
    times = "" if twin is None or twin.scale == fact.scale else f"{fact.scale / twin.scale} times "
    if twin is not None and not times:
        return "it is what it is on one device, but not in every replica, or not as a whole"
    value = f"{times}the value of one device" if twin else "something that one device has not"
    words = {
        FactKind.SPLIT: f"the rows of the replicas together are {value}",
        FactKind.REPLICATED: f"every replica has {value}",
        FactKind.PARTIAL: f"the parts of the replicas add up to {value}",
    }
    return words.get(fact.kind, "each replica has a count of its own")


def guilty_operation(fact: Fact, run: WalkedGraph, alone: WalkedGraph) -> Fact:
    """The value that is wrong first, on the way to a wrong one.

    Operations are compared with those of the same name; one that only the run has gives a value of the one device if
    anything there has that value. A gradient is wrong because of what it is the gradient of: that is blamed, if it is
    wrong and stays so.
    """
    if not run.first_wrong:
        run.first_wrong.append(_forward(run, alone))
    if fact.unknown is not None:
        return (run.first_wrong[0] if is_gradient(fact.unknown.node.name) else None) or fact
    found = _back(fact, alone)
    made = () if found.made is None else (found, *found.made.operands)
    if not any(each.made is not None and is_gradient(each.made.node.name) for each in made):
        return found
    return run.first_wrong[0] or found


def _back(fact: Fact, alone: WalkedGraph) -> Fact:
    seen: set[int] = set()
    last = fact
    pending = [fact]
    while pending:
        each = pending.pop()
        if id(each) in seen or each.made is None:
            continue
        seen.add(id(each))
        wrong = [given for given in each.made.operands if not _is_right(given, alone)]
        if not wrong:
            return each
        last = each
        pending += wrong[::-1]
    return last


def _forward(run: WalkedGraph, alone: WalkedGraph) -> Fact | None:
    """The first value that is wrong before any gradient, and of which another wrong one is made, or nothing."""
    values = [
        fact
        for name, facts in run.by_name.items()
        if _GRADIENT not in name and name in alone.by_name
        for fact in facts[:1]
        if fact.made is not None and "float" in (fact.made.node.dtypes or ("",))[0]
    ]
    used: dict[int, list[Fact]] = {}
    for fact in values:
        for given in fact.made.operands if fact.made else ():
            used.setdefault(id(given), []).append(fact)
    for fact in values:
        if _is_right(fact, alone):
            continue
        after = used.get(id(fact), [])
        if not after or any(not _is_right(each, alone) for each in after):
            return fact
    return None


def _is_right(fact: Fact, alone: WalkedGraph) -> bool:
    if fact.kind in (FactKind.HANDLE, FactKind.SHAPE, FactKind.ROWS) or fact.value is not None or fact.made is None:
        return True
    if fact.kind is FactKind.UNKNOWN:
        return False
    same = alone.by_name.get(plain_name(fact.made.node.name))
    if same is not None and any(each.made and each.made.node.type == fact.made.node.type for each in same):
        return any(each.scaled == fact.scaled for each in same)
    return fact.scaled in alone.values
