"""What is known of one verified run: what laws, rules and the search for a line have found, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from harness.evidence.observed import OBSERVABLES
from harness.judging.conditions import OWN, OWN_STATISTICS, Condition, by_proof, given
from harness.judging.culprit.kinds import NUMBER
from harness.judging.culprit.protocol import Culprit, Looked
from harness.judging.environments import Environments
from harness.judging.explain.divided_by_own_number import OWN_NUMBER
from harness.judging.explain.not_broadcast import BEGUN_APART
from harness.judging.explain.protocol import Attempt, Explanation
from harness.judging.explain.set_by_each_worker import SET_BY_EACH
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.losses import Course
from harness.judging.resolution import FINER, Resolution
from harness.judging.wrong_steps import StepsAlone
from harness.relations import Counterexample, Proof
from harness.subject.devices import hardware_of

Outcome = Literal["consistent", "inconsistent", "abstained"]
_Facts = TypeVar("_Facts", bound="Facts")

WIDTH = 110
"""Of the longer texts, where the terminal does not say."""
_OF_STEPS = "variables_match_reference"
_REPORT = (
    "Report its variables, loss or gradients by record.step in a function, or give the variables of a script names of "
    "their own; -v tells what was seen"
)
_OBSERVABLE_ORDER = ("start", *OBSERVABLES, "examples", "updates", "steps")


@dataclass(frozen=True, repr=False)
class Facts:
    """What all laws say of one program under one strategy.

    `tasks` is what is known of each task (exit code, incarnation, ...), in JSON types; `seconds` is all that it took;
    `tolerance` is the tier, `exact` or `derived`; `closest` is the best of the predictions that fail, where there is no
    `explanation`. `interrupted` says of a run that was killed and resumed: `at`, the step after which;
    `resumed_at`, the last step whose work was not done again; `resume_strategy`. Of a run that was started again more
    than once it says so of the last time. `faults` says what a run was disturbed by: `plan`, its tables, and `text`.
    `placement` is, of a run on GPUs, where each task's replicas and variables stood, in JSON types.
    `links` is how many bytes each link between tasks carried. `ledger` is, of a run that consumed other examples than
    its reference, the table of who consumed what. `abstained` says why what was compared shows too little, such as a
    reference that is not finite. `notes` are what a reader should know of how the runs were made. `forced` says that
    each step was judged from the run's own variables; `alone` says of an inconsistent one which steps
    are wrong then, also where that was asked afterwards. `looked` says what was seen of the operations of the first
    wrong step, where they were watched. `proof` says, where that was asked, whether the step is right for every batch.
    `course` is how the losses went, for pages. `environments` says what run and reference had installed, where the
    reference is of another environment. `strict` is whether nothing may be taken as given. `counted` has the lines of
    a function that ask for the number of replicas, where it is inconsistent.
    """

    program: str
    strategy: str
    judgements: tuple[Judgement, ...]
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    tolerance: str = "exact"
    explanation: Explanation | None = None
    closest: Attempt | None = None
    interrupted: dict[str, Any] | None = None
    faults: dict[str, Any] | None = None
    links: dict[str, int] | None = None
    placement: dict[str, Any] | None = None
    ledger: str | None = None
    abstained: str | None = None
    notes: tuple[str, ...] = ()
    forced: bool = False
    alone: StepsAlone | None = None
    looked: Looked | None = None
    proof: Proof | None = None
    course: Course | None = None
    environments: Environments | None = None
    conditions: tuple[Condition, ...] = ()
    strict: bool = False
    counted: tuple[str, ...] = ()

    @property
    def denied(self) -> tuple[str, ...]:
        """What is taken as given of a consistent run although nothing may be."""
        if not self.strict or self.outcome != "consistent":
            return ()
        claim = self.claim
        unmet = claim is not None and claim.status == "conditional" and not claim.is_met
        return (*given(self.conditions), *((claim.short.removeprefix("and "),) if claim is not None and unmet else ()))

    @property
    def culprit(self) -> Culprit | None:
        """The line that made the first wrong value; None where it was not looked for, or not found."""
        return None if self.looked is None else self.looked.culprit

    @property
    def consistent(self) -> bool:
        """Whether the run was held against the reference and no law is broken.

        A run of which nothing could be judged does not pass, nor does one in which only tasks and replicas agreed with
        each other, nor one whose reference says nothing in places.
        """
        return self.outcome == "consistent"

    @property
    def outcome(self) -> Outcome:
        """`inconsistent` if a law is broken or a batch refutes the step, `abstained` if too little could be judged."""
        if self.with_status("broken") or self.counterexample is not None:
            return "inconsistent"
        shown = any(judgement.suffices for judgement in self.with_status("held"))
        return "consistent" if shown and self.why_abstained is None else "abstained"

    @property
    def nothing_compared(self) -> str:
        """What is said where nothing was compared that a step computes, and nothing else tells why."""
        of_steps = next((law.reason for law in self.with_status("not_judged") if law.law == _OF_STEPS), None)
        why = f" ({_OF_STEPS}: {of_steps})" if of_steps else ""
        wide = any(law.resolution is not None for law in self.with_status("not_judged"))
        return f"nothing that a step computes was compared with the reference{why}. {FINER if wide else _REPORT}"

    @property
    def why_abstained(self) -> str | None:
        """Why what was compared shows too little; not that nothing was."""
        unseen = [law.reason for law in self.with_status("not_judged") if law.unseen]
        return self.abstained or (unseen[0] if unseen and not self.with_status("broken") else None)

    def seen(self: _Facts, looked: Looked) -> _Facts:
        """With what was seen of operations; where a value began otherwise than it should, no rule explains more.

        Of a number that is set between steps no operation of a step is to blame that changes something else.
        """
        rule = None if self.explanation is None else self.explanation.rule
        between = rule == SET_BY_EACH
        changed = None if looked.culprit is None else looked.culprit.assigned
        if between and changed is not None and changed not in {finding.variable for finding in self.findings}:
            looked = replace(looked, culprit=None, why_not="what is wrong was set between steps")
        if rule == OWN_NUMBER:
            looked = _without_number(looked)
        begun = looked.culprit is not None and looked.culprit.op == "ReadVariableOp"
        denied = begun and rule not in (None, BEGUN_APART, SET_BY_EACH)
        return replace(self, explanation=None if denied else self.explanation, looked=looked)

    def with_proof(self: _Facts, proof: Proof) -> _Facts:
        """With what is proved of the step, which may speak where rounding hides what the numbers say."""
        found = replace(self, proof=proof)
        settled = {law.law: each for law in self.judgements if (each := by_proof(law, found.claim)) is not None}
        laws = tuple(_by_its_rest(law) if law.law in settled else law for law in self.judgements)
        return replace(found, judgements=laws, conditions=(*self.conditions, *settled.values()))

    @property
    def can_be_refuted(self) -> bool:
        """Whether a batch may refute the step: not where replicas have something for themselves, and may have."""
        return all(each.code not in (OWN, OWN_STATISTICS) for each in self.conditions)

    @property
    def claim(self) -> Proof | None:
        """What is proved; where replicas may have something for themselves, no batch refutes the step."""
        proof = self.proof
        if proof is None or proof.culprit is None or self.can_be_refuted:
            return proof
        shown = proof.culprit.counterexample
        why = "a batch differs, which what is given explains" + ("" if shown is None else f": {shown.text}")
        return replace(proof, status="open", suspects=(), reasons=(why,))

    @property
    def counterexample(self) -> Counterexample | None:
        """The batch that refutes the step."""
        claim = self.claim
        return None if claim is None or claim.culprit is None else claim.culprit.counterexample

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding of every law, in the order of the laws."""
        return tuple(finding for judgement in self.judgements for finding in judgement.findings)

    @property
    def first_divergence(self) -> Finding | None:
        """The earliest finding, by step and then by observable.

        The end of the run comes last; at one step loss, gradients, variables, metrics, predictions, and then the rest.
        Among findings of the same step and observable a comparison with the reference comes before one among replicas.
        """
        return min((finding for finding in self.findings if finding.observable is not None), key=when, default=None)

    @property
    def accelerators(self) -> dict[str, tuple[str, ...]]:
        """What tasks computed on, of those that did not compute on the CPU alone."""
        found = {name: tuple(map(str, task.get("devices", ()))) for name, task in self.tasks.items()}
        return {name: used for name, used in found.items() if any(not each.startswith("cpu:") for each in used)}

    @property
    def machines(self) -> dict[str, list[str]]:
        """By machine the tasks that ran on it; nothing of those that ran here."""
        found: dict[str, list[str]] = {}
        for task, told in self.tasks.items():
            if name := told.get("machine"):
                found.setdefault(name, []).append(task)
        return found

    @property
    def rehearsed(self) -> bool:
        """Whether steps were compiled as for a TPU, and computed on a CPU."""
        return any(hardware_of(device) == "tpu-rehearsed" for used in self.accelerators.values() for device in used)

    @property
    def under(self) -> str:
        """The strategy, and that it was rehearsed."""
        return f"{self.strategy} (REHEARSED, on no TPU)" if self.rehearsed else self.strategy

    @property
    def worst_ratio(self) -> float | None:
        """The largest error / bound over all laws; None when no law compared with a bound."""
        return max(
            (judgement.worst_ratio for judgement in self.judgements if judgement.worst_ratio is not None), default=None
        )

    @property
    def resolution(self) -> dict[str, Resolution]:
        """By observable how small an error would have been found; without those that were not compared in numbers."""
        found = {law.law.partition("_match")[0]: law.resolution for law in self.judgements}
        return {observable: resolution for observable, resolution in found.items() if resolution is not None}

    def with_status(self, status: str) -> list[Judgement]:
        """The judgements of this status."""
        return [judgement for judgement in self.judgements if judgement.status == status]


def when(finding: Finding) -> tuple[bool, int, int, bool]:
    """The order of findings: by step, the end last, and then by observable."""
    order = _OBSERVABLE_ORDER
    rank = order.index(finding.observable) if finding.observable in order else len(order)
    return finding.step is None, finding.step or 0, rank, not finding.law.endswith("_reference")


def _by_its_rest(law: Judgement) -> Judgement:
    """A law for whose unseen variables a proof speaks: it holds if any others were judged."""
    return replace(law, unseen=(), status="held" if len(law.unseen) < law.moved else law.status)


def _without_number(looked: Looked) -> Looked:
    """The number of replicas in a quotient is right where the rule has found the shares that the replicas have."""
    if looked.culprit is None or looked.kind is not NUMBER:
        return looked
    return replace(
        looked, culprit=replace(looked.culprit, relation="each replica divides by a number of its own", kind=None)
    )
