"""What several tests of the harness begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import Verdict, verify
from tests.harness._loop import Verified


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def verified(here: Path) -> Verified:
    """Verifies a script under a strategy, as `train.py` in the empty directory that is the current one."""

    def verified(script: str, strategy: str, *words: str, **options: Any) -> Verdict:
        (here / "train.py").write_text(script)
        return verify(["python", "train.py", *words], strategy, **options)

    return verified
