"""Tests as TensorFlow's own: one that runs in every worker, and one that runs a function in processes."""

import os

import tensorflow as tf
from absl.testing import parameterized

combinations = tf.__internal__.distribute.combinations
multi_process_runner = tf.__internal__.distribute.multi_process_runner

TWO_WORKERS = combinations.multi_worker_mirrored_2x1_cpu


class AllReduceTest(tf.test.TestCase, parameterized.TestCase):
    @combinations.generate(tf.__internal__.test.combinations.combine(strategy=TWO_WORKERS, mode="eager"))
    def test_sum(self, strategy):
        one_each = strategy.run(lambda: tf.constant(1.0))
        assert strategy.reduce("sum", one_each, axis=None) == 2.0


class FunctionTest(tf.test.TestCase):
    def test_each_worker_is_one_of_two(self):
        cluster = multi_process_runner.create_cluster_spec(num_workers=2)
        found = multi_process_runner.run(lambda: os.environ["TF_CONFIG"], cluster)
        assert len(set(found.return_value)) == 2


if __name__ == "__main__":
    multi_process_runner.test_main()
