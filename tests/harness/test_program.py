"""What is under test: its name, its digest, and what is said when it is not a program."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Program
from simulator import UsageError
from tests.harness._programs import exact, one_value

EXTRA: dict[str, Any] = {"extra": 1}


def _file(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_names_say_where_a_program_comes_from(tmp_path: Path) -> None:
    """A function is called by module and name, a partial also by its options, a file by its own name."""

    def inner(strategy: Any, record: Any) -> None: ...

    class Trainer:
        def __call__(self, strategy: Any, record: Any) -> None: ...

    assert Program.of(one_value).name == "_programs.one_value"
    assert Program.of(exact("copy_off")).name == "_programs._exact(mistake='copy_off', note='')"
    assert Program.of(inner).name.endswith("test_program.test_names_say_where_a_program_comes_from.inner")
    assert Program.of(Trainer()).name == "test_program.Trainer"
    assert Program.of(_file(tmp_path, "def go(s, r): pass\n", "my train.py") + ":go").name == "my train.py:go"


def test_a_program_is_accepted_as_it_is() -> None:
    """`Program.of` of a program is that program."""
    program = Program.of(one_value)
    assert Program.of(program) is program


def test_the_digest_follows_the_program() -> None:
    """The same program has the same digest, another option or another closure has another."""

    def make(number: int) -> Callable[[Any, Any], None]:
        def train(strategy: Any, record: Any) -> None:
            record.step(loss=number)

        return train

    assert Program.of(exact()).digest == Program.of(exact()).digest
    assert Program.of(exact()).digest != Program.of(exact("copy_off")).digest
    assert Program.of(make(1)).digest == Program.of(make(1)).digest
    assert Program.of(make(1)).digest != Program.of(make(2)).digest


def test_the_digest_follows_the_file(tmp_path: Path) -> None:
    """An edited file is another program, and so is another function of the same file."""
    text = "def a(strategy, record): pass\ndef b(strategy, record): pass\n"
    file = _file(tmp_path, text)
    before = Program.of(f"{file}:a").digest
    assert Program.of(f"{file}:a").digest == before
    assert Program.of(f"{file}:b").digest != before
    _file(tmp_path, text + "# edited\n")
    assert Program.of(f"{file}:a").digest != before


def test_a_function_of_an_edited_module_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that travels by reference is known by the content of its module."""
    _file(tmp_path, "def train(strategy, record): pass\n", "edited_module.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    import edited_module  # type: ignore[import-not-found]

    before = Program.of(edited_module.train).digest
    _file(tmp_path, "def train(strategy, record): record.step(loss=1)\n", "edited_module.py")
    assert Program.of(edited_module.train).digest != before


def test_load_gives_the_function_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task gets a function that does what the original does, also one that is assigned in its file."""
    file = _file(
        tmp_path, "def make(n):\n    return lambda strategy, record: record.append(n)\ntrain = make(3)\n", "made.py"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    heard: list[int] = []
    Program.of(f"{file}:train").load()(None, heard)
    Program.of(functools.partial(lambda n, strategy, record: record.append(n), 4)).load()(None, heard)
    monkeypatch.delitem(sys.modules, "made")
    assert heard == [3, 4]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("train.py", "names no function; a program is given as FILE.py:FUNCTION, for example train.py:train"),
        ("train.py:", "names no function"),
        (":train", "names no function"),
        ("nowhere.py:train", "there is no file 'nowhere.py'"),
        (".:train", "'.' is a directory"),
    ],
)
def test_a_text_that_names_no_program_is_a_usage_error(text: str, fragment: str) -> None:
    """The message shows the accepted form."""
    with pytest.raises(UsageError, match=fragment):
        Program.of(text)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("def other(s, r): pass\nx = y = other\n", "defines no function 'train'; it defines other, x, y"),
        ("train = 3\n", "defines no function 'train'; it defines none at all"),
        ("", "defines no function 'train'; it defines none at all"),
        ("async def train(s, r): pass\n", "defines no function 'train'"),
        ("x = 1\ndef train(s, r:\n", r"is not Python: .* \(line 2\)"),
        ("x = '\0'\n", "is not Python: "),
        ("def train(strategy): pass\n", r"train in .* cannot be called as train\(strategy, record\): see line 1"),
        ("\ndef train(strategy, record, steps): pass\n", "see line 2"),
        ("def train(strategy, record, *, steps): pass\n", "cannot be called"),
        ("def train(): pass\n", "cannot be called"),
    ],
)
def test_a_file_without_the_program_is_a_usage_error(content: str, fragment: str, tmp_path: Path) -> None:
    """A missing function, a syntax error and a wrong signature are found before anything runs."""
    with pytest.raises(UsageError, match=fragment):
        Program.of(_file(tmp_path, content) + ":train")


@pytest.mark.parametrize(
    "signature",
    ["strategy, record", "*args", "strategy, *rest", "a, b, c=1, *, d=2", "strategy, record, /", "s, r=None"],
)
def test_a_file_with_a_callable_signature_is_accepted(signature: str, tmp_path: Path) -> None:
    """Whatever can be called with two arguments is a program; a decorator is trusted."""
    Program.of(_file(tmp_path, f"def train({signature}): pass\n") + ":train")
    Program.of(_file(tmp_path, "@with_options\ndef train(a, b, c): pass\n") + ":train")


@pytest.mark.parametrize(
    ("function", "fragment"),
    [
        (lambda strategy: None, r"<lambda> cannot be called as train\(strategy, record\): too many"),
        (lambda strategy, record, steps: None, "missing a required argument: 'steps'"),
        (functools.partial(one_value, **EXTRA), "cannot be called as train"),
        (3, r"3 is not a program; give a function train\(strategy, record\), or FILE.py:FUNCTION"),
        (None, "None is not a program"),
    ],
)
def test_a_wrong_object_is_a_usage_error(function: Any, fragment: str) -> None:
    """What cannot be called with a strategy and a recorder is refused with the reason."""
    with pytest.raises(UsageError, match=fragment):
        Program.of(function)


def test_what_cannot_be_sent_to_a_task_is_a_usage_error() -> None:
    """A closure over what cannot be pickled says what to do instead."""
    numbers = (number for number in range(3))

    def train(strategy: Any, record: Any) -> None:
        record.step(loss=next(numbers))

    with pytest.raises(UsageError, match=r"cannot be sent to a task .*create what cannot be pickled inside"):
        Program.of(train)


@pytest.mark.parametrize("name", ["harness", "json"])
def test_a_file_does_not_take_the_place_of_a_module(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file called like something that is imported already is loaded beside it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    there = sys.modules.get(name)
    (tmp_path / f"{name}.py").write_text("def train(strategy, record):\n    return 7\n")
    assert Program.of(f"{tmp_path}/{name}.py:train").load()(None, None) == 7
    assert sys.modules.get(name) is there
