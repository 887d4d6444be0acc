"""All that is replaced in TensorFlow's test libraries, alike in the process of a file and in its tasks."""

from __future__ import annotations

from harness.tf_tests.inside import (
    autograph,
    carried,
    held_ports,
    strict_pool,
    strict_runner,
    strict_tests,
    wanted_gpus,
)

__all__ = ["install"]


def install() -> None:
    """Replace it; may be called again, and is after each import of a test, since some reload a library."""
    autograph.install()
    carried.install()
    strict_runner.install()
    strict_pool.install()
    strict_tests.install()
    held_ports.install()
    wanted_gpus.install()
