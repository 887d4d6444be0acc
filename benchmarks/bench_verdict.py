"""What a consistent verdict costs, next to the same training started by hand: a script, and a function with its proof.

All that a user waits for counts on both sides, the import of TensorFlow included.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import portpicker

from benchmarks import trainings
from benchmarks.costing import Cost, cost_of
from benchmarks.measure import Figure, main, median
from simulator.topology import Topology

_ROUNDS = 3
_WALL_MAX, _PROCESSORS_MAX = 2.0, 4.0
_MODELS = ("cnn", "transformer", "mobilenet")
_STRATEGIES = ("mirrored-2", "multi_worker-2")
_FORMS = ("script", "function")
_FILE = trainings.__file__
_LOCKSTEP = [sys.executable, "-c", "from _lockstep.command import main; main()"]


def _by_hand(name: str, strategy: str) -> Cost:
    command = [sys.executable, _FILE, name, "by-hand"]
    if strategy == "mirrored-2":
        return cost_of(command)
    cluster = Topology(worker=2)
    addresses = {task: f"localhost:{portpicker.pick_unused_port()}" for task in cluster.tasks}
    told = [{"TF_CONFIG": str(cluster.tf_config(task, addresses))} for task in cluster.tasks]
    with ThreadPoolExecutor(len(told)) as pool:
        costs = list(pool.map(functools.partial(cost_of, command), told))
    return Cost(max(each.wall for each in costs), sum(each.processors for each in costs))


def _script(name: str, strategy: str) -> Cost:
    cluster = ["--devices", "cpu:2"] if strategy == "mirrored-2" else ["--worker", "2"]
    return cost_of([*_LOCKSTEP, "verify", *cluster, "--", "python", _FILE, name, strategy])


def _function(name: str, strategy: str) -> Cost:
    return cost_of([*_LOCKSTEP, "verify", f"{_FILE}:{name}", "--strategy", strategy])


@functools.cache
def _costs(name: str, strategy: str) -> dict[str, list[Cost]]:
    """Of all three in turns."""
    ways = {"by hand": _by_hand, "script": _script, "function": _function}
    found: dict[str, list[Cost]] = {way: [] for way in ways}
    for _ in range(_ROUNDS):
        for way, run in ways.items():
            found[way].append(run(name, strategy))
    return found


def _figures(name: str, strategy: str, form: str) -> Iterator[Callable[[], Figure]]:
    for what, most in (("wall", _WALL_MAX), ("processors", _PROCESSORS_MAX)):

        def measured(what: str = what, most: float = most) -> Figure:
            costs = _costs(name, strategy)
            return Figure(
                name=f"verify {name}, {form}, {strategy}, {what}",
                figure=median([getattr(each, what) for each in costs[form]]),
                unit="s",
                target=most,
                limit_of="ratio",
                peer=median([getattr(each, what) for each in costs["by hand"]]),
                samples=_ROUNDS,
            )

        yield measured


MEASUREMENTS = tuple(
    figure
    for model in _MODELS
    for strategy in _STRATEGIES
    for form in _FORMS
    for figure in _figures(model, strategy, form)
)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
