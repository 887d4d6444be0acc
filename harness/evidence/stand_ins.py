"""What the reference of a script was told in place of the cluster, and what is said of a script by a fixed sentence."""

from __future__ import annotations

import msgspec


class StandIn(msgspec.Struct, frozen=True):
    """Something that the reference of a script answers in place of the cluster that it stands for.

    Attributes:
        what: was read, such as `num_replicas_in_sync`.
        where: `train.py:12`, the line of the program that reads it.
        taken: what it was taken for, for a sentence.
        trust: `sure`; `meant`, where one device may have another number, such as a rate; `size`, where it is one
            unless something differs; `assumed`, where a run that differs may be right nevertheless; or `unknown`, where
            nothing that is found says anything.
        product: what comes of a whole number that it multiplies, such as a batch; 0 of other uses.
    """

    what: str
    where: str
    taken: str
    trust: str = "sure"
    product: int = 0


COUNT = "num_replicas_in_sync"
"""How `StandIn.what` begins where the number of replicas was read."""

WORKERS = "the number of workers"
"""The same where that of workers was read, of the resolver's cluster or of `TF_CONFIG`."""

DIVIDES = "divides a tensor"
"""How `StandIn.what` ends where a tensor is divided by that number."""

DIVIDES_WHOLE = "divides a whole number"
"""The same where that is a batch, or a number of steps."""

ENDLESS = "when a step ends whose gradients are taken outside of a tf.function and of strategy.run"
"""In `Counters.unseen` of a script that is to be killed."""

UNJOINED = "closures neither joined nor fetched when"
"""In `StandIn.what` of a script whose closures are run one at a time, so that they are done all the same."""

UNFINISHED = "closures that train, not joined when"
"""In `StandIn.what`, where it is the script's last save, or its end, that may lack what they train."""

BY_HAND = "Dataset.shard by the number of the worker"
"""In `StandIn.what`."""

DRAWN = "random numbers outside of replicas"
"""In `StandIn.what` of a script that is to be killed: drawn in its data pipeline, or by Python."""
