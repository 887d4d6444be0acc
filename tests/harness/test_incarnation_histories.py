"""What the summary of `lockstep run` says of processes that went on from something, or from nothing."""

from __future__ import annotations

import pytest

from harness.report.incarnations import described, histories_of, warnings_of
from simulator.results import Incarnation, Saved


def _saved(path: str, step: int, state: int | None = None) -> Saved:
    return Saved("tf.train.Checkpoint.save", path, step, restores=False, failed=None, state=state)


def _read(path: str | None, failed: str | None = None) -> Saved:
    return Saved("tf.train.Checkpoint.restore", path, 0, restores=True, failed=failed)


def _tasks(**tasks: list[tuple[int, tuple[Saved, ...]]]) -> dict[str, list[Incarnation]]:
    """Of each task its processes: how many steps each made, and what it saved and restored."""
    return {
        name.replace("_", ":"): [
            Incarnation(number, 0, None, None, steps, stopped=False, saves=saves)
            for number, (steps, saves) in enumerate(processes)
        ]
        for name, processes in tasks.items()
    }


def test_a_process_that_went_on_says_from_where_and_what_was_lost() -> None:
    """The checkpoint of step 3 of 5 loses two; the next one begins with three behind it."""
    first, second = (5, (_saved("a/ckpt-1", 3),)), (4, (_read("a/ckpt-1"), _saved("a/ckpt-2", 3)))
    histories = histories_of(_tasks(worker_0=[first, second, (2, (_read("a/ckpt-2"),))]))
    history = histories["worker:0"]
    assert [(each.begins, each.lost) for each in history] == [(0, 2), (3, 1), (6, 0)]
    assert described(history)[1] == (
        "incarnation 1: restored a/ckpt-1, saved at step 3 of incarnation 0; 4 steps, 1 step of the job lost"
    )
    assert warnings_of(histories) == []


def test_a_save_that_was_cut_off_at_its_end_is_known() -> None:
    """Killed right after it had written: what it has written was there to be restored. A whole one says more."""
    cut_off = Saved("tf.train.Checkpoint.save", "a/1", 4, restores=False, failed=None, unfinished=True)
    history = histories_of(_tasks(worker_0=[(5, (cut_off,)), (1, (_read("a/1"),))]))["worker:0"]
    assert history[0].lost == 1
    assert "saved at step 4 of incarnation 0, which ended before the save had returned; 1" in described(history)[1]
    whole = histories_of(_tasks(worker_0=[(5, (_saved("a/1", 3), cut_off)), (1, (_read("a/1"),))]))["worker:0"]
    assert "saved at step 3 of incarnation 0; 1" in described(whole)[1]


def test_a_restore_that_was_cut_off_is_none() -> None:
    """The process has ended within it, and went on from nothing."""
    read = Saved("tf.train.Checkpoint.restore", "a/1", 0, restores=True, failed=None, unfinished=True)
    history = histories_of(_tasks(worker_0=[(5, (_saved("a/1", 4),)), (0, (read,))]))["worker:0"]
    assert history[1].restored is None


def test_what_another_task_has_saved_is_known() -> None:
    """The chief saves for all."""
    result = _tasks(worker_0=[(5, (_saved("a/1", 4),)), (1, (_read("a/1"),))], worker_1=[(5, ()), (1, (_read("a/1"),))])
    assert [each.lost for each in histories_of(result)["worker:1"]] == [1, 0]


def _trained(*processes: tuple[int, int | None, tuple[Saved, ...]]) -> dict[str, list[Incarnation]]:
    """One task: how many steps each process made, with what it began, and what it saved and restored."""
    told = enumerate(processes)
    return {
        "worker:0": [
            Incarnation(number, 0, None, None, steps, stopped=False, saves=saves, begins_with=state)
            for number, (steps, state, saves) in told
        ]
    }


@pytest.mark.parametrize(
    ("begins", "reads", "lost", "says"),
    [
        (2, (), 1, "no restore of TensorFlow's or Keras's was seen"),  # a file of the program's own
        (1, (), 5, "began from scratch"),
        (1, (_read("a/1"),), 5, "saved at step 4 of incarnation 0, and began from scratch"),  # restored into others
        (2, (_read("a/1"), _read("old/1")), 1, "restored old/1"),  # another one was looked at last
        (3, (_read("a/1"),), None, "saved at step 4 of incarnation 0"),  # something else than what was saved
        (3, (), None, "no restore of TensorFlow's or Keras's was seen"),
        (None, (_read("a/1"),), 1, "saved at step 4 of incarnation 0"),
    ],
)
def test_what_a_process_trains_tells_what_it_went_on_from(
    begins: int | None, reads: tuple[Saved, ...], lost: int | None, says: str
) -> None:
    """Whatever was read: a restore may be of something else, or into what is not trained."""
    first = (5, 1, (_saved("a/1", 4, state=2),))
    history = histories_of(_trained(first, (3, begins, reads)))["worker:0"]
    assert history[0].lost == lost
    assert says in described(history)[1]


def test_a_process_that_made_no_step_has_lost_none() -> None:
    """Its restore failed; the next one goes on from the save before."""
    torn = (0, None, (_read("a/2", failed="DataLossError"),))
    first = (6, 1, (_saved("a/1", 2, state=2), _saved("a/2", 4, state=3)))
    history = histories_of(_trained(first, torn, (4, 2, (_read("a/1"),))))["worker:0"]
    assert [each.lost for each in history] == [4, 0, 0]
    assert described(history)[1].startswith("incarnation 1: its restore failed with DataLossError; 0 steps")


@pytest.mark.parametrize("read", [(_read(None),), (_read("a/1", failed="NotFoundError"),)])
def test_a_process_that_began_anew_has_lost_everything(read: tuple[Saved, ...]) -> None:
    """Where it looked, and nothing was found, or restoring failed."""
    history = histories_of(_tasks(worker_0=[(5, (_saved("a/1", 4),)), (3, read)]))["worker:0"]
    assert [each.lost for each in history] == [5, 0]
    assert "incarnation 1: began from scratch; 3 steps" in described(history)


def test_what_nobody_of_this_job_has_saved_leaves_open_what_was_lost() -> None:
    """It may be of an earlier job, of which nothing is known; at the first start it counts for nothing."""
    history = histories_of(_tasks(worker_0=[(5, (_read("old/1"),)), (3, (_read("old/2"),))]))["worker:0"]
    assert [(each.begins, each.lost) for each in history] == [(0, None), (None, 0)]
    assert "how many of them were lost is not known" in described(history)[0]


def test_a_directory_that_is_new_each_time_is_warned_of() -> None:
    """Not of one that stays, nor where the second process has found something."""
    result = _tasks(worker_0=[(5, (_saved("x/1", 4),)), (3, (_saved("y/1", 2),))])
    (warning,) = warnings_of(histories_of(result))
    assert "worker:0 saved into x in incarnation 0 and into y in incarnation 1" in warning
    for second in ((_saved("x/2", 2),), (_read("x/1"), _saved("y/1", 2))):
        result = _tasks(worker_0=[(5, (_saved("x/1", 4),)), (3, second)])
        assert warnings_of(histories_of(result)) == []


def test_one_process_needs_no_lines() -> None:
    """A job that was never started again is as it was."""
    assert described(histories_of(_tasks(worker_0=[(5, (_saved("x/1", 4),))]))["worker:0"]) == []
