"""Trainings of two workers: weak ones, with the guilty line marked, and a strong one."""

STEPS, EPOCH, BATCH = 6, 3, 4


def _train(strategy, record, restored, save):
    """Fits two numbers; `restored(parts)` returns how many steps are done, `save(parts, done)` saves."""
    import tensorflow as tf

    with strategy.scope():
        parts = {"w": tf.Variable(1.0, name="w"), "v": tf.Variable(0.0, name="v")}
    done = restored(parts)
    numbers = tf.data.Dataset.range(STEPS * BATCH).batch(BATCH).skip(done)

    @tf.function
    def step(batch):
        def replica(batch):
            x = tf.cast(batch % EPOCH, tf.float32)
            gradient = tf.reduce_sum(parts["w"] - x) / BATCH
            total = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
            parts["v"].assign(0.5 * parts["v"] + total)
            parts["w"].assign_sub(0.5 * parts["v"])
            return tf.reduce_sum((parts["w"] - x) ** 2) / BATCH, batch

        return strategy.run(replica, args=(batch,))

    for batch in strategy.experimental_distribute_dataset(numbers):
        loss, examples = step(batch)
        done += 1
        record.step(loss=loss, variables=list(parts.values()), examples=examples)
        save(parts, done)
    record.final(variables=list(parts.values()))


def _index(strategy):
    resolver = strategy.cluster_resolver
    return 0 if resolver is None or resolver.task_type != "worker" else resolver.task_id


def _write(path, parts, done):
    import json

    state = {"done": done, **{name: float(part.numpy()) for name, part in parts.items()}}
    path.with_suffix(".new").write_text(json.dumps(state))
    path.with_suffix(".new").replace(path)


def _read(path, parts, names=("w", "v")):
    import json

    if not path.exists():
        return 0
    state = json.loads(path.read_text())
    for name in names:
        parts[name].assign(state[name])
    return state["done"]


def strong_chief_saves(strategy, record):
    """The chief saves for all, and all restore what it has saved."""
    path, index = record.directory / "state.json", _index(strategy)
    _train(
        strategy,
        record,
        lambda parts: _read(path, parts),
        lambda parts, done: _write(path, parts, done) if index == 0 else None,
    )


def weak_each_its_own(strategy, record):
    """Each worker saves and restores by itself: who dies before its save is one step behind the other."""
    path = record.directory / f"state-{_index(strategy)}.json"  # guilty
    _train(strategy, record, lambda parts: _read(path, parts), lambda parts, done: _write(path, parts, done))


def weak_position_of_each(strategy, record):
    """The weights are the chief's, but each worker reads its data from where it has been itself."""
    index = _index(strategy)
    path, own = record.directory / "state.json", record.directory / f"position-{index}.json"

    def restored(parts):
        _read(path, parts)
        return _read(own, {}, ())  # guilty

    def save(parts, done):
        _write(own, {}, done)
        if index == 0:
            _write(path, parts, done)

    _train(strategy, record, restored, save)


def weak_second_epoch(strategy, record):
    """Worker 1 restores the momentum of the end of an epoch, so that a death in the second one is felt."""
    index = _index(strategy)
    path, own = record.directory / "state.json", record.directory / f"epoch-{index}.json"

    def restored(parts):
        done = _read(path, parts)
        if index == 1:
            _read(own, parts, ("v",))  # guilty
        return done

    def save(parts, done):
        if done % EPOCH == 0:
            _write(own, parts, done)
        if index == 0:
            _write(path, parts, done)

    _train(strategy, record, restored, save)
