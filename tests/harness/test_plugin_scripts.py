"""The pytest plugin's marker and fixture for unmodified scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = """
import pytest

@pytest.mark.scripts("train.py --epochs 1", "other.py 'a b'")
def test_each(script):
    assert script in (["python", "train.py", "--epochs", "1"], ["python", "other.py", "a b"])

def test_nameless(script):
    pass

@pytest.mark.scripts(["python", "train.py"])
def test_list(script):
    pass
"""


def test_scripts_are_listed_by_a_marker(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture goes through them, as commands that `verify` takes; other uses say what is accepted."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_sample=SCRIPTS)
    options = ("-p", "harness.plugin", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-v", "--strict-markers")
    result = pytester.runpytest_subprocess(*options, "-k", "each or nameless", timeout=60)
    assert "scripts takes commands without python" in result.stdout.str()
    pytester.makepyfile(test_sample=SCRIPTS.partition("@pytest.mark.scripts([")[0])
    result = pytester.runpytest_subprocess(*options, timeout=60)
    result.assert_outcomes(passed=2, errors=1)
    assert "test_each[train.py --epochs 1]" in result.stdout.str()
    result.stdout.fnmatch_lines(['*the fixture `script` needs scripts; write @pytest.mark.scripts("train.py")*'])
