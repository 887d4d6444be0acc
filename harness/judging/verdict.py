"""The outcome of one verified run: truthy when consistent, readable as an assertion message, and exact as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.evidence.observed import OBSERVABLES
from harness.judging.alone import StepsAlone
from harness.judging.conditions import OWN, OWN_STATISTICS, Condition, given
from harness.judging.course import Course
from harness.judging.culprit.protocol import Culprit, Looked
from harness.judging.environments import Environments
from harness.judging.explain.not_broadcast import BEGUN_APART
from harness.judging.explain.protocol import Attempt, Explanation
from harness.judging.explain.set_by_each_worker import SET_BY_EACH
from harness.judging.laws.protocol import Finding, Judgement, judged
from harness.judging.resolution import Resolution, described
from harness.relations import Counterexample, Proof
from harness.subject.devices import hardware_of

__all__ = ["Outcome", "Verdict", "broken_by"]

Outcome = Literal["consistent", "inconsistent", "abstained"]

# Of the longer texts, where the terminal does not say.
_WIDTH = 110
_LINKS_SHOWN = 4
_WAY_OUT = (
    "Have the layers that they belong to compute in float32, such as a last one with dtype='float32', and keep "
    "variables in float32; or verify with a larger rate"
)
_OBSERVABLE_ORDER = ("start", *OBSERVABLES, "examples", "updates", "steps")


@dataclass(frozen=True, repr=False)
class Verdict:
    """What all laws say of one program under one strategy.

    `tasks` is what is known of each task (exit code, incarnation, ...), in JSON types; `seconds` is the wall time of
    the run; `tolerance` is the tier, `exact` or `derived`; `closest` is the best of the predictions that fail, where
    there is no `explanation`. `interrupted` says of a run that was killed and resumed: `at`, the step after which;
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
    reference is of another environment.
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
        if self._with("broken") or self._counterexample is not None:
            return "inconsistent"
        shown = any(judgement.suffices for judgement in self._with("held"))
        return "consistent" if shown and self._why_abstained is None else "abstained"

    @property
    def _why_abstained(self) -> str | None:
        """Why what was compared shows too little; not that nothing was."""
        unseen = [law.reason for law in self._with("not_judged") if law.unseen]
        return self.abstained or (f"{unseen[0]}. {_WAY_OUT}" if unseen and not self._with("broken") else None)

    def __bool__(self) -> bool:
        return self.consistent

    def seen(self, looked: Looked) -> Verdict:
        """With what was seen of operations; where a value began otherwise than it should, no rule explains more.

        Of a number that is set between steps no operation of a step is to blame that changes something else.
        """
        rule = None if self.explanation is None else self.explanation.rule
        between = rule == SET_BY_EACH
        changed = None if looked.culprit is None else looked.culprit.assigned
        if between and changed is not None and changed not in {finding.variable for finding in self.findings}:
            looked = replace(looked, culprit=None, why_not="what is wrong was set between steps")
        begun = looked.culprit is not None and looked.culprit.op == "ReadVariableOp"
        denied = begun and rule not in (None, BEGUN_APART)
        return replace(self, explanation=None if denied else self.explanation, looked=looked)

    @property
    def can_be_refuted(self) -> bool:
        """Whether a batch may refute the step: not where replicas have something for themselves, and may have."""
        return all(each.code not in (OWN, OWN_STATISTICS) for each in self.conditions)

    @property
    def _claim(self) -> Proof | None:
        """What is proved; where replicas may have something for themselves, no batch refutes the step."""
        proof = self.proof
        if proof is None or proof.culprit is None or self.can_be_refuted:
            return proof
        shown = proof.culprit.counterexample
        why = "a batch differs, which what is given explains" + ("" if shown is None else f": {shown.text}")
        return replace(proof, status="open", suspects=(), reasons=(why,))

    @property
    def _counterexample(self) -> Counterexample | None:
        """The batch that refutes the step."""
        claim = self._claim
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
        return min((finding for finding in self.findings if finding.observable is not None), key=_when, default=None)

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
    def _under(self) -> str:
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

    def __repr__(self) -> str:
        """One line: what pytest shows of `assert verify(...)`, above the full text."""
        return f"<Verdict {self.summary}>"

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = _WIDTH, *, verbose: bool = False) -> str:
        """The verdict in words; the longer texts, and the table of examples, in lines of `width` characters at most.

        What was not judged is named in one line, with `verbose` each with its reason.
        """
        return "\n".join(self._lines(width, verbose))

    @property
    def summary(self) -> str:
        """One line: the outcome, the rule that explains it and the culprit's line if there are any, and the first
        divergence.
        """
        said = "is not judged" if self.outcome == "abstained" else f"is {self.outcome}"
        why = None if self.explanation is None else self.explanation.rule
        first = None if self.first_divergence is None else self.first_divergence.text
        line = None if self.culprit is None else self.culprit.where
        batch = None if (shown := self._counterexample) is None else shown.text
        found = filter(None, (why, line, first, batch, self._why_abstained))
        return "; ".join([f"{self.program} under {self._under} {said}", *found])

    def to_json(self) -> dict[str, Any]:
        """The object of the command line's `--json`; non-finite numbers become the strings "inf", "-inf", "nan".

        `ledger` (the lines of the table), `interrupted`, `faults`, `links`, `placement` (by task: `replicas`, `there`,
        `variables`, `peak_bytes`), `abstained`, `notes` and the explanation's `cause` are there only if there are any;
        `forced` and `rehearsed` only if true; `culprit` (`file`, `line`, `source`, `op`, `layer`, `relation`,
        `expected`, `inputs`, `step`; null if none was found) and `looked` (`why_not`, `seconds`) only where a step was
        watched;
        `wrong_steps` and `right_steps`, how many those are, only where each step was judged by itself; `proof`
        (`status`, `conditions`, `culprit`, `suspects`, `open_operations`, `reasons`, `values`, `seconds`) only where it
        was asked for; `course` (`steps`, `observed` and `expected` losses, `shares` of replicas at `step`) where there
        is something to show; `environments` (`run` and `reference`, the versions of each, and `reference_python`) only
        where the reference is of another environment.
        """
        first = self.first_divergence
        keys = ("step", "observable", "observed", "expected", "bound", "variable", "index")
        found = ("law", "text", "task", "step", "observable", "variable")
        plain: dict[str, Any] = {
            "program": self.program,
            "strategy": self.strategy,
            "consistent": self.consistent,
            "first_divergence": None if first is None else {key: getattr(first, key) for key in keys},
            "findings": [{key: getattr(finding, key) for key in found} for finding in self.findings],
            "explanation": None
            if (why := self.explanation) is None
            else {"rule": why.rule, "text": why.text, "cure": why.cure},
            "tasks": self.tasks,
            "seconds": self.seconds,
            "laws": [
                {"law": law.law, "status": law.status, "reason": law.reason, "worst_ratio": law.worst_ratio}
                for law in self.judgements
            ],
            "tier": self.tolerance,
            "resolution": {name: found.to_json() for name, found in self.resolution.items()},
        }
        if (abstained := self._why_abstained) is not None:
            plain["abstained"] = abstained
        if why is not None and why.cause is not None:
            plain["explanation"] |= {"cause": why.cause}
        if self.ledger is not None:
            plain["ledger"] = self.ledger.splitlines()
        for key in ("interrupted", "faults", "links", "placement", "notes", "forced", "rehearsed"):
            if (value := getattr(self, key)) not in (None, (), False):
                plain[key] = value
        if self.looked is not None:
            plain |= self.looked.to_json()
        if self.alone is not None:
            plain |= {"wrong_steps": self.alone.wrong, "right_steps": self.alone.right}
        if self._claim is not None:
            plain["proof"] = self._claim.to_json()
        if self.course is not None:
            plain["course"] = self.course.to_json()
        if self.conditions:
            plain["conditions"] = [{"code": each.code, "text": each.text} for each in self.conditions]
        if self.environments is not None:
            plain["environments"] = self.environments.to_json()
        return {key: _strict(value) for key, value in plain.items()}

    def _with(self, status: str) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.status == status]

    def _lines(self, width: int, verbose: bool) -> Iterator[str]:
        broken, held = self._with("broken"), self._with("held")
        yield from self._heading(width)
        if self.faults is not None:
            yield f"  faults: {self.faults['text']}; {_restarted(self.tasks)}"
        if self.interrupted is not None:
            yield f"  {_interruption(**self.interrupted)}"
        if (first := self.first_divergence) is not None:
            yield f"  first divergence: {first.text}"
        if self.alone is not None:
            rest = "; what is wrong at others follows" if self.alone.hide_others and not self.forced else ""
            yield from _wrapped("  each step from the run's own variables: ", self.alone.text + rest, width)
        if broken:
            yield "  broken:"
            for judgement in sorted(broken, key=lambda law: min(map(_when, law.findings))):
                yield from (f"    {judgement.law}: {finding.text}" for finding in judgement.findings)
            if any(finding.observable is not None for finding in self.findings):  # else there are no numbers to explain
                yield from self._explained(width)
        yield from self._blamed(width)
        yield from self._for_every_batch(width)
        if self.ledger is not None:
            yield "  examples by step and worker, next to the reference:"
            shown = (f"    {line}" for line in self.ledger.splitlines())
            yield from (line[: width - 1] + "…" if width < min(_WIDTH, len(line)) else line for line in shown)
        if held:
            yield from _wrapped("  held: ", ", ".join(map(_held, held)), width)
        yield from self._resolved(width)
        if self.links is not None:
            yield f"  bytes between tasks: {_carried(self.links)}"
        yield from self._unjudged(width, verbose)

    def _explained(self, width: int) -> Iterator[str]:
        if (why := self.explanation) is not None:
            yield from _wrapped("  explanation: ", f"{why.rule}: {why.text}", width)
        elif self.culprit is None:
            yield from _wrapped("  explanation: ", f"no rule reproduces these numbers{self._near()}", width)

    def _unjudged(self, width: int, verbose: bool) -> Iterator[str]:
        unjudged = self._with("not_judged")
        if unjudged and not verbose:
            yield from _wrapped("  not judged (-v says why): ", ", ".join(each.law for each in unjudged), width)
        elif unjudged:
            yield "  not judged:"
            yield from (f"    {judgement.law}: {judgement.reason}" for judgement in unjudged)

    def _blamed(self, width: int) -> Iterator[str]:
        """The culprit, or why there is none where something is wrong."""
        if (looked := self.looked) is None:
            return
        if (culprit := looked.culprit) is None:
            yield from _wrapped("  no culprit: ", f"{looked.why_not} (looked for {looked.seconds:.1f} s)", width)
            return
        head, *rest = culprit.lines
        yield f"  culprit: {head}"
        for line in rest:
            yield from _wrapped("    ", line, width)
        if looked.seconds:
            yield f"    (step {culprit.step} watched in {looked.seconds:.1f} s)"

    def _for_every_batch(self, width: int) -> Iterator[str]:
        claim = self._claim
        if claim is not None and not (self.consistent and claim.status == "proved"):  # the heading says that
            yield f"  for every batch: {claim.status}"
            yield from (f"  {line}" for line in claim.lines(width - 2))

    def _resolved(self, width: int) -> Iterator[str]:
        if self.resolution:
            yield from _wrapped("  would have found errors of: ", described(self.resolution), width)

    def _heading(self, width: int) -> Iterator[str]:
        outcome = {"consistent": "consistent", "inconsistent": "INCONSISTENT", "abstained": "NOT JUDGED"}[self.outcome]
        shown = outcome if self._claim is None or not self.consistent else f"{outcome}, {self._claim.short}"
        if (batch := self._counterexample) is not None and not self._with("broken"):
            shown = f"{outcome} for a batch of {'+'.join(map(str, batch.shards))} examples"
        yield f"{self.program} under {self._under}: {shown} ({self.tolerance} tier, {self.seconds:.1f} s)"
        if (why := self._why_abstained) is not None:
            yield from _wrapped("  ", why, width)
        elif self.outcome == "abstained":
            yield "  nothing was compared with the reference"
        if self.forced:
            yield "  forced: each step is judged from the run's own variables, as always"
        for line in given(self.conditions):
            yield from _wrapped("  ", line, width)
        if used := self.accelerators:
            yield from _wrapped("  on: ", "; ".join(f"{task} {', '.join(used[task])}" for task in used), width)
        if self.machines:
            placed = "; ".join(f"{name} ran {', '.join(tasks)}" for name, tasks in self.machines.items())
            yield from _wrapped("  machines: ", f"{placed}; the reference and all other runs were here", width)
        if self.environments is not None:
            yield from _wrapped("  reference and run: ", self.environments.text, width)
        for note in self.notes:
            yield from _wrapped("  note: ", note, width)

    def _near(self) -> str:
        near = self.closest
        if near is None:
            return "; none comes near"
        share = f"{100 * (1 - near.unexplained):.3g} % of the mismatch"
        return f"; the closest, {near.rule}, explains {share} and is off by {near.ratio:.3g} times its bound"


def _restarted(tasks: Mapping[str, Mapping[str, Any]]) -> str:
    again = {name: task["incarnation"] for name, task in tasks.items() if task.get("incarnation")}
    return f"started again: {', '.join(f'{name} {count}x' for name, count in again.items()) or 'nobody'}"


def _carried(links: Mapping[str, int]) -> str:
    """Few links one by one, many by their sum and range."""
    if len(links) <= _LINKS_SHOWN:
        return ", ".join(f"{link} {carried}" for link, carried in links.items()) or "none"
    low, high = min(links.values()), max(links.values())
    return f"{sum(links.values())} on {len(links)} links, {low} to {high} on each"


def _interruption(at: int, resumed_at: int, resume_strategy: str) -> str:
    again = at - resumed_at
    repeated = "" if again <= 0 else f", so that step {at} was" if again == 1 else f", so that {again} steps were"
    done = f"{repeated} done again" if repeated else ""
    return f"interrupted after step {at}, resumed under {resume_strategy} at step {resumed_at}{done}"


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(label + text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _when(finding: Finding) -> tuple[bool, int, int, bool]:
    order = _OBSERVABLE_ORDER
    rank = order.index(finding.observable) if finding.observable in order else len(order)
    return finding.step is None, finding.step or 0, rank, not finding.law.endswith("_reference")


def _held(judgement: Judgement) -> str:
    ratio = f", worst ratio {judgement.worst_ratio:.2g}" if judgement.worst_ratio else ""
    of = f" of {judgement.recorded}" if judgement.recorded > judgement.compared else ""
    return f"{judgement.law} ({judgement.compared}{of} compared{ratio})"


def _strict(value: Any) -> Any:
    """The value in strict JSON: no NaN, no infinities, no tuples."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def broken_by(verdict: Verdict, findings: Iterable[Finding]) -> Verdict:
    """The verdict with findings of runs that its laws have not read, each put to its law."""
    by_law: dict[str, tuple[Finding, ...]] = {}
    for each in findings:
        by_law[each.law] = (*by_law.get(each.law, ()), each)
    known = {law.law: law for law in verdict.judgements}
    broken = {name: judged(name, max(1, known[name].compared) if name in known else 1, by_law[name]) for name in by_law}
    return replace(verdict, judgements=tuple({**known, **broken}.values()))
