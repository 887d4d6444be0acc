"""Which pages the site has, and under which heading each stands; the build fails for one that stands nowhere."""

from __future__ import annotations

__all__ = ["NAVIGATION"]

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Begin": (
        "docs/getting-started",
        "docs/commands",
        "docs/embedding",
        "docs/troubleshooting",
        "docs/glossary",
        "docs/errors",
        "docs/versions",
    ),
    "A training as a function": (
        "docs/writing-programs",
        "docs/checkpoints",
        "docs/proof",
        "docs/proof-tables",
        "docs/comparing",
        "docs/dtensor",
        "docs/loss-reduction",
    ),
    "A script that you will not touch": ("docs/scripts", "docs/notebooks"),
    "A job that has to survive": (
        "docs/run",
        "docs/faults",
        "docs/search",
        "docs/network",
        "docs/machines",
        "docs/timeline",
    ),
    "TensorFlow, Keras, hardware": (
        "docs/your-own-tensorflow",
        "docs/matrix",
        "docs/matrix-simulated",
        "docs/known-issues",
        "docs/threads",
        "docs/hardware",
        "docs/tf-tests",
        "docs/wild",
        "docs/public-scripts",
    ),
    "How it works": (
        "docs/truthfulness",
        "docs/numerics",
        "docs/ledger",
        "docs/sharding",
        "docs/culprits",
        "docs/diagnostics",
        "docs/sweep",
        "docs/soak",
        "docs/checkpoint-sweeps",
        "docs/architecture",
        "docs/decisions",
    ),
    "What it means": (
        "reference/laws",
        "reference/rules",
        "reference/causes",
        "reference/faults",
        "reference/strategies",
    ),
    "Reference": (
        "reference/harness",
        "reference/simulator",
        "docs/limitations",
        "docs/releasing",
        "CONTRIBUTING",
        "CHANGELOG",
    ),
}
"""Headings of the navigation, with the pages below each, by their paths in the repository or under `reference/`."""
