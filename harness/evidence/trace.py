"""What a run observed, as one append-only file per client process.

A trace file is a sequence of frames: a four-byte little-endian length, then that many bytes of MessagePack. The first
frame is a `Header`; a process that is killed while writing leaves at most one incomplete frame, which `read_client`
ignores. Copies of a variable that are bit for bit the same are written once. Nothing here imports TensorFlow, and NumPy
only when an array is decoded, so that a saved run can be listed anywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.evidence.arrays import Array
from harness.evidence.counters import Counters, GivenSeen
from harness.evidence.memory_map import map_file, note_access, release_pages

__all__ = [
    "LENGTH",
    "OUTSIDE",
    "STATISTICS",
    "Array",
    "ClientTrace",
    "DrawSeen",
    "Evaluated",
    "Final",
    "Frame",
    "Header",
    "NoHeader",
    "RunTrace",
    "Seen",
    "SeenVariable",
    "Start",
    "Step",
    "Value",
    "Variable",
    "chief_first",
    "frames",
    "is_statistics",
    "merge",
    "read_client",
    "with_variables",
]

LENGTH = struct.Struct("<I")


class Value(msgspec.Struct, frozen=True):
    """A loss, gradient or metric as one client reported it.

    `per_replica` is true of a PerReplica value: then `parts` holds one array per local replica and the global value is
    the sum over all replicas of all clients, the convention of `tf.nn.compute_average_loss` and `strategy.reduce(SUM)`.
    Else `parts` holds one array, already reduced, and `others` the copies on a mesh that differ from it.
    """

    name: str
    parts: tuple[Array, ...]
    per_replica: bool = False
    others: tuple[Array, ...] = ()


class Variable(msgspec.Struct, frozen=True):
    """One variable: every local replica's copy, or the aggregate of an on-read variable.

    `places` is in files only, where `copies` are those that differ: which of them each replica has.
    """

    name: str
    copies: tuple[Array, ...]
    # "plain" has one copy, "mirrored" has identical ones, those of "on_read" may differ: `aggregated` is the value.
    kind: str = "plain"
    aggregated: Array | None = None
    places: tuple[int, ...] = ()

    @property
    def value(self) -> Array:
        """The value to compare with the reference."""
        return self.copies[0] if self.aggregated is None else self.aggregated

    def packed(self) -> Variable:
        """The same as it is written: each copy once."""
        different: list[Array] = []
        places = []
        for copy in self.copies:
            place = next((k for k, known in enumerate(different) if known == copy), len(different))
            different += [copy] * (place == len(different))
            places.append(place)
        if len(different) == len(places):
            return self
        return msgspec.structs.replace(self, copies=tuple(different), places=tuple(places))

    def unpacked(self) -> Variable:
        """The same as it was before it was written: a copy for each replica."""
        if not self.places:
            return self
        copies = tuple(self.copies[place] for place in self.places)
        return msgspec.structs.replace(self, copies=copies, places=())


class Header(msgspec.Struct, frozen=True, tag=True):
    """Who wrote this trace, under what strategy, and on what devices: a description of each GPU, or `cpu:N`.

    `at_once` is true of a script that is to be killed: its steps are those that were seen, each of them written as soon
    as it was done. `onednn` is whether products and convolutions on a CPU are computed by oneDNN; None in earlier
    traces. `follows` is whether this process followed a run, step by step. `are_single` says that its steps were taken
    out of a longer training, each by itself.
    """

    task: str
    incarnation: int
    strategy: str
    replicas: int
    local_replicas: int
    clients: int
    seed: int
    versions: dict[str, str] = {}
    at_once: bool = False
    devices: tuple[str, ...] = ()
    onednn: bool | None = None
    follows: bool = False
    are_single: bool = False


MEMORY = "memory"
"""The kind of a `SeenVariable` that is a number of Python in a callback."""
STATISTICS = "statistics"
"""The kind of a `SeenVariable` that batch normalization keeps, of each replica's own batches where it is not
synchronized.
"""


def is_statistics(name: str) -> bool:
    """Whether batch normalization of Keras calls a variable so, which rightly may keep it on each replica by itself."""
    return name.rpartition("/")[2].partition(":")[0] in ("moving_mean", "moving_variance")


class SeenVariable(msgspec.Struct, frozen=True):
    """A variable that nobody reported: its first copy, those that differ from it, and how many are bit for bit as it.

    `name` is what Keras or TensorFlow calls it, which several may share.
    """

    name: str
    kind: str
    copies: tuple[Array, ...]
    equal: int = 0

    def as_reported(self, name: str) -> Variable:
        """The same as `record.step` would have written it."""
        first, *others = self.copies
        return Variable(name, (first, *[first] * self.equal, *others), self.kind)


class DrawSeen(msgspec.Struct, frozen=True):
    """Something about what replicas drew in a step, which says nothing yet of what they computed from it.

    `kind` is `equal`, where replicas drew the same numbers for different examples; `equal_by_process`, where they did
    so because each process was given the same seed, and the draw none; `again`, where what one drew had been drawn
    before, and one device does not draw it again; `unlike`, where they drew from another distribution than one device;
    `own`, where each drew something that belongs to no example; `order`, where each drew an order of its rows; `state`,
    where Python gave what follows from more than its arguments and random generators; `mixed_rows`, where what it drew
    for an example depends on those beside it; `statistics`, where each normalised by its own batch. `where` is the line
    of the program, `operation` what draws, `by_keras` whether Keras chose the seed.
    """

    kind: str
    text: str
    where: str
    by_keras: bool = False
    operation: str = ""


class MeanSeen(msgspec.Struct, frozen=True):
    """What local replicas have added in a step to a mean that a Keras metric keeps.

    `name` is the metric's, `where` the line of the program that updates it. `parts` has of each local replica what it
    added to the sum and to the count, float64 [2].
    """

    name: str
    where: str
    parts: tuple[Array, ...]


class ArgumentSeen(msgspec.Struct, frozen=True):
    """A number, or a few of them, that a step was given besides its examples: its name there, and the call's line."""

    name: str
    line: str
    value: Array


class Start(msgspec.Struct, frozen=True, tag=True):
    """What all variables held when the first step began, or in a process that follows the first step of a part.

    Of a script that may be killed it is known of each step; see `Header.at_once`. `at` is as of `Step`, `index` is that
    of the step among those that were seen, and `after` as of `Seen`. `lead` is true of later ones, as long as the
    program has taken no gradients: with the last of these it takes the first, or it never does.
    """

    at: float
    variables: tuple[SeenVariable, ...]
    index: int = 1
    after: int = 0
    lead: bool = False

    @property
    def step(self) -> int:
        """That of the step, among those that the program reports if it does."""
        return self.after + 1 if self.after else self.index


class Seen(msgspec.Struct, frozen=True, tag=True):
    """What the harness saw of one training step by itself, without being told; see `harness.recording.witness`.

    `after` is how often `record.step` had been called before: in a program that calls it, this belongs to the next one.
    `loss` is what `fit` logged. `variables` are None where they were not looked at. `examples` has one tuple of
    fingerprints for each local replica, made of the arguments at the positions `columns` of so many `calls` of
    `Strategy.run`: more than one, where a loop over batches is one step. `losses` and `gradients` are
    what each local replica's tapes were asked for, `reduced` is what left reductions, each by the name of its
    `tf.distribute.ReduceOp`. `worker` is the one that ran the
    closure which it is, of a coordinator none of whose tasks was started again. Of a process that follows a run `apart`
    says why one replica cannot compute the run's step, `draws` what is to be said of its draws, and `given` of its
    examples. `means` are those of Keras metrics. `by_hand` says that the program had taken no gradients by then. Of a
    step that is taken out of its training `called` tells which function of the program it was, and `own` has of each
    variable of which replicas may have something of their own the copy of each local one; its kind is as of
    `HeldVariable.how`. `arguments` are numbers that its function was given.
    """

    index: int
    at: float
    after: int = 0
    loss: Value | None = None
    variables: tuple[SeenVariable, ...] | None = None
    examples: tuple[tuple[int, ...], ...] | None = None
    columns: tuple[int, ...] = ()
    calls: int = 1
    losses: tuple[Value, ...] = ()
    gradients: tuple[Value, ...] = ()
    reduced: tuple[Value, ...] = ()
    worker: int | None = None
    apart: str | None = None
    draws: tuple[DrawSeen, ...] = ()
    given: GivenSeen | None = None
    means: tuple[MeanSeen, ...] = ()
    by_hand: bool = False
    called: str = ""
    own: tuple[SeenVariable, ...] = ()
    arguments: tuple[ArgumentSeen, ...] = ()


EVALUATE = "model.evaluate"
"""How an evaluation by Keras is called, of which what that logs is known, in `fit` too."""


class Evaluated(msgspec.Struct, frozen=True, tag=True):
    """What a call has given back that ran replicas and took no gradients: the numbers that are the same for all.

    `after` is the step before it, and `number` is 0 for the first such call of this name after that. `name` is what the
    program calls it. `apart` is, in a process that follows a run, why one replica cannot compute it. A call that
    `trains` is the step `after` itself, or reduces what came of it, or is `EVALUATE`. `means` are those of Keras
    metrics that an evaluation has updated. A call that `reduces` is `Strategy.reduce` of what the step or an
    evaluation gave.
    """

    after: int
    number: int
    at: float
    name: str
    values: tuple[Value, ...]
    apart: str | None = None
    trains: bool = False
    means: tuple[MeanSeen, ...] = ()
    reduces: bool = False


class Step(msgspec.Struct, frozen=True, tag=True):
    """One call of `record.step`: `index` counts from 1 within the program, `at` is CLOCK_MONOTONIC in seconds.

    `seen` is in no file: `harness.evidence.witness_values` puts what was seen of this step by itself beside it.
    `logged` is the Keras whose callback has reported it, `keras` or `tf_keras`.
    """

    index: int
    at: float
    loss: Value | None = None
    gradients: tuple[Value, ...] | None = None
    variables: tuple[Variable, ...] | None = None
    examples: tuple[tuple[int, ...], ...] | None = None  # example ids, one tuple per local replica
    metrics: tuple[Value, ...] | None = None
    # Under ParameterServerStrategy Keras shows ends of epochs; such a step matches that with `epoch_end` set.
    epoch: int | None = None
    epoch_end: bool = False
    # Where a coordinator's chief reports what its workers consumed: the task of each tuple of `examples`.
    consumers: tuple[str, ...] | None = None
    scheduled: int | None = None  # closures that a coordinator had been given by then; None without one
    seen: Seen | None = None
    logged: str | None = None


class Final(msgspec.Struct, frozen=True, tag=True):
    """The one call of `record.final`."""

    at: float
    variables: tuple[Variable, ...] | None = None
    predictions: tuple[Value, ...] | None = None
    metrics: tuple[Value, ...] | None = None


OUTSIDE = -1
"""Stands for the number of a replica where gradients are taken outside of every replica."""


Frame = Header | Step | Seen | Start | Evaluated | Final | Counters
_Frame = TypeVar("_Frame", bound=Frame)
_DECODER = msgspec.msgpack.Decoder(Frame)


class ClientTrace(msgspec.Struct, frozen=True):
    """Everything one client process recorded, in the order it happened; `seen` is what nobody had to report."""

    header: Header
    steps: tuple[Step, ...] = ()
    final: Final | None = None
    counters: Counters = Counters()
    whole: bool = True  # whether its process was not killed
    seen: tuple[Seen, ...] = ()
    start: Start | None = None
    evaluated: tuple[Evaluated, ...] = ()
    starts: tuple[Start, ...] = ()

    @property
    def lead(self) -> int:
        """How many steps it had before the first that takes gradients; 0 where none does."""
        return next((seen.index - 1 for seen in self.seen if not seen.by_hand), 0)

    @property
    def trained_from(self) -> Start | None:
        """What the first step that takes gradients began with, as far as that is known."""
        before = [each for each in self.starts if each.lead and each.index <= self.lead + 1]
        return before[-1] if before else self.start


class RunTrace(msgspec.Struct, frozen=True):
    """All clients of one run; `clients[0]` is the chief (or worker 0)."""

    clients: tuple[ClientTrace, ...]

    @property
    def header(self) -> Header:
        """The chief's header."""
        return self.clients[0].header

    @property
    def observed_anything(self) -> bool:
        """Whether any client recorded a value (an empty call of `step` observes nothing but the step itself)."""
        fields = ("loss", "gradients", "variables", "examples", "metrics", "predictions")
        records = (record for client in self.clients for record in (*client.steps, client.final))
        return any(getattr(record, field, None) not in (None, ()) for record in records for field in fields)

    @property
    def examples_are_seen(self) -> bool:
        """Whether examples are what was seen of them, at each step, and nobody has reported which they are."""
        seen = [step.seen for client in self.clients for step in client.steps]
        return all(each is not None and each.examples is not None for each in seen)


class NoHeader(ValueError):
    """Raised when a file does not begin with a `Header`: its process died before it had written one."""


def with_variables(frame: _Frame, change: Callable[[Variable], Variable]) -> _Frame:
    """The frame with each variable of `record` changed."""
    if not isinstance(frame, (Step, Final)) or not frame.variables:
        return frame
    return msgspec.structs.replace(frame, variables=tuple(map(change, frame.variables)))


def frames(path: Path, *, changed: bool = False) -> Iterator[Frame | None]:
    """The frames, one after another, and None where the writer was killed inside one.

    Args:
        path: of the file.
        changed: whether numbers that are written into the arrays are to be written into the file.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    data = map_file(path, changed=changed)
    position = 0
    while position < len(data):
        (length,) = LENGTH.unpack_from(data, position) if position + LENGTH.size <= len(data) else (len(data),)
        position += LENGTH.size
        if position + length > len(data):
            yield None
            return
        try:
            yield with_variables(_DECODER.decode(data[position : position + length]), Variable.unpacked)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"{path} is damaged at byte {position}: {error}") from error
        position += length
        note_access(length)


def read_client(path: Path) -> ClientTrace:
    """Read one trace file.

    Raises:
        NoHeader: the file does not begin with a `Header`.
        ValueError: it is damaged.
        OSError: it cannot be read.
    """
    header, final, counters = None, None, Counters()
    frame: Frame | None = None
    steps, seen, starts, evaluated = list[Step](), list[Seen](), list[Start](), list[Evaluated]()
    for frame in frames(path):
        if isinstance(frame, Header):
            header = frame
        elif isinstance(frame, Step):
            steps.append(frame)
        elif isinstance(frame, Seen):
            seen.append(frame)
        elif isinstance(frame, Start):
            starts.append(frame)
        elif isinstance(frame, Evaluated):
            evaluated.append(frame)
        elif isinstance(frame, Final):
            final = frame
        elif frame is not None:
            counters = frame
    release_pages()  # the system reads ahead, and only the frames' heads are needed now
    if header is None:
        raise NoHeader(f"{path} is not a trace: it holds no header")
    whole = isinstance(frame, Counters)  # a recorder counts when it is closed
    rest = (tuple(seen), next(iter(starts), None), tuple(evaluated), tuple(starts[1:]))
    return ClientTrace(header, _with_epoch_ends(steps), final, counters, whole, *rest)


def _with_epoch_ends(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Mark the last step of each epoch: a callback learns that an epoch has ended after its last step was written."""
    following = [*(step.epoch for step in steps[1:]), None][: len(steps)]
    return tuple(
        msgspec.structs.replace(step, epoch_end=True) if step.epoch is not None and step.epoch != then else step
        for step, then in zip(steps, following, strict=True)
    )


def merge(clients: Sequence[ClientTrace]) -> RunTrace:
    """Put the clients of one run together, chief or worker 0 first, the others by task name."""
    return RunTrace(clients=tuple(sorted(clients, key=lambda client: chief_first(client.header.task))))


def chief_first(task: str) -> tuple[bool, str, int]:
    """What tasks such as `worker:0` are sorted by: the chief, then by job and number."""
    job, _, index = task.partition(":")
    return job != "chief", job, int(index)
