"""What is counted of a process while it trains, and what is said of its examples, its work and its devices."""

from __future__ import annotations

import msgspec

from harness.evidence.assignments import Assignment
from harness.evidence.averages import Average
from harness.evidence.pipelines import Pipeline
from harness.evidence.stand_ins import StandIn


class PartMix(msgspec.Struct, frozen=True):
    """Two parts of examples that one device has together, of which the run has the one with that of another example.

    Attributes:
        parts: how many parts these examples have, and the numbers of the two: what tells an example, and the other one.
        examples: how many of the run's are such.
        steps: of the first such steps, and how many there.
        owners: of some examples of one device, the value that tells it and that of the other part.
    """

    parts: tuple[int, int, int]
    examples: int
    steps: tuple[tuple[int, int], ...] = ()
    owners: tuple[tuple[int, int], ...] = ()


class GivenSeen(msgspec.Struct, frozen=True):
    """What is to be said of the examples that a step of the run was given, next to those that one device is given.

    Attributes:
        rows: how many examples the run has.
        own: how many one device has.
        others: how many of the run's rows one device has not in this step.
        mixes: over all steps, the pairs of parts that do not come together as on one device.
        changed: how many are one device's but for a part, the same ones each time that they come.
        again: a number of examples, how many of so many of the run had come before, and how many of so many of one
            device, if these are fewer than chance can tell; zeros otherwise.
        number: tells all examples of one device from others, in any order; 0 where their shapes are not alike.
        sizes: of several steps, how many examples the run and one device have where these first differ; else zeros.
    """

    rows: int
    own: int
    others: int
    mixes: tuple[PartMix, ...] = ()
    changed: int = 0
    again: tuple[int, int, int] = (0, 0, 0)
    number: int = 0
    sizes: tuple[int, int] = (0, 0)


class Work(msgspec.Struct, frozen=True):
    """What the replicas of this process took part in, counted when Python runs: once a trace of a `tf.function`.

    Attributes:
        entered: by replica how often its function was begun.
        gradients: by replica, or `OUTSIDE` of all, how often gradients were taken.
        combined: by number of elements, 0 if unknown, what workers have reduced or gathered each time it was done.
        returned: what of that `Strategy.reduce` or `gather` gave back.
        reduced: the other calls that combined values of replicas, whether of one worker or of several.
        handed: the part of `returned` that was combined eagerly.
        contributed: a checksum of all that this process contributed eagerly.
        changed: names of the recorded variables into which something combined has gone, as far as graphs show it.
        placed: the devices that the program has named to `tf.device`.
    """

    entered: dict[int, int] = {}
    gradients: dict[int, int] = {}
    combined: dict[int, int] = {}
    returned: dict[int, int] = {}
    reduced: int = 0
    handed: dict[int, int] = {}
    contributed: int = 0
    changed: tuple[str, ...] = ()
    placed: tuple[str, ...] = ()


class DevicePlacement(msgspec.Struct, frozen=True):
    """Where a client's replicas and variables stood when its program had ended.

    Devices are written `GPU:0`, and those of other tasks `ps:1 CPU:0`. `replicas` are those of the local replicas, by
    number, as the strategy has them; none for the default strategy. `there` are all that TensorFlow has. `variables`
    has the device of each local copy of those that the program reported, if they are floating. `peak_bytes` is the most
    that was ever in use on each GPU of the process.
    """

    replicas: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    variables: dict[str, tuple[str, ...]] = {}
    peak_bytes: dict[str, int] = {}


class Counters(msgspec.Struct, frozen=True, tag=True):
    """What the harness counted by itself in this process.

    Attributes:
        scheduled: closures handed to `ClusterCoordinator.schedule` that may update what is trained, None without any.
        per_epoch: whether Keras showed ends of epochs only.
        retried: closures that were taken back from lost workers.
        unseeded: NumPy's generators without a seed.
        dataset_draws: operations that draw in functions of data sets, of a process among several workers.
        dataset_orders: data sets that draw without a seed, otherwise than in the reference.
        drawn_apart: how often it drew so by NumPy's own generator, or by operations outside of a strategy's scope.
        work: what its replicas did.
        coarsest: of a reference with noise, the coarsest floating dtype of its variables, gradients and Keras policies:
            what the program computes in.
        unseen: sentences on what nobody could see.
        raised: those of them that are always told.
        overwritten: sentences on arrays that a generator wrote over.
        stand_ins: what a script's reference was told in place of the cluster's.
        cut: after how many steps it was ended.
        placement: where its replicas and variables stood.
        others: of a process that follows a run, at how many steps that had other examples than it was given.
        all_examples: of such a process what `Seen.given` says of one step, of all together.
        apart: of such a process, why what it did last cannot be judged by one replica; None if it can.
        trains_aside: whether it took gradients in threads of its own only, where no step is seen.
        unjoined: lines of closures that were not joined or fetched.
        tables: lines that write a table.
        packed: lines that laid out unlike copies, with their steps.
        pipelines: the data sets that were iterated.
        unread: variables of which each replica has its own.
        assigned: lines that gave variables values between steps, the latest last.
        restored: lines that restored something before the first step.
        averages: what was said of the global batch.
        by_replica: lines that make a value for each replica by its number.
        state: floating variables that it keeps and does not train.
        counted: lines of a function that ask for the number of replicas.
    """

    scheduled: int | None = None
    per_epoch: bool = False
    retried: int = 0
    unseeded: int = 0
    dataset_draws: int = 0
    dataset_orders: int = 0
    drawn_apart: int = 0
    work: Work | None = None
    coarsest: str | None = None
    unseen: tuple[str, ...] = ()
    raised: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    cut: int | None = None
    placement: DevicePlacement | None = None
    others: int = 0
    all_examples: GivenSeen | None = None
    apart: str | None = None
    trains_aside: bool = False
    unjoined: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    packed: tuple[tuple[str, int], ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    unread: tuple[str, ...] = ()
    assigned: tuple[Assignment, ...] = ()
    restored: tuple[str, ...] = ()
    averages: tuple[Average, ...] = ()
    by_replica: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
