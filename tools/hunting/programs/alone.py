"""Trainings of one process that save files of their own: weak ones, with the guilty line marked, and strong ones.

Each fits a number to examples by momentum. All values are binary fractions, so that nothing is rounded.
"""

import json
import os
import shutil
import signal
import threading
import time

STEPS, EPOCH, EVERY = 12, 6, 2


def _fresh():
    return {"step": 0, "w": 1.0, "v": 0.0}


def _example(step):
    return float(step % EPOCH)


def _update(state, x, rate=0.5):
    state["v"] = 0.5 * state["v"] + (state["w"] - x)
    state["w"] -= rate * state["v"]
    return (state["w"] - x) ** 2


def _write(path, state):
    """A file that is there as a whole or not at all."""
    (beside := path.with_suffix(".new")).write_text(json.dumps(state))
    os.replace(beside, path)


def _read(path):
    return json.loads(path.read_text()) if path.exists() else {}


def _train(record, state, save, *, example=_example, rate=lambda state: 0.5, every=EVERY, steps=STEPS):
    while state["step"] < steps:
        x = example(state["step"])
        loss = _update(state, x, rate(state))
        state["step"] += 1
        record.step(loss=loss, metrics={"w": state["w"]}, examples=[int(x)])
        if state["step"] % every == 0:
            save(state)
    record.final(metrics={"w": state["w"], "v": state["v"]})


def strong_whole_file(strategy, record):
    """All state in one file that is replaced at once."""
    path = record.directory / "state.json"
    _train(record, _fresh() | _read(path), lambda state: _write(path, state))


def strong_folder(strategy, record):
    """Two files in a folder of their own, which counts when its name is in the file that is replaced at once."""
    latest = _read(record.directory / "latest.json")
    state = _fresh()
    if latest:
        folder = record.directory / latest["folder"]
        state |= _read(folder / "weights.json") | _read(folder / "position.json")

    def save(state):
        folder = record.directory / f"save-{state['step']}"
        folder.mkdir(exist_ok=True)
        _write(folder / "weights.json", {key: state[key] for key in "wv"})
        _write(folder / "position.json", {"step": state["step"]})
        _write(record.directory / "latest.json", {"folder": folder.name})

    _train(record, state, save)


def strong_backup(strategy, record):
    """The older file goes only when the newer one is there."""
    path, older = record.directory / "state.json", record.directory / "older.json"

    def save(state):
        if path.exists():
            shutil.copyfile(path, older.with_suffix(".copy"))
            os.replace(older.with_suffix(".copy"), older)
        _write(path, state)

    _train(record, _fresh() | (_read(path) or _read(older)), save)


def strong_sigterm(strategy, record):
    """Who is asked to end says so to the loop, which saves where its state is whole."""
    path, asked = record.directory / "state.json", threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    state = _fresh() | _read(path)
    while state["step"] < STEPS:
        x = _example(state["step"])
        loss = _update(state, x)
        state["step"] += 1
        record.step(loss=loss, metrics={"w": state["w"]}, examples=[int(x)])
        _write(path, state)
        if asked.is_set():
            raise SystemExit(143)
    record.final(metrics={"w": state["w"], "v": state["v"]})


def strong_every_step(strategy, record):
    """A save after each step, in turn into two files, of which the one with the later step counts."""
    paths = [record.directory / name for name in ("even.json", "odd.json")]
    state = max((_fresh() | _read(path) for path in paths), key=lambda state: state["step"])
    _train(record, state, lambda state: _write(paths[state["step"] % 2], state), every=1)


def weak_momentum_left_out(strategy, record):
    """The momentum is not saved."""
    path = record.directory / "state.json"
    _train(record, _fresh() | _read(path), lambda state: _write(path, {k: state[k] for k in ("step", "w")}))  # guilty


def weak_starts_anew(strategy, record):
    """What is saved is never read."""
    path = record.directory / "state.json"
    _train(record, _fresh(), lambda state: _write(path, state))  # guilty


def weak_position_left_out(strategy, record):
    """The data are read from their beginning by a job that was started again."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    begun = state["step"]
    _train(record, state, lambda state: _write(path, state), example=lambda step: _example(step - begun))  # guilty


def weak_saves_early(strategy, record):
    """The counter in the file is one ahead of the weights."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    _train(record, state, lambda state: _write(path, state | {"step": state["step"] + 1}))  # guilty


def weak_rate_by_own_count(strategy, record):
    """The rate decays by the steps of this process, not of the training."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    begun = state["step"]
    rate = lambda state: 0.5 if state["step"] - begun < 4 else 0.25  # guilty
    _train(record, state, lambda state: _write(path, state), rate=rate)


def _saved_in_two(record, first, second):
    """A training whose state is in two files, of which `first` is written before `second`."""
    parts = {"weights": "wv", "position": ("step",)}
    state = _fresh() | _read(record.directory / "weights.json") | _read(record.directory / "position.json")

    def save(state):
        for name in (first, second):  # guilty: weak_weights_first, weak_position_first
            _write(record.directory / f"{name}.json", {key: state[key] for key in parts[name]})

    _train(record, state, save)


def weak_weights_first(strategy, record):
    """Who dies between the two files has new weights and an old position."""
    _saved_in_two(record, "weights", "position")


def weak_position_first(strategy, record):
    """Who dies between the two files has a new position and old weights."""
    _saved_in_two(record, "position", "weights")


def weak_pointer_first(strategy, record):
    """The name of the newest file is written before the file."""
    latest = _read(record.directory / "latest.json")
    state = _fresh() | (json.loads((record.directory / latest["name"]).read_text()) if latest else {})

    def save(state):
        name = f"save-{state['step']}.json"
        _write(record.directory / "latest.json", {"name": name})  # guilty
        _write(record.directory / name, state)

    _train(record, state, save)


def weak_removes_first(strategy, record):
    """The old state is removed before the new one is written, and the position is in a file of its own too."""
    weights, position = record.directory / "weights.json", record.directory / "position.json"

    def save(state):
        weights.unlink(missing_ok=True)  # guilty
        _write(weights, state)
        _write(position, {"step": state["step"]})

    _train(record, _fresh() | _read(position) | _read(weights), save)


def weak_moves_away(strategy, record):
    """The old file becomes the backup before the new one is written, and nobody reads the backup."""
    path = record.directory / "state.json"

    def save(state):
        if path.exists():
            os.replace(path, record.directory / "backup.json")  # guilty
        _write(path, state)

    _train(record, _fresh() | _read(path), save)


def weak_newest_by_name(strategy, record):
    """The weights are those of the last name, and `save-10` comes before `save-8`; the step is the greatest."""
    found = sorted(path.name for path in record.directory.glob("save-*.json"))  # guilty
    state = _fresh() | (_read(record.directory / found[-1]) if found else {})
    state["step"] = max((int(name[5:-5]) for name in found), default=0)

    def save(state):
        _write(record.directory / f"save-{state['step']}.json", state)
        for path in record.directory.glob("save-*.json"):
            if int(path.stem.partition("-")[2]) < state["step"] - 2:
                path.unlink()

    _train(record, state, save)


def weak_used_up(strategy, record):
    """What was restored is put away: a second death before the next save finds nothing. It needs two faults."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    if path.exists():
        os.replace(path, record.directory / "restored.json")  # guilty
    _train(record, state, lambda state: _write(path, state))


def weak_gives_up(strategy, record):
    """What was restored twice in a row is taken for broken and left. It needs two faults."""
    path = record.directory / "state.json"
    if saved := _read(path):
        _write(path, saved | {"attempts": saved["attempts"] + 1})
    state = _fresh() | (saved if saved.get("attempts", 0) < 1 else {}) | {"attempts": 0}  # guilty
    _train(record, state, lambda state: _write(path, state))


def weak_skips_epoch(strategy, record):
    """Who comes back within an epoch goes on with the next one."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    state["step"] = -(-state["step"] // EPOCH) * EPOCH  # guilty
    _train(record, state, lambda state: _write(path, state))


def weak_repeats_epoch(strategy, record):
    """Who comes back within an epoch begins it again, with the weights from its middle."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    state["step"] = state["step"] // EPOCH * EPOCH  # guilty
    _train(record, state, lambda state: _write(path, state))


def weak_order_of_epoch(strategy, record):
    """The order of an epoch comes from the epochs of this process: wrong from the second epoch on."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    begun = state["step"] // EPOCH
    order = lambda step: _example(step + 2 * (step // EPOCH - begun))  # guilty
    _train(record, state, lambda state: _write(path, state), example=order)


def weak_patience_left_out(strategy, record):
    """Early stopping counts anew after a restart, and so trains for longer."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    waited = 0  # guilty
    while waited < 9:
        loss = _update(state, 0.0)
        state["step"] += 1
        waited += 1 if state["step"] > 1 else 0
        record.step(loss=loss, metrics={"w": state["w"]}, examples=[0])
        if state["step"] % EVERY == 0:
            _write(path, state)
    record.final(metrics={"w": state["w"], "v": state["v"]})


def weak_average_left_out(strategy, record):
    """The average of the weights begins again from the weights that were restored."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)
    average = state["w"]  # guilty
    while state["step"] < STEPS:
        x = _example(state["step"])
        loss = _update(state, x)
        average = 0.5 * average + 0.5 * state["w"]
        state["step"] += 1
        record.step(loss=loss, metrics={"w": state["w"], "average": average}, examples=[int(x)])
        if state["step"] % EVERY == 0:
            _write(path, state)
    record.final(metrics={"average": average})


def weak_sum_left_out(strategy, record):
    """Gradients are summed over four steps, and saves every second step leave the sum out."""
    path = record.directory / "state.json"
    state, total = _fresh() | _read(path), 0.0  # guilty
    while state["step"] < STEPS:
        x = _example(state["step"])
        total += state["w"] - x
        state["step"] += 1
        if state["step"] % 4 == 0:
            state["w"] -= 0.125 * total
            total = 0.0
        record.step(loss=(state["w"] - x) ** 2, metrics={"w": state["w"]}, examples=[int(x)])
        if state["step"] % EVERY == 0:
            _write(path, state)
    record.final(metrics={"w": state["w"]})


def weak_best_over_newest(strategy, record):
    """What is restored is the best model, with the step of the newest."""
    path, best = record.directory / "state.json", record.directory / "best.json"
    state = _fresh() | _read(path) | {key: value for key, value in _read(best).items() if key != "step"}  # guilty
    lowest = float("inf")

    def save(state):
        nonlocal lowest
        _write(path, state)
        if abs(state["w"]) < lowest:
            lowest = abs(state["w"])
            _write(best, state)

    _train(record, state, save)


def weak_written_behind(strategy, record):
    """A thread writes the weights, and the position is in its file before that."""
    position, weights = record.directory / "position.json", record.directory / "weights.json"
    writing = threading.Thread()

    def save(state):
        nonlocal writing
        _write(position, {"step": state["step"]})  # guilty
        writing = threading.Thread(target=_write, args=(weights, {key: state[key] for key in "wv"}))
        writing.start()
        writing.join()

    _train(record, _fresh() | _read(position) | _read(weights), save)


def weak_sigterm(strategy, record):
    """Who is asked to end saves at once, also between the weights and the counter."""
    path = record.directory / "state.json"
    state = _fresh() | _read(path)

    def leave(*_):
        _write(path, state)  # guilty
        os._exit(143)

    signal.signal(signal.SIGTERM, leave)
    while state["step"] < STEPS:
        x = _example(state["step"])
        loss = _update(state, x)
        record.step(loss=loss, metrics={"w": state["w"]}, examples=[int(x)])
        state["step"] += 1
        if state["step"] % EVERY == 0:
            _write(path, state)
    record.final(metrics={"w": state["w"], "v": state["v"]})


def weak_waits_for_lock(strategy, record):
    """A save takes a lock, and who finds that of a process that is gone waits until it must be stale."""
    path, lock = record.directory / "state.json", record.directory / "lock"

    def save(state):
        deadline = time.monotonic() + 20.0
        while lock.exists() and time.monotonic() < deadline:  # guilty
            time.sleep(0.05)
        lock.touch()
        _write(path, state)
        lock.unlink()

    _train(record, _fresh() | _read(path), save)
