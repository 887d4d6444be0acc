"""What proofs show: totals, what was said of wrong and of right programs, and which operations have a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.relations.protocol import RULES
from harness.relations.rules import all_rules
from tools.pages import packages
from tools.pages import table as markdown
from tools.proving.running import Found

_STATUSES = ("proved", "conditional", "refuted", "open", "failed")
# What no rule is needed for, since the walk itself knows them.
_WALKED = [
    "Const",
    "Placeholder",
    "NoOp",
    "ReadVariableOp",
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "If",
    "StatelessIf",
    "While",
    "StatelessWhile",
    "IteratorGetNext",
    "IteratorGetNextAsOptional",
    "Assert",
    "Rank",
    "Range",
    "VarIsInitializedOp",
]


def section(results: Sequence[Found]) -> str:
    """What the page shows."""
    wrong = [each for each in results if each.mistake is not None]
    right = [each for each in results if each.mistake is None]
    return "\n\n".join(
        [
            f"Measured with {packages()} on CPU devices, {len(results)} programs.",
            summary(results),
            "### Operations",
            _operations(results),
            "### Wrong programs",
            _table(wrong),
            "### Right programs",
            _table(right),
        ]
    )


def summary(results: Sequence[Found]) -> str:
    """The totals."""
    rows = []
    for label, among in (
        ("wrong programs", [each for each in results if each.mistake is not None]),
        ("right programs", [each for each in results if each.mistake is None]),
    ):
        counts = Counter(each.status for each in among)
        refuted = [each for each in among if each.status == "refuted"]
        lines = Counter(each.line for each in refuted)
        rows.append(
            (
                label,
                str(len(among)),
                *(str(counts[status]) for status in _STATUSES),
                str(lines["right"]),
                str(lines["wrong"]),
            )
        )
    return markdown(("", "programs", *_STATUSES, "refuted at the right line", "at another line"), rows)


def _operations(results: Sequence[Found]) -> str:
    """How many of the operations that occur have a rule, by kind and by number."""
    all_rules()
    total: Counter[str] = Counter()
    for each in results:
        total.update(each.operations)
    known = {kind for kind in total if kind in RULES or kind in _WALKED or kind.startswith(("Resource", "Assign"))}
    missing = [f"`{kind}` {count}" for kind, count in total.most_common() if kind not in known]
    blocking = Counter(kind for each in results for kind in each.open_operations)
    share = sum(total[kind] for kind in known) / max(1, sum(total.values()))
    return (
        f"{len(known)} of {len(total)} kinds of operations have a rule of their own, which are {100 * share:.1f} % "
        f"of the {sum(total.values())} operations. What the others give is known where all operands are the same in "
        f"every replica: {', '.join(missing) or 'none'}.\n\nIn the way of a proof stood: "
        + (", ".join(f"`{kind}` in {count} programs" for kind, count in blocking.most_common()) or "none")
        + "."
    )


def _table(results: Sequence[Found]) -> str:
    header = (
        "program",
        "mistake",
        "said",
        "line",
        "conditions, counterexample or why it is open",
        "traced, s",
        "inferred, s",
    )
    return markdown(header, [_row(each) for each in results])


def _row(each: Found) -> tuple[str, ...]:
    why = "; ".join(each.conditions) or each.why
    return (
        f"`{each.name}`",
        each.mistake or "right",
        each.status,
        each.line if each.mistake is not None and each.status in ("refuted", "open") else "",
        why[:160],
        f"{each.tracing_seconds:.1f}",
        f"{each.inferring_seconds:.2f}",
    )
