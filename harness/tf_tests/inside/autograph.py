"""Has AutoGraph convert the functions of a test module that lies inside a library's package.

AutoGraph leaves the functions of `tensorflow` alone, by the name of their module. Where TensorFlow's tests are run by
their own runner, the test module is `__main__`.
"""

from __future__ import annotations

from harness.tf_tests.inside.state import STATE

__all__ = ["install"]


def install() -> None:
    """Say so to AutoGraph, once the module is known."""
    from tensorflow.python.autograph.core import config

    if STATE.file is None or not STATE.packages:
        return
    if not any(rule._prefix == STATE.file.name for rule in config.CONVERSION_RULES):  # noqa: SLF001 - a plain record
        config.CONVERSION_RULES = (config.Convert(STATE.file.name), *config.CONVERSION_RULES)
