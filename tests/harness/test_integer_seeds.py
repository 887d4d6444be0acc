"""What an old tf_keras needs to draw seeds with a new Python."""

from __future__ import annotations

import random
import sys
from types import ModuleType, SimpleNamespace

import pytest

from harness.recording.default_seeds import mend_seeds


@pytest.mark.parametrize(
    ("version", "python", "mended"),
    [
        ("2.18.0", (3, 12), True),
        ("2.18.0", (3, 11), False),
        ("2.19.0", (3, 13), False),
    ],
)
def test_an_old_tf_keras_can_ask_for_a_seed_and_a_new_one_is_left_alone(
    version: str, python: tuple[int, ...], mended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given the numbers that it would have been given by an older Python."""
    package, backend = ModuleType("fake_keras"), ModuleType("fake_keras.src.backend")
    package.__version__ = version  # type: ignore[attr-defined]
    backend._SEED_GENERATOR = SimpleNamespace(generator=random.Random(7))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_keras.src.backend", backend)
    mend_seeds(package, 7, python)
    generator = backend._SEED_GENERATOR.generator
    assert (type(generator) is not random.Random) == mended
    if mended:
        assert generator.randint(1, 1e9) == random.Random(7).randint(1, 10**9)
