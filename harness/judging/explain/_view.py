"""What the rules read off a case: where it first goes wrong, and what each replica contributed there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.comparing import compare
from harness.evidence.observed import OBSERVABLES, History, Moment, history, is_integer, items, moments
from harness.evidence.trace import Seen, Step, Value, Variable
from harness.judging.laws._initial_values import initial_values
from harness.judging.laws.protocol import Case

if TYPE_CHECKING:
    import numpy as np

    from harness.judging.explain.protocol import Attempt


if TYPE_CHECKING:
    Floats = np.ndarray[Any, np.dtype[np.float64]]
else:
    Floats = Any


@dataclass(frozen=True)
class CaseView:
    """A case, taken apart. All arrays are float64, all steps are the reference's."""

    case: Case

    @property
    def replicas(self) -> int:
        """Replicas in sync over all clients; of copies that nobody keeps in sync, their number."""
        return self.case.run.header.replicas

    @cached_property
    def run(self) -> Mapping[str, History]:
        """The run's global values by observable, step and name."""
        return {what: history(self.case.run, what, aligned_to=self.case.reference) for what in OBSERVABLES}

    @cached_property
    def reference(self) -> Mapping[str, History]:
        """The reference's global values by observable, step and name."""
        return {what: history(self.case.reference, what) for what in OBSERVABLES}

    @cached_property
    def moments(self) -> Mapping[int | None, Moment]:
        """What every client recorded, by step."""
        return {moment.step: moment for moment in moments(self.case.run, aligned_to=self.case.reference)}

    def steps(self, observable: str) -> list[int]:
        """The steps at which both recorded an observable."""
        return [step for step in self.run[observable] if step is not None and step in self.reference[observable]]

    def names(self, observable: str, step: int | None) -> list[str]:
        """What both recorded of an observable at a step in the same shape, in the reference's order."""
        ours, truth = self.run[observable].get(step, {}), self.reference[observable].get(step, {})
        return [name for name in truth if name in ours and ours[name].array.shape == truth[name].array.shape]

    def bound(self, observable: str, name: str, step: int | None) -> Floats:
        """The tolerance's bounds, one for each element."""
        return _wide(self.case.tolerance.bound(observable, name, step))

    @cached_property
    def attempts(self) -> dict[Callable[[CaseView], Any], list[Attempt]]:
        """What models have made of this case: who explains asks twice."""
        return {}

    @cached_property
    def _wrong(self) -> dict[tuple[str, int | None], list[str]]:
        return {}

    def wrong(self, observable: str, step: int | None) -> list[str]:
        """The values that differ from the reference's by more than the bound."""
        key = (observable, step)
        if key not in self._wrong:
            ours, truth = self.run[observable].get(step, {}), self.reference[observable].get(step, {})
            self._wrong[key] = [
                name
                for name in self.names(observable, step)
                if compare(ours[name], truth[name], self.bound(observable, name, step)).ratio > 1
            ]
        return self._wrong[key]

    def first_wrong(self, observable: str) -> int | None:
        """The first step at which an observable differs."""
        return next((step for step in self.steps(observable) if self.wrong(observable, step)), None)

    @cached_property
    def horizon(self) -> int:
        """The last step whose losses and gradients were surely computed from the right variables.

        The step after which the variables first differ is one of them. Where no variables were recorded, only the
        first step is sure.
        """
        variables = self.steps("variables")
        if not variables:
            return min(self.steps("loss") + self.steps("gradients"), default=0)
        return next((step for step in variables if self.wrong("variables", step) or self.drifted(step)), variables[-1])

    def origin(self, observable: str) -> int | None:
        """The first step at which an observable is wrong although the variables it came from were right."""
        step = self.first_wrong(observable)
        return step if step is not None and (observable == "variables" or step <= self.horizon) else None

    def begun(self, step: int, name: str) -> Floats:
        """What a step begins with in the reference: the run's variable where it follows the run, else its own."""
        return (self.value if self.case.follows else self.truth)("variables", step - 1, name)

    def value(self, observable: str, step: int | None, name: str) -> Floats:
        """The run's global value."""
        return _wide(self.run[observable][step][name].array)

    def truth(self, observable: str, step: int | None, name: str) -> Floats:
        """The reference's global value."""
        return _wide(self.reference[observable][step][name].array)

    def parts(self, observable: str, step: int | None, name: str) -> list[Floats] | None:
        """What each replica contributed; None when only a reduced value was recorded.

        Values on which clients of one replica each disagree are parts as well: `strategy.run` gives such a client a
        plain tensor.
        """
        found = self._recorded(observable, step, name)
        values = [value for value in found if isinstance(value, Value)]
        if not values or len(values) < len(found):
            return None
        parts = [part for value in values for part in value.parts]
        local = not any(value.per_replica for value in values) and len(parts) == self.replicas
        apart = any(part != parts[0] for part in parts)
        whole = all(value.per_replica for value in values) or (local and apart)
        shapes = {part.shape for part in parts}
        return [_wide(part.numpy()) for part in parts] if whole and len(parts) > 1 and len(shapes) == 1 else None

    def copies(self, step: int | None, name: str) -> list[Floats]:
        """Every copy of a variable, over all clients."""
        found = [item for item in self._recorded("variables", step, name) if isinstance(item, Variable)]
        return [_wide(copy.numpy()) for item in found for copy in item.copies]

    def copies_before(self, step: int, name: str) -> list[Floats]:
        """Every copy of a variable when a step begins; empty where that is not known."""
        if step - 1 in self.steps("variables"):
            return self.copies(step - 1, name)
        starts = [client.start for client in self.case.run.clients if client.start is not None]
        if self.case.begin or step != 1 or len(starts) < len(self.case.run.clients):
            return []
        found = [each for values in initial_values(starts) for each in values if each.name == name]
        return [_wide(copy.numpy()) for each in found for copy in each.copies]

    def drifted(self, step: int | None) -> list[str]:
        """The variables whose copies differ from each other, but for those that are reduced when they are read."""
        names = self.names("variables", step)
        return [name for name in names if not self.on_read(step, name) and self.apart(step, name)]

    @cached_property
    def begun_apart(self) -> Mapping[str, list[Floats]]:
        """By name, the value on each worker of every variable that workers began with different values of."""
        import numpy as np

        starts = [client.start for client in self.case.run.clients]
        known = [start for start in starts if start is not None]
        if len(known) < max(2, len(starts)):
            return {}
        every = zip(*initial_values(known), strict=True)
        values = {
            each[0].name: [_wide(one.value.numpy()) for one in each]
            for each in every
            if not is_integer(each[0].value.dtype)
        }
        return {
            name: each
            for name, each in values.items()
            if not all(np.array_equal(one, each[0], equal_nan=True) for one in each)
        }

    def on_read(self, step: int | None, name: str) -> bool:
        """Whether copies of a variable may differ until somebody reads it."""
        found = self._recorded("variables", step, name)
        return any(isinstance(item, Variable) and item.kind == "on_read" for item in found)

    def apart(self, step: int | None, name: str) -> bool:
        """Whether copies of a variable differ."""
        return len({copy.tobytes() for copy in self.copies(step, name)}) > 1

    def by_hand(self, step: int | None) -> bool:
        """Whether the program had taken no gradients by the end of a step."""
        moment = self.moments.get(step)
        return moment is not None and any(each.by_hand for each in _seen(moment.records))

    def reduced(self, step: int | None) -> list[Floats]:
        """What the first client's reductions gave at a step, in the order of the program, as far as that was seen."""
        moment = self.moments.get(step)
        return _reduced([] if moment is None else moment.records[:1])

    def reduced_truth(self, step: int | None) -> list[Floats]:
        """The same of the reference, whose reductions give what they are given."""
        steps = self.case.reference.clients[0].steps
        return _reduced([record for record in steps if record.index == step])

    def shards(self, step: int | None) -> list[tuple[int, ...]] | None:
        """The ids each replica consumed; None unless every client recorded them for every replica of its own."""
        moment = self.moments.get(step)
        records = [] if moment is None else [record for record in moment.records if isinstance(record, Step)]
        if any(record.consumers is not None for record in records):
            return None
        found = [shard for record in records for shard in record.examples or ()]
        return found if len(found) == self.replicas else None

    def _recorded(self, observable: str, step: int | None, name: str) -> list[Value | Variable | None]:
        moment = self.moments.get(step)
        return [] if moment is None else [(items(record, observable) or {}).get(name) for record in moment.records]


def _seen(records: Iterable[object]) -> list[Seen]:
    return [record.seen for record in records if isinstance(record, Step) and record.seen is not None]


def _reduced(records: Iterable[object]) -> list[Floats]:
    return [_wide(value.parts[0].numpy()) for each in _seen(records) for value in each.reduced]


def _wide(array: np.ndarray[Any, Any]) -> Floats:
    import numpy as np

    return np.real(array).astype(np.float64)


_latest: list[CaseView] = []
_LATEST_MAX = 2
"""Each rule asks for the view of a case, of which there are two readings."""


def view_of(case: Case) -> CaseView:
    """The view of a case; the latest ones are kept."""
    found = next((view for view in _latest if view.case is case), None) or CaseView(case)
    _latest[:] = [found, *(view for view in _latest if view is not found)][:_LATEST_MAX]
    return found
