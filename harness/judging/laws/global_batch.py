"""Law: what the program says of its global batch is not less than what replicas average by it together.

`tf.nn.compute_average_loss` divides by `global_batch_size`, "the global batch size" in TensorFlow's words, for replicas
whose results are then added up. Told the batch of one replica, it computes the same whatever the number of replicas, so
that no reference shows it, and the rate grows with them. A larger number is no mistake: the last batch of an epoch is
smaller than the others, and what is accumulated over several steps is averaged over all of them. Nor is a number of
examples where there are more losses than these, as of words.
"""

from __future__ import annotations

from collections import defaultdict

from harness.evidence.averages import Average
from harness.evidence.seen import rows_of
from harness.evidence.trace import RunTrace
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.reduction import share_of_run

__all__ = ["LAW", "averages_of"]

_ID = "global_batch"


class _GlobalBatch(Law):
    id = _ID
    order = 44
    suffices = False

    def concerns(self, case: Case) -> bool:
        return any(client.counters.averages for client in case.run.clients)

    def judge(self, case: Case) -> Judgement:
        """Hold each line's number against the losses that all processes have by it in one step."""
        if share_of_run(case.run) != 1.0:
            return not_judged(self.id, "it is not known that replicas add up their gradients: a mean needs their batch")
        together = averages_of(case.run)
        if not together:
            return not_judged(self.id, "no losses were seen of which there is one for each example")
        findings = [_told_less(each, case.run.header.replicas) for each in together if each.losses > each.batch]
        return judged(self.id, len(together), tuple(findings))


def averages_of(run: RunTrace) -> list[Average]:
    """What lines have averaged over all processes, where these have one loss of each example."""
    together: dict[tuple[str, int, int], int] = defaultdict(int)
    for client in run.clients:
        rows = {seen.index: len(rows_of(seen)) for seen in client.seen}
        for each in client.counters.averages:
            if each.losses == rows.get(each.step):
                together[each.line, each.batch, each.step] += each.losses
    return [Average(line, batch, losses, step) for (line, batch, step), losses in together.items()]


def _told_less(average: Average, replicas: int) -> Finding:
    text = (
        f"tf.nn.compute_average_loss at {average.line} is told a global batch of {average.batch}, by which the "
        f"{replicas} replicas together average {average.losses} losses at step {average.step}; give it the number of "
        "examples of all replicas"
    )
    return Finding(
        law=_ID,
        text=text,
        step=average.step,
        observable="loss",
        observed=float(average.batch),
        expected=float(average.losses),
        bound=0.0,
    )


LAW = _GlobalBatch()
