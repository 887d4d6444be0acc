"""Which pages the site has, and under which heading each stands; the build fails for one that stands nowhere."""

from __future__ import annotations

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Begin": (
        "docs/getting-started",
        "docs/commands",
        "docs/embedding",
        "docs/troubleshooting",
        "docs/comparison",
        "docs/glossary",
        "docs/errors",
        "docs/versions",
    ),
    "A training as a function": (
        "docs/writing-programs",
        "docs/checkpoints",
        "docs/proof",
        "docs/comparing",
        "docs/dtensor",
    ),
    "A script that you will not touch": ("docs/scripts", "docs/live", "docs/notebooks"),
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
        "docs/known-issues",
        "docs/hardware",
        "docs/tf-tests",
    ),
    "How it works": (
        "docs/truthfulness",
        "docs/numerics",
        "docs/ledger",
        "docs/diagnostics",
        "docs/architecture",
        "docs/decisions",
    ),
    "Measured": (
        "docs/matrix",
        "docs/matrix-simulated",
        "docs/proof-tables",
        "docs/faults-measured",
        "docs/culprits",
        "docs/mistakes",
        "docs/sweep",
        "docs/soak",
        "docs/checkpoint-sweeps",
        "docs/loss-reduction",
        "docs/sharding",
        "docs/threads",
        "docs/wild",
        "docs/public-scripts",
        "docs/words",
    ),
    "What it means": (
        "reference/laws",
        "reference/codes",
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
        "changes/README",
    ),
}
"""Headings of the navigation, with the pages below each, by their paths in the repository or under `reference/`."""
