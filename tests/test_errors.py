"""Errors as interface: what each wrong use is answered, word for word, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.errors import meant
from tools import errors
from tools.mistyped.asking import Answer, answers
from tools.pages import filled


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """The answers to all wrong uses."""
    return answers(tmp_path_factory.mktemp("mistyped"))


def test_the_page_has_every_answer(found: list[Answer]) -> None:
    """If one has changed on purpose, run `python tools/errors.py` and read what users will read."""
    page = errors.PAGE.read_text()
    assert filled(page, "errors", errors.answered(found)) == page


def test_all_are_refused_with_a_sentence(found: list[Answer]) -> None:
    """Nothing wrong is accepted, nothing fails by an error of ours, and none shows a path of ours or a traceback."""
    assert len(found) >= 60
    refused = {"2", "UsageError", "TypeError"}
    assert {answer.use: answer.code for answer in found if answer.code not in refused} == {}
    for answer in found:
        assert len(answer.text) > 20
        assert "Traceback" not in answer.text
        assert str(Path.cwd()) not in answer.text


def test_a_near_name_is_suggested() -> None:
    """One letter off is near, another word is not."""
    assert meant("kil", ["kill", "pause"]) == "did you mean kill? "
    assert meant("TF_KIL-IT", ["tf-kill-it", "tf_pause"]) == "did you mean tf-kill-it? "
    assert meant("elephant", ["kill", "pause"]) == ""
    assert meant(None, ["kill"]) == ""
