"""The same with an optimizer that takes the largest of the replicas' values for what overwrites a variable."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class SGD(keras.optimizers.SGD):
    def _overwrite_variables_directly_with_gradients(self, grads, variables):
        def largest(grad, variable):
            if not self._overwrite_variable_with_gradient(variable):
                return grad
            return tf.reduce_max(tf.distribute.get_replica_context().all_gather(grad[None], axis=0), axis=0)

        grads = [largest(grad, variable) for grad, variable in zip(grads, variables, strict=True)]
        return super()._overwrite_variables_directly_with_gradients(grads, variables)


with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, dtype=keras.DTypePolicy("float32"))])
    model.layers[0].quantize("float8")
    model.compile(SGD(0.0), "mse")
examples = tf.constant([[1.0], [2.0], [3.0], [4.0]])
model.fit(examples, examples, batch_size=4, epochs=2, shuffle=False, verbose=0)
largest = [float(tf.reduce_max(copy)) for copy in model.layers[0].inputs_amax_history.value.values]
print("as it should be:" if largest == [4.0, 4.0] else "wrong:", "largest inputs", largest, "right: [4.0, 4.0]")
