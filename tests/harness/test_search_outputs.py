"""States that logs, errors and numbers show: what differs in each run is left out, and what is new is not."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from harness.judging.laws.protocol import Judgement
from harness.search.outputs import own_frames, states_of_margins, states_of_result
from simulator import RunResult, TaskError
from simulator.results import Incarnation, TaskResult

TRACEBACK = f"""Traceback (most recent call last):
  File "/home/me/train.py", line 40, in train
    step(batch)
  File "{sysconfig.get_path("purelib")}/keras/src/trainer.py", line 12, in fit
    raise error
  File "/home/me/model.py", line 7, in call
    raise ValueError("no")
ValueError: no
"""


def _died(log: str, error: TaskError | None = None) -> RunResult:
    life = Incarnation(number=0, exit=1, signal=None, error=error, steps=3, stopped=False)
    task = TaskResult(
        task="worker:1",
        value=None,
        error=error,
        exit=1,
        signal=None,
        log=log,
        incarnation=0,
        steps=3,
        stopped=False,
        incarnations=(life,),
    )
    return RunResult({"worker:1": task}, 1.0, Path())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("step 3: loss 0.25", "step 17: loss 1.5e-07"),
        ("saved /tmp/a1/ckpt-3.index", "saved /tmp/zz9/run/ckpt-12.index"),
        (
            "2026-01-31 12:00:00.000001: W tensorflow/core/x.cc:153] peer 10.0.0.1 at 0x7f01 is gone",
            "2026-01-31 12:07:31.000002: W tensorflow/core/x.cc:153] peer 10.0.0.2 at 0x7fff is gone",
        ),
    ],
)
def test_lines_that_differ_in_their_numbers_are_one(one: str, other: str) -> None:
    """A loss, a folder of this run, an address."""
    first, second = (set(states_of_result(_died(log))) for log in (one, other))
    assert first == second
    assert len(first) == 1


def test_another_line_is_another_state() -> None:
    """The negative control; and what TensorFlow writes at its start is none."""
    start = "2026-01-31 12:00:00.000001: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on."
    again = "--- lockstep: worker:1 starts again, incarnation 1"
    states = set(states_of_result(_died(f"{start}\nno save found\n{again}\nbegins anew\n\n")))
    assert states == {("line", "worker", "no save found"), ("line", "worker", "begins anew")}


def test_of_a_traceback_only_the_last_line_is_one() -> None:
    """Its frames are the stack; what the program writes afterwards counts again."""
    chained = "\nThe above exception was the direct cause of the following exception:\n"
    log = f"{TRACEBACK}{chained}\n{TRACEBACK.replace('no', 'nothing left')}goes on"
    words = {text for _, _, text in states_of_result(_died(log))}
    assert words == {"ValueError: no", "ValueError: nothing left", "goes on"}


def test_an_error_has_the_stack_of_the_programs_own_code() -> None:
    """Frames of installed packages are left out; of an error without a traceback nothing is known."""
    error = TaskError("worker:1", "ValueError", "no", traceback=TRACEBACK)
    assert own_frames(error) == ["train.py:40", "model.py:7"]
    assert set(states_of_result(_died("", error))) == {("stack", "worker", "ValueError", "train.py:40", "model.py:7")}
    assert not set(states_of_result(_died("", TaskError("worker:1", "Signal", "SIGKILL"))))


def test_margins_are_powers_of_ten() -> None:
    """What is far within its bound, beyond it or without one has no margin."""
    ratios = (0.5, 0.04, 1e-5, 3.0, None)
    laws = [Judgement(f"law_{number}", "held", worst_ratio=ratio) for number, ratio in enumerate(ratios)]
    assert set(states_of_margins(laws)) == {
        ("margin", "law_0", "below 1 of its bound"),
        ("margin", "law_1", "below 0.1 of its bound"),
    }
