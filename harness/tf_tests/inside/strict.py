"""All that is replaced in TensorFlow's test libraries, alike in the process of a file and in its tasks."""

from __future__ import annotations

from harness.tf_tests.inside import (
    held_ports,
    pickles,
    strict_pool,
    strict_runner,
    strict_tests,
    wanted_gpus,
)
from harness.tf_tests.inside.state import STATE


def install() -> None:
    """Replace it; may be called again, and is after each import of a test, since some reload a library."""
    _convert_the_test_module()
    pickles.install()
    strict_runner.install()
    strict_pool.install()
    strict_tests.install()
    held_ports.install()
    wanted_gpus.install()


def _convert_the_test_module() -> None:
    """Have AutoGraph convert the functions of a test module that lies inside a library's package.

    AutoGraph leaves the functions of `tensorflow` alone, by the name of their module. Where TensorFlow's tests are run
    by their own runner, the test module is `__main__`.
    """
    from tensorflow.python.autograph.core import config

    if STATE.file is None or not STATE.packages:
        return
    if not any(rule._prefix == STATE.file.name for rule in config.CONVERSION_RULES):  # noqa: SLF001 - a plain record
        config.CONVERSION_RULES = (config.Convert(STATE.file.name), *config.CONVERSION_RULES)
