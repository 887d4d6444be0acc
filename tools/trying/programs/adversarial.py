"""Two optimizers, gradients of gradients, and steps within steps: adversarial nets, penalties, SAM, MAML."""

import keras
import numpy as np
import tensorflow as tf

BATCH, STEPS = 8, 2
SUM = tf.distribute.ReduceOp.SUM


def context():
    return tf.distribute.get_replica_context()


def dataset():
    random = np.random.default_rng(0)
    real = random.normal(1.0, 0.5, size=(BATCH * STEPS, 3)).astype("float32")
    latent = random.normal(size=(BATCH * STEPS, 2)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((real, latent)).batch(BATCH)


def dense(units, seed, **options):
    return keras.layers.Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), **options)


def players(strategy):
    with strategy.scope():
        generator = keras.Sequential([keras.Input((2,)), dense(4, 1, activation="tanh"), dense(3, 2)])
        critic = keras.Sequential([keras.Input((3,)), dense(4, 3, activation="tanh"), dense(1, 4)])
        optimizers = keras.optimizers.SGD(0.2), keras.optimizers.SGD(0.1)
        for optimizer, model in zip(optimizers, (generator, critic)):
            optimizer.build(model.trainable_variables)
    return generator, critic, optimizers


def average(values):
    return tf.nn.compute_average_loss(values, global_batch_size=BATCH)


def apply(optimizer, tape, loss, model):
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


def loop(strategy, record, replica_step, *models):
    @tf.function
    def train_step(real, latent):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(real, latent)), axis=None)

    for real, latent in strategy.experimental_distribute_dataset(dataset()):
        loss = train_step(real, latent)
        record.step(loss=loss, variables=[variable for model in models for variable in model.variables])


# ---- wrong ----


def train_one_of_two_losses(strategy, record):
    """The critic's loss is a part of a sum, the generator's is a mean."""
    generator, critic, (for_generator, for_critic) = players(strategy)

    def replica_step(real, latent):
        with tf.GradientTape() as tape, tf.GradientTape() as other:
            fake = critic(generator(latent))
            critic_loss = average(tf.nn.softplus(-critic(real)[:, 0]) + tf.nn.softplus(fake[:, 0]))
            generator_loss = tf.reduce_mean(tf.nn.softplus(-fake))  # guilty
        apply(for_critic, tape, critic_loss, critic)
        apply(for_generator, other, generator_loss, generator)
        return critic_loss

    loop(strategy, record, replica_step, generator, critic)


def train_relative_to_local_mean(strategy, record):
    """Real examples are compared with the mean of the fakes, which is the replica's."""
    generator, critic, (for_generator, for_critic) = players(strategy)

    def replica_step(real, latent):
        with tf.GradientTape() as tape, tf.GradientTape() as other:
            fake = critic(generator(latent))[:, 0]
            relative = critic(real)[:, 0] - tf.reduce_mean(fake)  # guilty
            critic_loss = average(tf.nn.softplus(-2.0 * relative))
            generator_loss = average(tf.nn.softplus(-fake))
        apply(for_critic, tape, critic_loss, critic)
        apply(for_generator, other, generator_loss, generator)
        return critic_loss

    loop(strategy, record, replica_step, generator, critic)


def train_penalty_of_local_mean(strategy, record):
    """The gradient of a mean by the inputs grows as the batch shrinks."""
    _, critic, (_, optimizer) = players(strategy)

    def replica_step(real, latent):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(real)
                score = tf.reduce_mean(critic(real))  # guilty
            slopes = BATCH * inner.gradient(score, real)
            penalty = average(tf.reduce_sum(slopes**2, axis=1))
            loss = average(tf.nn.softplus(-critic(real)[:, 0])) + penalty
        apply(optimizer, tape, loss, critic)
        return loss

    loop(strategy, record, replica_step, critic)


def train_penalty_of_unreduced_gradient(strategy, record):
    """The norm of the gradient by the weights, of which every replica has a part."""
    _, critic, (_, optimizer) = players(strategy)

    def replica_step(real, latent):
        variables = critic.trainable_variables
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                loss = average(tf.nn.softplus(-critic(real)[:, 0]))
            gradients = inner.gradient(loss, variables)
            penalty = tf.add_n([tf.reduce_sum(gradient**2) for gradient in gradients])  # guilty
            total = loss + penalty
        apply(optimizer, tape, total, critic)
        return total

    loop(strategy, record, replica_step, critic)


def train_sharpness_locally(strategy, record):
    """Every replica climbs along its own gradient before it descends."""
    _, critic, (_, optimizer) = players(strategy)

    def replica_step(real, latent):
        variables = critic.trainable_variables
        with tf.GradientTape() as tape:
            loss = average(tf.nn.softplus(-critic(real)[:, 0]))
        gradients = tape.gradient(loss, variables)
        scale = 0.5 / tf.linalg.global_norm(gradients)  # guilty
        climbs = [scale * gradient for gradient in gradients]  # guilty
        with tf.GradientTape() as tape:
            kernel, bias, out, last = (v + climb for v, climb in zip(variables, climbs))
            score = (tf.tanh(real @ kernel + bias) @ out + last)[:, 0]
            climbed = average(tf.nn.softplus(-score))
        optimizer.apply_gradients(zip(tape.gradient(climbed, variables), variables))
        return loss

    loop(strategy, record, replica_step, critic)


def train_adapted_locally(strategy, record):
    """A step within the step is taken along the gradient of the replica."""
    _, critic, (_, optimizer) = players(strategy)

    def replica_step(real, latent):
        kernel, bias, out, last = (v.value for v in critic.trainable_variables)
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(out)
                before = average(tf.nn.softplus(-(tf.tanh(real @ kernel + bias) @ out + last)[:, 0]))
            adapted = out - 0.5 * inner.gradient(before, out)  # guilty
            loss = average(tf.nn.softplus((tf.tanh(real @ kernel + bias) @ adapted + last)[:, 0]))
        variables = critic.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    loop(strategy, record, replica_step, critic)


# ---- right ----


def train_right(strategy, record):
    generator, critic, (for_generator, for_critic) = players(strategy)

    def replica_step(real, latent):
        with tf.GradientTape() as tape, tf.GradientTape() as other:
            fake = critic(generator(latent))[:, 0]
            critic_loss = average(tf.nn.softplus(-critic(real)[:, 0]) + tf.nn.softplus(fake))
            generator_loss = average(tf.nn.softplus(-fake))
        apply(for_critic, tape, critic_loss, critic)
        apply(for_generator, other, generator_loss, generator)
        return critic_loss

    loop(strategy, record, replica_step, generator, critic)


def train_right_penalty(strategy, record):
    """The slope of each example's score by itself."""
    _, critic, (_, optimizer) = players(strategy)

    def replica_step(real, latent):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(real)
                score = tf.reduce_sum(critic(real))
            norms = tf.sqrt(tf.reduce_sum(inner.gradient(score, real) ** 2, axis=1) + 1e-6)
            loss = average(tf.nn.softplus(-critic(real)[:, 0]) + (norms - 1.0) ** 2)
        apply(optimizer, tape, loss, critic)
        return loss

    loop(strategy, record, replica_step, critic)


def train_right_sharpness(strategy, record):
    """All climb along the gradient of the whole batch."""
    _, critic, (_, optimizer) = players(strategy)

    def replica_step(real, latent):
        variables = critic.trainable_variables
        with tf.GradientTape() as tape:
            loss = average(tf.nn.softplus(-critic(real)[:, 0]))
        gradients = context().all_reduce(SUM, tape.gradient(loss, variables))
        scale = 0.5 / tf.linalg.global_norm(gradients)
        climbs = [scale * gradient for gradient in gradients]
        with tf.GradientTape() as tape:
            kernel, bias, out, last = (v + climb for v, climb in zip(variables, climbs))
            score = (tf.tanh(real @ kernel + bias) @ out + last)[:, 0]
            climbed = average(tf.nn.softplus(-score))
        optimizer.apply_gradients(zip(tape.gradient(climbed, variables), variables))
        return loss

    loop(strategy, record, replica_step, critic)
