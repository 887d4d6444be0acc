"""Trainings that save by `tf.train` and Keras: weak ones, with the guilty line marked, and strong ones."""

STEPS, EPOCH = 8, 4


def _parts():
    import tensorflow as tf

    w, v = tf.Variable(1.0, name="w"), tf.Variable(0.0, name="v")
    return {"w": w, "v": v, "step": tf.Variable(0, name="step")}


def _train(record, parts, save, *, examples=None):
    import tensorflow as tf

    examples = iter(tf.data.Dataset.range(STEPS).skip(int(parts["step"]))) if examples is None else examples
    while int(parts["step"]) < STEPS:
        number = next(examples)
        x = tf.cast(number % EPOCH, tf.float32)
        parts["v"].assign(0.5 * parts["v"] + parts["w"] - x)
        parts["w"].assign_sub(0.5 * parts["v"])
        parts["step"].assign_add(1)
        record.step(loss=(parts["w"] - x) ** 2, variables=[parts["w"], parts["v"]], examples=[int(number)])
        save()
    record.final(variables=[parts["w"], parts["v"]])


def _manager(record, parts, **options):
    import tensorflow as tf

    return tf.train.CheckpointManager(tf.train.Checkpoint(**parts), record.directory / "saves", 2, **options)


def strong_manager(strategy, record):
    """All variables in the checkpoints of one manager."""
    parts = _parts()
    manager = _manager(record, parts)
    manager.restore_or_initialize()
    _train(record, parts, manager.save)


def strong_iterator(strategy, record):
    """The iterator is in the checkpoint."""
    import tensorflow as tf

    parts = _parts()
    examples = iter(tf.data.Dataset.range(STEPS))
    manager = _manager(record, {**parts, "examples": examples})
    manager.restore_or_initialize()
    _train(record, parts, manager.save, examples=examples)


def weak_iterator_left_out(strategy, record):
    """The iterator is not in the checkpoint."""
    import tensorflow as tf

    parts = _parts()
    examples = iter(tf.data.Dataset.range(STEPS).repeat())
    manager = _manager(record, parts)  # guilty
    manager.restore_or_initialize()
    _train(record, parts, manager.save, examples=examples)


def weak_slot_left_out(strategy, record):
    """The momentum is not in the checkpoint."""
    parts = _parts()
    manager = _manager(record, {key: parts[key] for key in ("w", "step")})  # guilty
    manager.restore_or_initialize()
    _train(record, parts, manager.save)


def weak_damage_is_fresh(strategy, record):
    """A checkpoint that cannot be read counts as none."""
    import tensorflow as tf

    parts = _parts()
    manager = _manager(record, parts)
    try:
        manager.restore_or_initialize()
    except (tf.errors.OpError, ValueError, IndexError):  # guilty
        parts = _parts()
        manager = _manager(record, parts)
    _train(record, parts, manager.save)


def weak_counter_beside(strategy, record):
    """The counter has a file of its own, written after the checkpoint."""
    parts = _parts()
    manager = _manager(record, {key: parts[key] for key in "wv"})
    manager.restore_or_initialize()
    counter = record.directory / "counter"
    parts["step"].assign(int(counter.read_text()) if counter.exists() else 0)

    def save():
        manager.save()
        counter.with_suffix(".new").write_text(str(int(parts["step"])))
        counter.with_suffix(".new").replace(counter)  # guilty

    _train(record, parts, save)


def weak_oldest(strategy, record):
    """The first checkpoint that is still there is restored, with the counter of the last."""
    import tensorflow as tf

    parts = _parts()
    manager = _manager(record, parts)
    if manager.checkpoints:
        manager.checkpoint.restore(manager.latest_checkpoint)
        done = int(parts["step"])
        manager.checkpoint.restore(manager.checkpoints[0])  # guilty
        parts["step"].assign(done)
    del tf
    _train(record, parts, manager.save)
