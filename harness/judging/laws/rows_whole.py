"""Law: a step is given as many examples as on one device, and their parts stay together.

This holds also where examples are drawn, so that nobody knows which they have to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evidence.counters import GivenSeen, PartMix
from harness.evidence.trace import Step
from harness.judging.laws.protocol import FINDINGS_MAX, Case, Finding, Judgement, Law, judged


class _RowsWhole(Law):
    id = "rows_whole"
    order = 41
    suffices = False
    cure = (
        "Give a step the global batch: strategy.experimental_distribute_dataset divides it; a dataset function makes "
        "batches of context.get_per_replica_batch_size(global_batch), of the shard "
        "data.shard(context.num_input_pipelines, context.input_pipeline_id). Map features and labels together."
    )

    def concerns(self, case: Case) -> bool:
        reference = case.reference.clients[0]
        by_step = any(step.seen is not None and step.seen.given is not None for step in reference.steps)
        # Where replicas have examples at other steps than one device, only all of them together can tell.
        return by_step or (reference.counters.all_examples is not None and bool(reference.counters.all_examples.mixes))

    def judge(self, case: Case) -> Judgement:
        """Read what the process that followed the run was given in place of its own examples."""
        client = case.reference.clients[0]
        known = [step for step in client.steps if step.seen is not None and step.seen.given is not None]
        total = client.counters.all_examples or GivenSeen(0, 0, 0)
        findings = [*self._mixed(total.mixes), *(finding for step in known for finding in self._of_size(step))]
        # What a worker draws, once for all epochs or by the harness's seed, one device draws otherwise.
        counted = [client.counters for client in case.run.clients]
        drawn = any(each.unseeded or each.dataset_draws or each.drawn_apart for each in counted)
        if total.changed and not drawn and not total.mixes:
            number = "1 example is" if total.changed == 1 else f"{total.changed} examples are"
            text = f"{number} one device's but for a part, such as a weight, and the same each time that it comes"
            findings.append(Finding(self.id, text, observable="examples"))
        return judged(self.id, max(1, len(known)), tuple(findings[:FINDINGS_MAX]))

    def _mixed(self, mixes: Sequence[PartMix]) -> Iterator[Finding]:
        """Of the two parts that are mixed most often."""
        for step, count in max(mixes, key=lambda mix: mix.examples).steps if mixes else ():
            text = f"step {step}: {count} examples have a part that belongs to another one, such as a label"
            yield Finding(self.id, text, step=step, observable="examples")

    def _of_size(self, step: Step) -> Iterator[Finding]:
        given = None if step.seen is None else step.seen.given
        if given is not None and given.rows != given.own:
            text = f"step {step.index}: replicas were given {given.rows} examples, and one device is given {given.own}"
            yield Finding(self.id, text, step=step.index, observable="examples")


LAW = _RowsWhole()
