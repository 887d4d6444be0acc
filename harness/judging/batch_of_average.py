"""Of a script that contributes too much by its replicas: whether it has told TensorFlow of the batch of one of them.

`tf.nn.compute_average_loss` divides by `global_batch_size`, "the global batch size" in TensorFlow's words, for replicas
whose results are then added up. Told the batch of one replica, written as a number, a script computes the same on one
device, so that its reference does not show it.
"""

from __future__ import annotations

from harness.evidence.averages import Average
from harness.evidence.trace import RunTrace
from harness.judging.laws.protocol import Finding

TOLD_BATCH = "global_batch"
"""What such a finding is put to in place of a law."""


def average_of_one_replica(run: RunTrace) -> tuple[Average, int] | None:
    """The line that gives as global batch what each replica has by itself, or each worker; None if there is none.

    With it comes how many replicas, or workers, there are, and so how many times too small that is.
    """
    for each in run.clients[0].counters.averages:
        steps = [[seen for seen in client.seen if seen.index == each.step] for client in run.clients]
        shares = [[len(rows) / seen.calls for seen in step for rows in seen.examples or ()] for step in steps]
        of_replicas = {count for share in shares for count in share}
        of_workers = {sum(share) for share in shares}
        for parts, count in ((of_replicas, sum(map(len, shares))), (of_workers, len(shares))):
            if count > 1 and parts == {each.batch}:
                return each, count
    return None


def told_batch_finding(average: Average, factor: float) -> Finding:
    """What is wrong with it; `factor` is how many times as much as one device the replicas contribute."""
    text = (
        f"tf.nn.compute_average_loss at {average.line} is told a global batch of {average.batch}, which is that of one "
        f"replica, or worker: all together contribute {factor:.4g} times what the script computes on one device; give "
        "it the number of examples of all replicas"
    )
    return Finding(
        law=TOLD_BATCH,
        text=text,
        step=average.step,
        observable="loss",
        observed=float(average.batch),
        expected=float(average.batch) * factor,
        bound=0.0,
    )
