"""Law: what an evaluation gives is what it gives on one device.

An evaluation is a call that runs replicas and takes no gradients. Nothing that is trained shows it, and yet people
choose by it: a mean of replicas' means, of which one has fewer examples, is another number than the mean of all.
"""

from __future__ import annotations

from harness.evidence.comparing import Comparison
from harness.evidence.observed import is_integer
from harness.judging.given_back import GivenNumber, GivenNumbers, calls_of, given_numbers, means_of_evaluations
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged

EVALUATION = "evaluation"
"""What such a finding is about."""


class _EvaluationsMatchReference(Law):
    id = "evaluations_match_reference"
    order = 95
    suffices = False

    def concerns(self, case: Case) -> bool:
        return case.follows and case.interruption is None and bool(calls_of(case.reference, steps=False))

    def judge(self, case: Case) -> Judgement:
        """Compare what all clients of the run have been given alike with what one replica was given.

        A program may scale what it gets by the number of replicas, which is a condition.
        """
        if case.wholes:
            return not_judged(self.id, "what replicas that stand each for a whole give an evaluation is a mean")
        truth = calls_of(case.reference, steps=False).values()
        if all(each.apart is not None for each in truth):
            why = next(each.apart for each in truth)
            return not_judged(self.id, f"no evaluation can be computed by one replica: {why}")
        # A whole number, such as of right answers, may be another one where a rounding decides.
        given = [each for each in given_numbers(case, steps=False) if not is_integer(each.numbers[0].expected.dtype)]
        means = means_of_evaluations(case)
        compared = [each for each in given if each.factor(case.run.header.replicas) in (None, 1.0)]
        findings, worst = [], 0.0
        for each in (*compared, *means):
            for one in each.numbers:
                difference = one.compared()
                worst = max(worst, difference.ratio)
                if difference.ratio > 1:
                    findings.append((self._finding(each, one, difference), difference.ratio))
        recorded, left = (sum(len(each.numbers) for each in (*those, *means)) for those in (given, compared))
        if not left:
            nothing = "evaluations give nothing that is one number for all replicas"
            return not_judged(self.id, "the program scales what evaluations give back" if recorded else nothing)
        told = first_per_value(sorted(findings, key=lambda each: each[0].step or 0))
        return judged(self.id, left, told, worst, recorded=recorded)

    def _finding(self, given: GivenNumbers, one: GivenNumber, difference: Comparison) -> Finding:
        return Finding(
            law=self.id,
            text=f"{given.called} after step {one.step}: {difference.text}",
            step=one.step,
            observable=EVALUATION,
            variable=given.called,
            observed=difference.observed,
            expected=difference.expected,
            bound=difference.bound,
        )


LAW = _EvaluationsMatchReference()
