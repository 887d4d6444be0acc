"""GPUs are lent to one run at a time."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from simulator import DeadlineExceeded
from simulator.hardware import Gpu
from simulator.hardware.leases import SHARE_VARIABLE, gpu_lease

_TWO = (Gpu(0, "first", 2**30), Gpu(1, "second", 2**30))


def test_two_runs_have_different_gpus(tmp_path: Path) -> None:
    """The second takes what the first has left, and a third one finds none in time."""
    with gpu_lease(1, _TWO, 1.0, tmp_path) as first, gpu_lease(1, _TWO, 1.0, tmp_path) as second:
        assert {*first, *second} == set(_TWO)
        told = r"gave up after 0.05 s waiting for GPU 0 \(first\), which another run of Lockstep has: LOCKSTEP_SHARE"
        with pytest.raises(DeadlineExceeded, match=told), gpu_lease(1, _TWO, 0.05, tmp_path):
            pass
    with gpu_lease(3, _TWO, 1.0, tmp_path) as all_of_them:
        assert all_of_them == _TWO


def test_a_run_waits_until_enough_are_free(tmp_path: Path) -> None:
    """Who wants two and finds one holds none meanwhile, so that nobody waits for each other."""
    got: list[tuple[Gpu, ...]] = []

    def want_both() -> None:
        with gpu_lease(2, _TWO, 30.0, tmp_path) as both:
            got.append(both)

    with contextlib.ExitStack() as stack:
        stack.enter_context(gpu_lease(1, _TWO, 1.0, tmp_path))
        thread = threading.Thread(target=want_both)
        thread.start()
        with gpu_lease(1, _TWO, 30.0, tmp_path) as other:
            assert other == (_TWO[1],)
        assert got == []
    thread.join(30.0)
    assert got == [_TWO]


def test_a_run_takes_whichever_is_free_first(tmp_path: Path) -> None:
    """Not only the one that it found busy first, which may stay so."""
    got: list[tuple[Gpu, ...]] = []

    def want_one() -> None:
        with gpu_lease(1, _TWO, 10.0, tmp_path) as one:
            got.append(one)

    with gpu_lease(1, _TWO, 1.0, tmp_path):
        with gpu_lease(1, _TWO, 1.0, tmp_path):
            thread = threading.Thread(target=want_one)
            thread.start()
            thread.join(0.1)
            assert got == []
        thread.join(30.0)
    assert got == [(_TWO[1],)]


def test_the_lock_is_that_of_the_physical_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`CUDA_VISIBLE_DEVICES=1` makes GPU 1 number 0, and another process must not take it for GPU 0."""
    with gpu_lease(1, _TWO, 1.0, tmp_path) as first:
        assert first == (_TWO[0],)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        with gpu_lease(1, _TWO[:1], 1.0, tmp_path) as shown_as_first:
            assert shown_as_first == (_TWO[0],)


def test_runs_share_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody waits."""
    monkeypatch.setenv(SHARE_VARIABLE, "1")
    with gpu_lease(2, _TWO, 1.0, tmp_path) as first, gpu_lease(2, _TWO, 1.0, tmp_path) as second:
        assert first == second == _TWO
