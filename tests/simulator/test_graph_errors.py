"""An error in a graph says what is wrong and where, and not where TensorFlow was."""

from __future__ import annotations

from simulator.agent.graph_errors import readable, without_own

_TEXT = """Graph execution error:

Detected at node while/IteratorGetNext defined at (most recent call last):
  File "<string>", line 1, in <module>

  File "/venv/lib/site-packages/multiprocess/forkserver.py", line 273, in main

  File "/own/simulator/agent/main.py", line 44, in main

  File "/home/me/train.py", line 52, in <module>

  File "/own/harness/recording/witness/calls.py", line 48, in call

  File "/home/me/train.py", line 45, in evaluate

End of sequence
Additional GRPC error information from remote target /job:worker/replica:0/task:1
\t [[{{node while/IteratorGetNext}}]] [Op:__inference_evaluate_521]"""


def test_what_is_wrong_comes_first_with_the_line_of_the_program() -> None:
    """Frames of TensorFlow, of the forkserver and of Lockstep are nobody's business."""
    assert readable(_TEXT, ("/own/simulator/", "/own/harness/")).splitlines() == [
        "End of sequence (while/IteratorGetNext, train.py:45)",
        "Additional GRPC error information from remote target /job:worker/replica:0/task:1",
    ]


def test_of_several_errors_the_first_is_said() -> None:
    """TensorFlow counts them, and repeats what is one mistake for each of its nodes."""
    several = "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  no value\n\t [[{{node a}}]]\n  (1) NOT_FOUND:  none\n"
    text = _TEXT.partition("End of sequence")[0] + several
    assert readable(text, ("/own/simulator/", "/own/harness/")) == "no value (while/IteratorGetNext, train.py:45)"


def test_frames_by_which_a_process_begins_are_left_out() -> None:
    """With the empty lines that follow them."""
    assert without_own(_TEXT, ("/own/simulator/", "/own/harness/")).splitlines()[2:8] == [
        "Detected at node while/IteratorGetNext defined at (most recent call last):",
        "",
        '  File "/home/me/train.py", line 52, in <module>',
        "",
        '  File "/home/me/train.py", line 45, in evaluate',
        "",
    ]


def test_frames_of_autograph_are_left_out_with_their_source() -> None:
    """They stand deeper than those of a graph, and the program's own ones stay."""
    text = """in user code:

    File "/home/me/train.py", line 35, in step  *
        return strategy.run(step_fn)
    File "/own/harness/recording/witness/calls.py", line 40, in call  **
        return original(called, *args, **options)
    File "/own/harness/recording/work.py", line 212, in combine
        result = original(launcher, value)

    TypeError: no such dtype"""
    assert without_own(text, ("/own/harness/",)).splitlines() == [
        "in user code:",
        "",
        '    File "/home/me/train.py", line 35, in step  *',
        "        return strategy.run(step_fn)",
        "",
        "    TypeError: no such dtype",
    ]


def test_another_error_is_as_it_was() -> None:
    """Also one that only looks alike."""
    for text in ("", "no such file", 'Graph execution error:\n  File "a.py", line 1, in b'):
        assert readable(text) == text
