"""Every format and callback that saves: what comes back, under another strategy too, is what was there, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from harness import StrategyCase, verify
from harness.subject.strategies import strategy_case
from scenarios.programs import models
from scenarios.programs.checkpointing import across, callbacks, contracts, preempted
from simulator import Cluster, RunFailed

QUICK_SAVERS = {"keras": ("mirrored-2",), "tf_keras": ("multi_worker-2",)}
FULL_SAVERS = ("default", "mirrored-2", "multi_worker-2", "central_storage-2")
# Keras 3 cannot partition variables, see keras3-partitioned-variables.
SHARDED = {"tf_keras": "parameter_server-2w2p:fixed_shards", "keras": "parameter_server-1w1p"}
LOADERS = pytest.mark.strategies(
    "mirrored-3", full=("default", "one_device", "central_storage-2", "multi_worker-2", "parameter_server-1w1p")
)
# Keras keeps one weight for each shard in these, so that they fit only models with as many shards.
BY_SHARD = ("*.keras", "*.h5", "*.weights.h5")


def _clients(case: StrategyCase, function: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
    """What each client has returned, in the order of the tasks."""
    with Cluster(case.topology) as cluster:
        result = cluster.run(function, case, *args, **options)
    return [result[task].value for task in case.clients]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, models.Flavour], tuple[Path, dict[str, Any]]]:
    """Saves a model in all formats under a strategy, once: the folder, and for each format how it went."""

    @functools.cache
    def save(strategy: str, flavour: models.Flavour) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp(flavour)
        chief, *_ = _clients(strategy_case(strategy), across.save, flavour, folder)
        return folder, chief

    return save


def _refused(saved_under: str, loaded: StrategyCase, form: str, inside: bool) -> bool:
    """Whether TensorFlow raises, because variables in shards meet variables that are whole."""
    was = saved_under.endswith("fixed_shards")
    whole_model = across.FORMATS["tf_keras"][form].whole
    into = loaded.option == "fixed_shards" and (inside or not whole_model)
    if form in BY_SHARD:
        return was != into
    if form.startswith("model"):
        return was and inside and loaded.kind in ("mirrored", "multi_worker")
    return form.startswith("exported") and into


def _judge(found: across.Loaded, flavour: models.Flavour, loaded: StrategyCase) -> str:
    """What is wrong with one format loaded once; "" if it is what the format promises."""
    if flavour == "tf_keras" and _refused(found.strategy, loaded, found.format, found.inside):
        return "" if found.error.startswith("ValueError") else f"expected a ValueError, not {found.error!r}"
    if found.error:
        return found.error
    everything = {"weights", "slots", "predictions"} | ({"seeds"} if flavour == "keras" else set())
    lost = everything - set(across.FORMATS[flavour][found.format].keeps)
    return "" if set(found.wrong) == lost else f"lost {found.wrong}, expected to lose {sorted(lost)}"


def _check(
    case: StrategyCase, flavour: models.Flavour, savers: tuple[str, ...], saved: Callable[..., Any], row: Any
) -> None:
    """Load what each of these strategies has saved, and judge and report every format."""
    there = {name: saved(name, flavour) for name in savers}
    good = {
        name: (folder, {form for form, how in how.items() if not how.error}) for name, (folder, how) in there.items()
    }
    loads = [load for client in _clients(case, across.load, flavour, good) for load in client]
    title = f"Checkpoints: formats of {'Keras 3' if flavour == 'keras' else 'tf_keras'}, saved and loaded"
    problems = []
    for load in loads:
        problem = _judge(load, flavour, case)
        where = "in the scope" if load.inside else "outside"
        if problem:
            problems.append(f"{load.format} saved under {load.strategy}, loaded {where} of {case.name}: {problem}")
        kept = "refused: ValueError" if load.error else "all" if not load.wrong else f"all but {', '.join(load.wrong)}"
        cells = {"saved under": load.strategy, "loaded under": f"{case.name}, {where}", "format": load.format}
        seconds = {
            "seconds to save": round(there[load.strategy][1][load.format].seconds, 2),
            "to load": round(load.seconds, 2),
        }
        row(title, {**cells, "kept": problem or kept, **seconds})
    assert not problems, "\n".join(problems)
    clients = len(case.clients)
    assert len(loads) == 2 * clients * sum(len(forms) for _, forms in good.values())


@pytest.fixture
def savers(request: pytest.FixtureRequest, flavour: models.Flavour) -> tuple[str, ...]:
    """The strategies that save in this profile."""
    return FULL_SAVERS if request.config.getoption("--profile") == "full" else QUICK_SAVERS[flavour]


@LOADERS
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_formats(
    strategy: StrategyCase, flavour: models.Flavour, savers: tuple[str, ...], saved: Any, report_row: Any
) -> None:
    """Weights, slots, counters and predictions of each format, as far as it keeps them, over garbage; in and outside
    of the scope.
    """
    _check(strategy, flavour, savers, saved, report_row)


@pytest.mark.full
@LOADERS
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_formats_from_parameter_servers(
    strategy: StrategyCase, flavour: models.Flavour, saved: Any, report_row: Any
) -> None:
    """Of variables in shards, TensorFlow's own formats are read anywhere and those of Keras raise a ValueError."""
    _check(strategy, flavour, (SHARDED[flavour],), saved, report_row)


@pytest.mark.full
@pytest.mark.parametrize("saver", ["mirrored-2", SHARDED["tf_keras"]])
def test_formats_into_shards(saver: str, saved: Any, report_row: Any) -> None:
    """The same into variables in shards."""
    _check(strategy_case(SHARDED["tf_keras"]), "tf_keras", (saver,), saved, report_row)


def test_what_cannot_be_saved(saved: Any) -> None:
    """Under every strategy every format saves, but a tf_keras model in shards to `.h5` and by `export`, which raise."""
    assert not [how.error for name in QUICK_SAVERS["keras"] for how in saved(name, "keras")[1].values() if how.error]
    errors = {form: how.error for form, how in saved(SHARDED["tf_keras"], "tf_keras")[1].items() if how.error}
    assert set(errors) == {"*.h5", "exported (export)"}
    assert "name already exists" in errors["*.h5"]
    assert "untracked" in errors["exported (export)"]


@pytest.mark.known_issue("tf-async-write-save-counter")
@pytest.mark.strategies("default", full=("mirrored-2",))
def test_asynchronous_write(strategy: StrategyCase, tmp_path: Path) -> None:
    """What `write` writes asynchronously is consumed by `read`, as it is otherwise."""
    _clients(strategy, contracts.written_asynchronously, tmp_path)


# -- Callbacks of fit


def _fit(flavour: models.Flavour, kind: callbacks.Kind, save: str, restore: str, *marks: Any) -> Any:
    return pytest.param(
        flavour, kind, strategy_case(save), restore, id=f"{flavour}-{kind}-{save}-{restore}", marks=marks
    )


@pytest.mark.parametrize(
    ("flavour", "kind", "strategy", "resume"),
    [
        _fit("keras", "backup", "mirrored-2", "mirrored-4"),
        _fit("keras", "backup", "default", "mirrored-2", pytest.mark.full),
        _fit("tf_keras", "backup", "multi_worker-2", "parameter_server-1w2p:fixed_shards", pytest.mark.full),
        _fit("tf_keras", "backup", "parameter_server-1w2p:fixed_shards", "mirrored-2", pytest.mark.full),
        _fit("tf_keras", "backup", "mirrored-2", "multi_worker-2", pytest.mark.full),
        _fit("keras", "model_checkpoint", "mirrored-2", "default", pytest.mark.full),
        _fit("tf_keras", "model_checkpoint", "multi_worker-2", "mirrored-4", pytest.mark.full),
        _fit("tf_keras", "model_checkpoint_h5", "mirrored-2", "mirrored-4", pytest.mark.full),
        _fit("keras", "model_checkpoint_weights", "mirrored-2", "mirrored-4", pytest.mark.full),
        _fit("tf_keras", "model_checkpoint_weights", "mirrored-2", "one_device", pytest.mark.full),
    ],
)
def test_fit_resumes(flavour: models.Flavour, kind: callbacks.Kind, strategy: StrategyCase, resume: str) -> None:
    """Killed in the third epoch and started again under another strategy, `fit` does that epoch again."""
    at = 2 if strategy.kind == "parameter_server" else 5  # there each epoch is a step
    verdict = verify(callbacks.make(flavour, kind), strategy, tier="exact", interrupt_at=at, resume_strategy=resume)
    assert verdict
    assert verdict.interrupted is not None
    assert verdict.interrupted["resumed_at"] == 4


@pytest.mark.parametrize(
    ("flavour", "kind", "strategy", "resume"),
    [
        _fit(
            "keras", "backup_batches", "mirrored-2", "mirrored-2", pytest.mark.known_issue("keras3-backup-within-epoch")
        ),
        _fit(
            "tf_keras",
            "backup_batches",
            "mirrored-2",
            "mirrored-2",
            pytest.mark.known_issue("tf-keras-backup-within-epoch"),
            pytest.mark.full,
        ),
        _fit(
            "keras",
            "model_checkpoint_h5",
            "mirrored-2",
            "default",
            pytest.mark.known_issue("keras3-h5-optimizer-state"),
            pytest.mark.skipif(
                Version(version("keras")) < Version("3.8"), reason="before Keras 3.8 ModelCheckpoint writes no .h5"
            ),
        ),
    ],
)
def test_fit_resumes_from_what_loses_something(
    flavour: models.Flavour, kind: callbacks.Kind, strategy: StrategyCase, resume: str
) -> None:
    """The same from a backup within an epoch and from Keras 3's `.h5`."""
    assert verify(callbacks.make(flavour, kind), strategy, tier="exact", interrupt_at=5, resume_strategy=resume)


def test_backup_under_central_storage() -> None:
    """The BackupAndRestore of tf_keras says that it does not support this strategy."""
    with pytest.raises(RunFailed, match="CentralStorageStrategy'> is not supported yet"):
        verify(callbacks.make("tf_keras", "backup"), "central_storage-2", tier="exact", interrupt_at=5)


@pytest.mark.strategies("mirrored-2", full=("default", "mirrored-4"))
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_model_checkpoint(strategy: StrategyCase, flavour: models.Flavour, tmp_path: Path) -> None:
    """`save_best_only` leaves the best epoch's model, `save_freq` a file for each third batch, loaded by one device."""
    chief, *_ = _clients(strategy, callbacks.watch_saved, flavour, tmp_path, [3.0, 1.0, 2.0], 3)
    assert chief == ("epoch 2", {"2-1": "batch 3", "3-2": "epoch 3"})


@pytest.mark.full
def test_model_checkpoint_of_many_workers(tmp_path: Path) -> None:
    """The chief's files, to which no other worker writes."""
    chief, _ = _clients(
        strategy_case("multi_worker-2"), callbacks.watch_saved, "tf_keras", tmp_path, [3.0, 1.0, 2.0], 3
    )
    assert chief == ("epoch 2", {"2-1": "batch 3", "3-2": "epoch 3"})


@pytest.mark.strategies("mirrored-2", full=("default", "mirrored-4", "central_storage-2"))
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_early_stopping(strategy: StrategyCase, flavour: models.Flavour) -> None:
    """`restore_best_weights` leaves the weights of the best epoch, two before the one that it stops after."""
    assert _clients(strategy, callbacks.stop_at_best, flavour, [3.0, 1.0, 2.0, 2.5, 0.5]) == [(4, "epoch 2")]


def test_early_stopping_on_many_workers() -> None:
    """On all workers alike."""
    stopped = _clients(strategy_case("multi_worker-2"), callbacks.stop_at_best, "tf_keras", [3.0, 1.0, 2.0, 2.5, 0.5])
    assert stopped == [(4, "epoch 2")] * 2


# -- Preemption


def test_preemption_checkpoint_handler(tmp_path: Path) -> None:
    """One worker's watcher is told of a preemption: all save the same step and leave, and the next run goes on there.

    Its checkpoint is restored under another strategy as well.
    """
    workers = strategy_case("multi_worker-2")
    how, steps, total = _same(_clients(workers, preempted.train, tmp_path, worker=1))
    assert (how, total) == ("preempted", steps / 4)  # 1/8 on each of two replicas
    assert steps > 3
    assert _clients(strategy_case("mirrored-3"), preempted.restore_elsewhere, tmp_path) == [(steps, [total] * 3)]
    again = _same(_clients(workers, preempted.train, tmp_path, worker=None, steps=steps + 5))
    assert again == ("finished", steps + 5, total + 5 / 4)


@pytest.mark.full
def test_backup_before_preemption_is_off_elsewhere(tmp_path: Path) -> None:
    """Outside of Google Cloud `save_before_preemption` does nothing, as documented, and says nothing either."""
    batches = _same(_clients(strategy_case("multi_worker-2"), preempted.fit, tmp_path, worker=1))
    assert batches == preempted.FIT_STEPS
    assert not list(tmp_path.rglob("*.index"))


def _same(values: list[Any]) -> Any:
    """The one value that all clients have returned."""
    assert all(value == values[0] for value in values), values
    return values[0]
