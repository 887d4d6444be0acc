"""Several reruns as one trace give the bounds that they give apart, bit for bit, and take the room of one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from harness.evidence.furthest import take_in
from harness.evidence.observed import OBSERVABLES, history
from harness.evidence.trace import Array, ClientTrace, Final, RunTrace, Seen, SeenVariable, Value, read_client
from harness.evidence.writing import write_client
from harness.judging.tolerance import Derived
from harness.running import repeated
from harness.running.reference import CACHE_VARIABLE, reference_of
from harness.subject.program import Program
from tests.harness._programs import mlp
from tests.harness._traces import client, step, values, variable

_DTYPES = ("float32", "float64", "float16", "complex64", "int32")
_SHAPES = ((), (3,), (5, 6), (0,))


def _written(folder: Path, traces: Sequence[ClientTrace]) -> list[Path]:
    files = [folder / f"{number}.trace" for number in range(len(traces))]
    for file, trace in zip(files, traces, strict=True):
        write_client(file, trace)
    return files


def _bounds(
    plain: ClientTrace, reruns: Sequence[ClientTrace]
) -> dict[tuple[str, str, int | None], np.ndarray[Any, Any]]:
    reference = RunTrace((plain,))
    tolerance = Derived(reference, [RunTrace((rerun,)) for rerun in reruns])
    return {
        (observable, name, at): tolerance.bound(observable, name, at)
        for observable in OBSERVABLES
        for at, found in history(reference, observable).items()
        for name in found
    }


def _same(one: dict[Any, np.ndarray[Any, Any]], other: dict[Any, np.ndarray[Any, Any]]) -> bool:
    return one.keys() == other.keys() and all(one[key].tobytes() == other[key].tobytes() for key in one)


def _training(*numbers: np.ndarray[Any, Any], coarsest: str | None = None) -> ClientTrace:
    """Two steps and an end, with the same numbers in each observable."""
    steps = [
        step(index, loss=number.sum(), variables={"w": number}, gradients={"w": [number]}, metrics={"m": number})
        for index, number in enumerate(numbers, start=1)
    ]
    final = Final(0.0, predictions=values({"p": numbers[-1]}))
    return client(*steps, task="local:0", final=final, coarsest=coarsest)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(_DTYPES), shape=st.sampled_from(_SHAPES), count=st.integers(2, 4))
def test_bounds_are_the_same_bit_for_bit(data: Any, dtype: str, shape: tuple[int, ...], count: int) -> None:
    """Of any dtype and shape, with values that are not finite and distances that overflow, for any number of reruns."""
    drawn = arrays.arrays(dtype, shape)
    with tempfile.TemporaryDirectory() as place, np.errstate(all="ignore"):
        traces = [_training(*data.draw(st.tuples(drawn, drawn)), coarsest="float16") for _ in range(1 + count)]
        files = _written(Path(place), traces)
        apart = _bounds(traces[0], traces[1:])
        for rerun in files[2:]:
            assert take_in(files[0], files[1], rerun)
        once = files[1].read_bytes()
        assert _same(_bounds(traces[0], [read_client(files[1])]), apart)
        assert take_in(files[0], files[1], files[2])  # as after a kill
        assert files[1].read_bytes() == once


def _moved(by: float) -> ClientTrace:
    return _training(np.array([1.0, 2.0 + by], np.float32), np.array([1.0 - by, 2.0], np.float32))


def test_a_trace_that_keeps_one_of_the_reruns_has_other_bounds(tmp_path: Path) -> None:
    """What the comparison of bounds would find, were the nearest kept, or the first, or the last."""
    plain, near, far = _moved(0.0), _moved(0.01), _moved(-0.5)
    both = _bounds(plain, [near, far])
    assert not _same(_bounds(plain, [near]), both)
    files = _written(tmp_path, [plain, near, far])
    assert take_in(files[0], files[1], files[2])
    assert _same(_bounds(plain, [read_client(files[1])]), both)


def test_what_was_seen_is_kept_as_what_was_reported_is(tmp_path: Path) -> None:
    """Variables and gradients of a program that reports nothing; examples are others in each rerun with noise."""

    def seen(by: float, examples: int) -> ClientTrace:
        number = Array.of(np.array([1.0, 2.0 + by]))
        found = Seen(
            1,
            by,
            variables=(SeenVariable("w", "plain", (number,)),),
            gradients=(Value("w", (number,)),),
            examples=((examples,),),
        )
        return ClientTrace(client().header, seen=(found,))

    files = _written(tmp_path, [seen(0.0, 1), seen(0.25, 2), seen(-0.5, 3)])
    assert take_in(files[0], files[1], files[2])
    (kept,) = read_client(files[1]).seen
    assert kept.variables is not None
    assert kept.variables[0].copies[0].numpy().tolist() == kept.gradients[0].parts[0].numpy().tolist() == [1.0, 1.5]


@pytest.mark.parametrize(
    "other",
    [
        _training(np.zeros(3, np.float32)),
        _training(np.zeros(3, np.float32), np.zeros(4, np.float32)),
        _training(np.zeros(3, np.float32), np.zeros(3)),
        _training(np.zeros(3, np.float32), np.zeros(3, np.float32), coarsest="float16"),
        client(step(1, variables={"v": np.zeros(3, np.float32)}), task="local:0"),
    ],
    ids=["steps", "shape", "dtype", "computed in", "name"],
)
def test_runs_that_do_not_record_alike_stay_apart(other: ClientTrace, tmp_path: Path) -> None:
    """And nothing of what there is has been changed by the attempt, also before the place where they differ."""
    ones = np.ones(3, np.float32)
    files = _written(tmp_path, [_training(ones, ones), _training(2 * ones, 2 * ones), other])
    before = files[1].read_bytes()
    assert not take_in(*files)
    assert files[1].read_bytes() == before


def test_parts_of_a_sum_stay_apart(tmp_path: Path) -> None:
    """The furthest of each part need not add up to the furthest of their sum."""
    files = _written(tmp_path, [client(step(1, loss=[np.float32(k), np.float32(-k)])) for k in range(3)])
    assert not take_in(*files)


@pytest.mark.full
def test_a_reference_with_more_reruns_has_two_traces_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first look stay what they were, and with them its bounds; apart they would give the same."""

    def made(where: str, *, more: bool) -> Any:
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / where))
        return reference_of(Program.of(mlp()), seed=3, perturbed=True, timeout=120.0, check=more, more=more)

    def bounds(reference: Any) -> dict[Any, Any]:
        return _bounds(reference.trace.clients[0], [rerun.clients[0] for rerun in reference.perturbed])

    first, more, again = made("kept", more=False), made("kept", more=True), made("kept", more=False)
    assert [len(each.perturbed) for each in (first, more, again)] == [1, 2, 1]
    assert _same(bounds(first), bounds(again))
    assert not _same(bounds(first), bounds(more))
    monkeypatch.setattr(repeated, "take_in", lambda *_: False)
    apart = made("apart", more=True)
    assert len(apart.perturbed) == 5
    assert _same(bounds(apart), bounds(more))


def test_copies_that_are_the_same_are_written_once(tmp_path: Path) -> None:
    """Each replica has its own when they are read, in the same order, to the bit."""
    one, other = np.zeros(1000, np.float32), np.full(1000, -0.0, np.float32)

    def size(*copies: np.ndarray[Any, Any]) -> int:
        file = tmp_path / "trace"
        write_client(file, client(step(1, variables={"w": variable("w", list(copies), "mirrored")})))
        (found,) = read_client(file).steps[0].variables or ()
        assert found.places == ()
        assert [each.numpy().tobytes() for each in found.copies] == [each.tobytes() for each in copies]
        return file.stat().st_size

    assert size(one, one.copy(), one.copy()) < size(one) + 100
    assert size(one, other, one.copy()) > size(one) + 4000
    assert size(other, one, one.copy()) < size(one) + 4100
