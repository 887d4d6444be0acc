"""What each code says: rules, causes of wrong examples, relations at a line, laws, conditions, outcomes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module

from harness.judging import laws
from harness.judging.batch_of_average import TOLD_BATCH
from harness.judging.conditions import CONDITIONS
from harness.judging.culprit.kinds import KINDS
from harness.judging.diagnostics.examples import all_examples
from harness.judging.diagnostics.from_verdict import DENIED, NOT_JUDGED, REFUTED
from harness.judging.explain import all_rules, says
from harness.judging.explain.causes import all_causes
from harness.judging.known_issues import registry

FAILED, LACKING = "run_failed", "machine_lacks"
_TOLD = (
    "the batch that a loss is divided by is that of all replicas",
    "Tell tf.nn.compute_average_loss the global batch, or divide the batch: context.get_per_replica_batch_size(...).",
)
_OTHERS = {
    NOT_JUDGED: (
        "what was compared shows too little to say that the training is right, or wrong; the sentence says why",
        "Follow the sentence; docs/limitations.md and docs/scripts.md say what Lockstep cannot see.",
    ),
    DENIED: (
        "the run is consistent under conditions, each of which `--strict` takes for a finding",
        "Change what each note names, or leave out --strict.",
    ),
    REFUTED: (
        "what the run did is right, and its step is wrong for another batch, carried out on replicas and on one device",
        "Look at the line for what depends on how many examples a replica has; `lockstep prove` shows the batch.",
    ),
    FAILED: ("a task raised, hung or was lost, so that there are no numbers to judge", "Mend what failed first."),
    LACKING: ("this machine lacks what the strategy needs", "`lockstep doctor` says what, and how to have it."),
}


@dataclass(frozen=True)
class Code:
    """One of them.

    Attributes:
        name: as in `error[name]`.
        kind: `rule`, `cause`, `relation`, `law`, `condition`, `known issue` or `outcome`.
        says: what is wrong, in a sentence.
        more: what else is known of it, in paragraphs.
        cure: what to do.
        program: a program that does it, whole; of a known issue its way out.
        strategy: under which it does it, where it is wrong.
        right: the program that is right beside it.
        interrupt_at: the step after which it has to be interrupted, if any.
    """

    name: str
    kind: str
    says: str
    more: str = ""
    cure: str = ""
    program: str = ""
    strategy: str = ""
    right: str = ""
    interrupt_at: int | None = None


def all_codes() -> dict[str, Code]:
    """Every code, by its name."""
    kinds = (_rules(), _causes(), _relations(), _laws(), _conditions(), _known(), _outcomes())
    return {code.name: _with_example(code) for kind in kinds for code in kind}


def _with_example(code: Code) -> Code:
    if (found := all_examples().get(code.name)) is None:
        return code
    shown = replace(code, program=found.wrong, right=found.right)
    return replace(shown, strategy=found.strategy, interrupt_at=found.interrupt_at)


def _rules() -> Iterator[Code]:
    for rule in all_rules():
        yield Code(rule.id, "rule", says(rule.id), cure=getattr(rule, "cure", ""))


def _causes() -> Iterator[Code]:
    for cause in all_causes():
        yield Code(cause.id, "cause", cause.what)


def _relations() -> Iterator[Code]:
    for kind in KINDS.values():
        yield Code(kind.code, "relation", kind.says, cure=kind.cure)


def _laws() -> Iterator[Code]:
    for law in laws.all_laws():
        first, _, more = (inspect.getdoc(import_module(f"{laws.__name__}.{law.id}")) or "").partition("\n\n")
        yield Code(law.id, "law", first.partition(": ")[2].rstrip("."), more, law.cure)
    yield Code(TOLD_BATCH, "law", _TOLD[0], cure=_TOLD[1])


def _conditions() -> Iterator[Code]:
    for name, (said, cure) in CONDITIONS.items():
        yield Code(name, "condition", said, cure=cure)


def _known() -> Iterator[Code]:
    for issue in registry():
        says = issue.summary.rstrip(".")
        yield Code(issue.id, "known issue", says, issue.reference, issue.way_out, issue.cured_program())


def _outcomes() -> Iterator[Code]:
    for name, (said, cure) in _OTHERS.items():
        yield Code(name, "outcome", said, cure=cure)
