"""The usual tutorial programs as people write them, each beside the mistake that is usually made in it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import coordinator, corpus, digits, keras_fit, keras_loop, models

Reduction = Literal["global_batch", "replica_mean"]
Pipeline = Literal["dataset", "function", "function_global_batch"]
Normalization = Literal["none", "local", "synchronized"]
EXAMPLES = 192


def make_classifier(
    flavour: models.Flavour = "keras",
    *,
    reduction: Reduction = "global_batch",
    pipeline: Pipeline = "dataset",
    normalization: Normalization = "none",
    epochs: int = 2,
) -> Callable[[Any, Any], None]:
    """The tutorial "Custom training with tf.distribute.Strategy" on the digits.

    `reduction="replica_mean"` averages over the replica's own examples and then sums over replicas.
    `pipeline="function"` divides the global batch in a dataset function, `"function_global_batch"` forgets to.
    `normalization="local"` uses BatchNormalization as it comes, `"synchronized"` asks it to synchronize.
    """
    return functools.partial(
        _classify,
        flavour=flavour,
        reduction=reduction,
        pipeline=pipeline,
        normalization=normalization,
        epochs=epochs,
    )


def _classify(
    strategy: Any,
    record: Any,
    *,
    flavour: models.Flavour,
    reduction: Reduction,
    pipeline: Pipeline,
    normalization: Normalization,
    epochs: int,
) -> None:
    keras = models.keras_module(flavour)
    with strategy.scope():
        model = _digits_model(keras, normalization)
        optimizer = keras.optimizers.SGD(0.125)
        per_example = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=models.no_reduction(keras))
    _custom_loop(
        strategy,
        record,
        model=model,
        optimizer=optimizer,
        per_example=per_example,
        distributed=_distribute(strategy, pipeline),
        reduction=reduction,
        global_batch=digits.GLOBAL_BATCH,
        epochs=epochs,
    )


def _digits_model(keras: Any, normalization: Normalization) -> Any:
    layers = keras.layers
    stack = [layers.Flatten(), layers.Dense(16, kernel_initializer=models.initializer(1))]
    if normalization != "none":
        stack.append(layers.BatchNormalization(synchronized=normalization == "synchronized"))
    stack += [layers.Activation("relu"), layers.Dense(digits.CLASSES, kernel_initializer=models.initializer(2))]
    return keras.Sequential([keras.Input((8, 8, 1)), *stack])


def _distribute(strategy: Any, pipeline: Pipeline) -> Any:
    import tensorflow as tf

    data = digits.load(EXAMPLES)
    if pipeline == "dataset":
        return strategy.experimental_distribute_dataset(digits.batches(data))

    def dataset_fn(context: Any) -> Any:
        if pipeline == "function":
            batch = context.get_per_replica_batch_size(digits.GLOBAL_BATCH)
        else:
            batch = digits.GLOBAL_BATCH  # the mistake: every replica now gets a whole global batch
        dataset = tf.data.Dataset.from_tensor_slices((data.ids, data.images, data.labels))
        return dataset.shard(context.num_input_pipelines, context.input_pipeline_id).batch(batch)

    return strategy.distribute_datasets_from_function(dataset_fn)


def _custom_loop(
    strategy: Any,
    record: Any,
    *,
    model: Any,
    optimizer: Any,
    per_example: Any,
    distributed: Any,
    reduction: Reduction,
    global_batch: int,
    epochs: int,
) -> None:
    import tensorflow as tf

    with strategy.scope():
        optimizer.build(model.trainable_variables)

    def replica_step(ids: Any, features: Any, labels: Any) -> tuple[Any, Any, Any]:
        with tf.GradientTape() as tape:
            losses = per_example(labels, model(features, training=True))
            if reduction == "global_batch":
                loss = tf.nn.compute_average_loss(losses, global_batch_size=global_batch)
            else:
                loss = tf.reduce_mean(losses)  # the mistake: right on one replica, R times too much on R
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients], ids

    @tf.function
    def train_step(batch: Any) -> tuple[Any, Any, Any]:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), gradients, ids

    names = [getattr(variable, "path", variable.name) for variable in model.trainable_variables]
    for _ in range(epochs):
        for batch in distributed:
            loss, gradients, ids = train_step(batch)
            variables = models.variables_of(model, optimizer)
            record.step(
                loss=loss, gradients=dict(zip(names, gradients, strict=True)), variables=variables, examples=ids
            )
    record.final(variables=models.variables_of(model, optimizer))


def make_text(flavour: models.Flavour = "keras", epochs: int = 4) -> Callable[[Any, Any], None]:
    """Text classification with an embedding, whose gradients are `tf.IndexedSlices` and are reduced sparsely."""
    return functools.partial(_classify_text, flavour=flavour, epochs=epochs)


def _classify_text(strategy: Any, record: Any, *, flavour: models.Flavour, epochs: int) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    text = corpus.load()
    global_batch = len(text.ids) // 2
    dataset = tf.data.Dataset.from_tensor_slices((text.ids, text.tokens, text.topics)).batch(global_batch)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((corpus.LENGTH,), dtype="int32"),
                keras.layers.Embedding(text.vocabulary, 8, embeddings_initializer=models.initializer(3)),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(1, kernel_initializer=models.initializer(4)),
            ]
        )
        optimizer = keras.optimizers.Adam(0.05)
        per_example = keras.losses.BinaryCrossentropy(from_logits=True, reduction=models.no_reduction(keras))
    _custom_loop(
        strategy,
        record,
        model=model,
        optimizer=optimizer,
        per_example=per_example,
        distributed=strategy.experimental_distribute_dataset(dataset),
        reduction="global_batch",
        global_batch=global_batch,
        epochs=epochs,
    )


def make_images(dataset: Literal["mnist", "cifar10"], epochs: int = 1) -> Callable[[Any, Any], None]:
    """Image classification on a subset of MNIST or CIFAR-10, through Keras's own loader."""
    return functools.partial(_classify_images, dataset=dataset, epochs=epochs)


def _classify_images(strategy: Any, record: Any, *, dataset: str, epochs: int) -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    (images, labels), _ = getattr(keras.datasets, dataset).load_data()
    images = images[:EXAMPLES].reshape(EXAMPLES, *images.shape[1:3], -1).astype(np.float32) / 255
    data = tf.data.Dataset.from_tensor_slices((np.arange(EXAMPLES), images, labels[:EXAMPLES].reshape(-1)))
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input(images.shape[1:]),
                keras.layers.Conv2D(4, 3, strides=2, activation="relu", kernel_initializer=models.initializer(5)),
                keras.layers.Flatten(),
                keras.layers.Dense(10, kernel_initializer=models.initializer(6)),
            ]
        )
        optimizer = keras.optimizers.Adam(0.01)
        per_example = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    _custom_loop(
        strategy,
        record,
        model=model,
        optimizer=optimizer,
        per_example=per_example,
        distributed=strategy.experimental_distribute_dataset(data.batch(digits.GLOBAL_BATCH)),
        reduction="global_batch",
        global_batch=digits.GLOBAL_BATCH,
        epochs=epochs,
    )


def parameter_server_without_chief() -> None:
    """The mistake: the script of "Parameter server training", started on a worker and a ps, without a chief task.

    Runs as a plain function on two workers, of which it makes the second one the ps. The worker that runs the script
    takes itself for the coordinator and connects to every worker; nobody serves as the worker that it is, and it waits
    without end.
    """
    import json
    import os

    import tensorflow as tf

    config = json.loads(os.environ["TF_CONFIG"])
    worker, ps = config["cluster"]["worker"]
    task = {"type": "worker", "index": 0} if config["task"]["index"] == 0 else {"type": "ps", "index": 0}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": [worker], "ps": [ps]}, "task": task})
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task["type"] == "ps":
        tf.distribute.Server(resolver.cluster_spec(), job_name="ps", task_index=0, protocol="grpc").join()
    tf.distribute.ParameterServerStrategy(resolver)


custom_training = keras_loop.make("keras", "cnn", "adam")
multi_worker_with_keras = keras_fit.make("tf_keras", "cnn", "sgd")
parameter_server_training = coordinator.make_model("tf_keras", "cnn", "adam")
text_classification = make_text()
dataset_function = make_classifier(pipeline="function")
batch_normalization_synchronized = make_classifier(normalization="synchronized")

mean_then_sum = make_classifier(reduction="replica_mean")
dataset_function_global_batch = make_classifier(pipeline="function_global_batch")
batch_normalization_local = make_classifier(normalization="local")
