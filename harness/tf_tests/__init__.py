"""`pytest -p harness.tf_tests`: tests for TensorFlow's multi-process runner, under plain pytest, told truthfully."""

from harness.tf_tests.plugin import *  # noqa: F403 - pytest's hooks
from harness.tf_tests.plugin import __all__ as __all__
