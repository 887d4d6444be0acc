"""Every variable that a program makes, by what it is called, and which of them are judged."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.evidence.trace import is_statistics
from harness.recording.owners import BATCHES, METRIC, PROGRAM, SAVES, owner_of
from harness.recording.shards import is_sharded, name_of, whole_of
from harness.recording.tensors import is_keras_variable, tensor_of

_FRAMES_MAX = 24
"""Between the constructor of a Keras variable and that of the TensorFlow variable in it are fewer calls."""

_LOCAL = ("gradient_accumulator",)
"""In the names of variables that keep what each replica has by itself until it is reduced (Keras 3's
`gradient_accumulation_steps`).
"""


_NOT_NUMBERS = ("string", "resource", "variant")


@dataclass(frozen=True)
class RegisteredName:
    """A variable by its name, and its number among those of that name, from 0."""

    name: str
    number: int


_NO_STATE = ("a random generator", BATCHES, SAVES)


@dataclass(eq=False)
class VariableEntry:
    """A variable that was made.

    Attributes:
        made: refers to it.
        owner: whose it is, as of `harness.recording.owners`.
        keras: refers to the Keras variable that holds it, if one does; that knows its path.
        trained: whether a tape was asked for a gradient of it, or an optimizer was given one.
        reported: whether the program has reported it.
        added_to: whether what replicas add to it is seen, of a mean that a metric keeps.
    """

    made: weakref.ref[Any]
    owner: str
    keras: weakref.ref[Any] | None
    trained: bool = False
    reported: bool = False
    added_to: bool = False

    @property
    def name(self) -> str:
        """What Keras or TensorFlow calls it."""
        holder = None if self.keras is None else self.keras()
        return name_of(holder if holder is not None else self.made()) or "variable"

    @property
    def is_statistics(self) -> bool:
        """Whether batch normalization of a Keras keeps it."""
        return (self.keras is not None or self.owner == "a layer") and is_statistics(self.name)

    def judged(self, variable: Any, *, alone: bool) -> bool:
        """Whether it has to be the same in every replica and in the reference, whatever a program means by it.

        Not so what a metric keeps, nor what draws; nor what a program has made for one process of several. Nor a
        variable that is reduced when it is read, but for the statistics of tf_keras: of these copies have the mean.

        Args:
            variable: itself.
            alone: whether no other process trains with this one.
        """
        import tensorflow as tf
        from tensorflow.python.distribute.ps_values import AggregatingVariable

        if variable.dtype.base_dtype.name in _NOT_NUMBERS or self.owner in (METRIC, *_NO_STATE):
            return False
        if getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ:
            return self.is_statistics
        kept = self.trained or alone or self.owner in ("an optimizer", "a layer", "a model")
        kept = kept or isinstance(variable, (tf.distribute.DistributedValues, AggregatingVariable))
        return kept and not any(part in self.name for part in _LOCAL)


class Registry:
    """The variables in the order in which they were made; `alone` as of `VariableEntry.judged`.

    Attributes:
        weights: how many of them are no optimizer's, which makes slots that begin with a constant, and no metric's.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self.weights = self._dropped = 0
        self._entries: list[VariableEntry] = []
        self._known: dict[int, VariableEntry] = {}
        self._inside: dict[int, VariableEntry] = {}
        self._on_read: list[tuple[VariableEntry, str]] = []
        self._own: list[tuple[VariableEntry, str]] = []
        self._lock = threading.Lock()
        self._judged: list[VariableEntry] | None = None
        self._state: dict[bool, list[tuple[RegisteredName, VariableEntry]]] = {}
        self._making = threading.local()

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Around the making of a variable in this thread."""
        before, self._making.now = self.is_making, True
        try:
            yield
        finally:
            self._making.now = before

    @property
    def is_making(self) -> bool:
        """Whether a variable is being made in this thread, which may draw its initial value."""
        return getattr(self._making, "now", False)

    def add(self, variable: Any, owner: str | None = None) -> None:
        """Note a variable where it is made; of a partitioned one its shards, which are what is trained.

        Args:
            variable: of TensorFlow, or of a Keras that has made it before.
            owner: of one that was made before.
        """
        import tensorflow as tf
        from tensorflow.python.distribute import sharded_variable

        if isinstance(variable, sharded_variable.ShardedVariable):
            for shard in variable.variables:
                self.add(shard)
            return
        holder = weakref.ref(variable) if is_keras_variable(variable) else _holder()
        variable = tensor_of(variable)
        entry = VariableEntry(weakref.ref(variable), owner or owner_of(), holder)
        own = entry.keras is None and entry.owner not in (METRIC, "an optimizer") and not is_statistics(entry.name)
        if own and getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ:
            self._on_read.append((entry, entry.name))
        if own and entry.owner == PROGRAM and variable.dtype.is_floating:
            self._own.append((entry, entry.name))
        with self._lock:
            self.weights += entry.owner not in (METRIC, "an optimizer", *_NO_STATE)
            self._entries.append(entry)
            self._known[id(variable)] = entry
            self._inside.update((id(inside), entry) for inside in _inside(variable))
            self._forget_judged()

    def train(self, variable: Any) -> None:
        """Note that a variable is trained."""
        entry = self.entry(variable)
        if entry is not None and not entry.trained:
            entry.trained = True
            self._forget_judged()

    def _forget_judged(self) -> None:
        """Have it seen again which are judged: each of the two memories may be asked first."""
        self._judged = None
        self._state.clear()

    def entry(self, variable: Any) -> VariableEntry | None:
        """That of a variable of Keras or TensorFlow, or of one copy of a distributed one."""
        import tensorflow as tf

        inner = tensor_of(variable)
        found = self._inside.get(id(inner))
        if found is not None and found.made() is not None:
            return found
        found = self._known.get(id(inner))
        if found is None and not isinstance(inner, tf.distribute.DistributedValues):
            # TensorFlow hangs it on the handle of a copy, or on a copy that a `tf.function` has made.
            places = (getattr(inner, "handle", None), inner)
            container = next(filter(None, (getattr(each, "_distributed_container", None) for each in places)), None)
            inner = container() if callable(container) else getattr(inner, "_variable", None)
            found = self._known.get(id(inner))
        return found if found is not None and found.made() is inner else None

    def state(self) -> list[tuple[RegisteredName, Any]]:
        """All that are numbers and still there. States of random generators belong to what is drawn."""
        return [(named, variable) for named, entry, variable in self._named() if entry.owner not in _NO_STATE]

    def report(self, variables: Iterable[Any]) -> list[tuple[RegisteredName, Any]]:
        """Note that the program reports these, which may be variables of Keras, or copies of distributed ones."""
        parts = [part for each in variables for part in (each.variables if is_sharded(each) else [each])]
        entries = {id(entry): entry for variable in parts if (entry := self.entry(variable)) is not None}
        for entry in entries.values():
            entry.reported = True
        self._state.clear()
        return [(named, variable) for named, entry, variable in self._named() if id(entry) in entries]

    def other_state(self) -> list[tuple[RegisteredName, Any]]:
        """Those of `state` of which each replica may have something of its own."""
        judged = {
            named
            for named, entry, variable in self._named()
            if self._is_judged(entry, variable) and not entry.is_statistics
        }
        return [(named, variable) for named, variable in self.state() if named not in judged]

    def unjudged_state(self) -> list[tuple[RegisteredName, Any]]:
        """Those of `state` that are not judged and that no metric keeps, such as sums of each replica's own."""
        others = (METRIC, *_NO_STATE)
        named = ((named, entry, variable) for named, entry, variable in self._named() if entry.owner not in others)
        return [(named, variable) for named, entry, variable in named if not self._is_judged(entry, variable)]

    @property
    def has_metrics(self) -> bool:
        """Whether a Keras metric keeps any of them besides means of which it is seen what replicas add."""
        return any(entry.owner == METRIC and not entry.added_to for entry in self._entries)

    def has_own_name(self, entry: VariableEntry) -> bool:
        """Whether no other variable that is there has the name of this one."""
        name = entry.name
        return not any(each is not entry and each.made() is not None and each.name == name for each in self._entries)

    def unread(self) -> list[str]:
        """The names of the program's own of which each replica keeps what it likes until they are read.

        A loss may be read from one, or nothing: only who reports it says that what it holds has a meaning.
        """
        return [name for entry, name in self._on_read if not entry.reported]

    def drop_unused(self) -> None:
        """Let go of what the program has put others in place of, which have their names: a new optimizer's slots.

        It takes a tenth of a second, so that it is done only where variables were made since.
        """
        if len(self._entries) > self._dropped:
            gc.collect()
            self._dropped = len(self._entries)

    def judged_state(self, *, reported: bool) -> list[tuple[RegisteredName, Any]]:
        """Those that are judged, with those that the program reports or without."""
        known = [(named, entry.made()) for named, entry in self._state.get(reported, ())]
        if known and all(variable is not None for _, variable in known):
            return known
        found = [
            (named, entry, variable)
            for named, entry, variable in self._named()
            if self._is_judged(entry, variable) and (reported or not entry.reported)
        ]
        if all(entry.made() is variable for _, entry, variable in found):  # else some are parts of others
            self._state[reported] = [(named, entry) for named, entry, _ in found]
        return [(named, variable) for named, _, variable in found]

    def _is_judged(self, entry: VariableEntry, variable: Any) -> bool:
        return entry.judged(variable, alone=self._alone)

    def _named(self) -> Iterator[tuple[RegisteredName, VariableEntry, Any]]:
        seen: Counter[str] = Counter()
        wholes: set[int] = set()
        for entry in self._entries:
            if (variable := entry.made()) is None or variable.dtype.base_dtype.name in _NOT_NUMBERS:
                continue
            name = entry.name
            if (found := whole_of(variable)) is not None:
                variable, name = found
                if id(variable) in wholes:
                    continue
                wholes.add(id(variable))
            yield RegisteredName(name, seen[name]), entry, variable
            seen[name] += 1

    def own_state(self) -> list[str]:
        """The names of the program's own floating variables that were not trained, where others were.

        Those that are gone count as well.
        """
        trains = any(entry.trained for entry in self._entries)
        return [name for entry, name in self._own if trains and not entry.trained]

    def is_state(self, variable: Any) -> bool:
        """Whether a variable that is assigned, or a copy of one, is judged, or adds up for the program's own state.

        Not while one is made; nor moving statistics, which a layer assigns by being called.
        """
        entry = None if self.is_making else self.entry(variable)
        whole = None if entry is None else entry.made()
        if entry is None or whole is None or entry.is_statistics:
            return False
        return self._is_judged(entry, whole) or any(entry is each for each, _ in self._on_read)

    def is_own(self, variable: Any) -> bool:
        """Whether a variable that is assigned, or a copy of one, is a number of the program's own, and no count."""
        entry = None if self.is_making else self.entry(variable)
        return entry is not None and entry.owner == PROGRAM and bool(variable.dtype.is_floating)

    def judged(self) -> list[tuple[VariableEntry, Any]]:
        """Those that are judged and still there."""
        if self._judged is None:
            there = [(entry, entry.made()) for entry in self._entries]
            self._judged = [
                entry for entry, variable in there if variable is not None and self._is_judged(entry, variable)
            ]
        return [(entry, variable) for entry in self._judged if (variable := entry.made()) is not None]


def _inside(variable: Any) -> Iterator[Any]:
    """The variables that one of a parameter server, or of central storage, is wrapped around; it holds them."""
    from tensorflow.python.distribute.ps_values import AggregatingVariable, CachingVariable

    while isinstance(variable, (AggregatingVariable, CachingVariable)):
        variable = variable._v  # noqa: SLF001 - nothing public tells
        yield variable


def _holder() -> weakref.ref[Any] | None:
    frame, count = sys._getframe(1), 0  # noqa: SLF001 - who calls is all that is to be known
    while frame.f_back is not None and count < _FRAMES_MAX:
        frame, count = frame.f_back, count + 1
        caller = frame.f_locals.get("self") if frame.f_code.co_name.startswith("_initialize") else None
        if caller is not None and is_keras_variable(caller):
            return weakref.ref(caller)
    return None
