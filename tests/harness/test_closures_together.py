"""What several workers of a coordinator do that a single one does not: right ones are accepted, wrong ones found."""

from __future__ import annotations

from typing import Any

import pytest

from harness.evidence.counters import Counters
from harness.evidence.reference import Reference
from harness.evidence.stand_ins import UNFINISHED, UNJOINED, StandIn
from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, SeenVariable, Value
from harness.judging.assumptions import with_assumptions
from harness.judging.closures_collected import as_one_worker
from harness.judging.closures_script import SingleWorkerScript
from harness.judging.laws.protocol import Judgement, judged
from harness.judging.verdict import Verdict
from harness.saved_run import with_saved_findings
from harness.subject.script import Script, Updates
from simulator import UsageError

HELD = tuple(
    Judgement(law.law, "held", compared=1, suffices=True)
    for law in (judged("variables_match_reference", 1, ()), judged("examples_match_reference", 1, ()))
)
DATA = list(range(100, 116))


def _trace(closures: list[dict[str, Any]], told: tuple[StandIn, ...] = ()) -> RunTrace:
    seen = tuple(
        Seen(
            index=index,
            at=0.0,
            variables=(SeenVariable("w", "plain", (Array.of([each.get("w", float(index)), 0.5]),)),),
            examples=(tuple(each["rows"]),),
            gradients=(Value("w", (Array.of([each.get("gradient", 2.0), 1.0 * each.get("gradient", 2.0)]),), True),),
            worker=each["worker"],
        )
        for index, each in enumerate(closures, start=1)
    )
    header = Header("chief:0", 0, "parameter_server-2w1p", 1, 1, 1, 20, {})
    return RunTrace((ClientTrace(header, seen=seen, counters=Counters(stand_ins=told)),))


def _batches(rows: list[int], size: int, count: int) -> list[list[int]]:
    """Batches of data that repeats."""
    repeated = rows * (1 + size * count // len(rows))
    return [repeated[begin : begin + size] for begin in range(0, size * count, size)]


def _read(shards: list[list[int]], *, count: int = 24, size: int = 2) -> RunTrace:
    """Workers that take turns, each with data of its own."""
    read = [_batches(rows, size, count) for rows in shards]
    workers = [index % len(shards) for index in range(count)]
    return _trace([{"rows": read[w][index // len(shards)], "worker": w} for index, w in enumerate(workers)])


ALONE = _read([DATA])


def _verdict(run: RunTrace, *natives: RunTrace, updates: Updates | None = None) -> Verdict:
    reads, *more = natives
    alone = SingleWorkerScript(reads, more[0] if more else None, reads)
    return with_assumptions(
        Verdict("a.py", "parameter_server-2w1p", HELD), run, ALONE, 1, updates=updates, alone=lambda: alone
    )


@pytest.mark.parametrize(
    ("shards", "text"),
    [
        ([DATA, DATA], ""),
        ([DATA[::2], DATA[1::2]], ""),
        ([DATA[1::2], DATA[::2]], ""),
        ([DATA[::-1], DATA], ""),  # each in an order of its own
        ([DATA[::3], DATA[1::3], DATA[2::3]], ""),
        ([DATA[:8], DATA[8:]], ""),
        ([DATA[::2], DATA[::2]], "workers 0 and 1 read the same examples in the same order, shard 0 of 2"),
        ([DATA[1::2], DATA[1::2]], "nobody reads shard 0"),
        ([DATA[::3], DATA[1::3], DATA[1::3]], "workers 1 and 2 read the same"),
        ([DATA[:4], DATA[4:8]], "8 of the 16 examples that a single worker reads are read by no worker"),
        ([DATA[:8], DATA[8:13]], "3 of the 16 examples that a single worker reads are read by no worker"),
        ([[*DATA[:4], *DATA[:3]], DATA[4:8]], "8 of the 16 examples"),  # some of which look alike
        ([DATA[:12], DATA[8:]], ""),  # so many may be what fills a batch
        ([DATA[:12], DATA[4:]], "8 examples are read by worker 0 and by worker 1, and 8 only"),
    ],
)
def test_how_workers_share_data(shards: list[list[int]], text: str) -> None:
    """All of it each, or shards of it; a shard read twice, one read by nobody and shards that overlap are found."""
    count = 24 * len(shards)
    verdict = _verdict(_read(shards, count=count), _read([DATA], count=count))
    assert verdict.outcome == ("inconsistent" if text else "consistent"), verdict.abstained
    assert text in "".join(each.text for each in verdict.findings)
    assert {each.law for each in verdict.findings} <= {"examples_match_reference"}


@pytest.mark.parametrize(
    ("run", "alone"),
    [
        (_read([DATA[:4], DATA[4:8]], count=2), _read([DATA], count=24)),  # who has not come to its end
        (_read([DATA[:4], DATA[4:8]]), _read([DATA], count=5)),  # where a single worker has read little more
        (_read([DATA[:8], DATA[8:14]]), _read([DATA])),  # an incomplete batch of each may be left out
        (_read([[*DATA[:8], *DATA[:4], *DATA[2:6]], DATA[:4]]), _read([DATA])),  # drawn anew, and no passes
        (_read([DATA[:4], [900, 901, 902, 903]]), _read([DATA])),  # data of one's own, as augmented data is
    ],
)
def test_what_may_be_right_is_not_accused(run: RunTrace, alone: RunTrace) -> None:
    """Where it is not known what there is to be read, and that all of it was, nothing is said."""
    assert _verdict(run, alone).outcome == "abstained"


def test_a_single_worker_need_not_come_to_the_end() -> None:
    """What it has read by then, and none of those who have come to theirs, is missing."""
    verdict = _verdict(_read([DATA[:4], DATA[4:8]]), _read([DATA], count=6))
    assert "4 of the 12 examples that a single worker reads are read by no worker" in str(verdict.findings)


def _collected(step: float, *, sums: bool = False, rows: int = 2) -> tuple[RunTrace, RunTrace, RunTrace]:
    """A coordinator that moves a variable by `step` for two closures, by 1 for a single one; and that of all twice."""
    read = _batches(DATA, 2, 4)
    run = [{"rows": read[k // 2], "worker": k % 2, "w": step * ((k + 1) // 2)} for k in range(8)]
    alone = [{"rows": read[k], "worker": 0, "w": float(k + 1)} for k in range(4)]
    gradient = 4.0 if sums else 2.0
    twice = [{"rows": read[k] * rows, "worker": 0, "w": float(k + 1), "gradient": gradient} for k in range(4)]
    return _trace(run), _trace(alone), _trace(twice)


@pytest.mark.parametrize(
    ("traces", "outcome"),
    [
        (_collected(1.0), "consistent"),
        (_collected(1.0, sums=True), "consistent"),
        (_collected(2.0), "inconsistent"),
        (_collected(2.0, sums=True), "abstained"),  # a sum of sums is right
        (_collected(2.0, rows=1), "abstained"),  # data that could not be repeated
        (_collected(2.0)[:2], "abstained"),
        (_collected(0.5), "abstained"),
        (_collected(-2.0), "abstained"),
    ],
)
def test_what_a_coordinator_makes_of_gradients(traces: tuple[RunTrace, ...], outcome: str) -> None:
    """A mean of means is what a single worker leads to, a sum of means is not, and the rest is not known."""
    verdict = _verdict(*traces)
    assert verdict.outcome == outcome, verdict.abstained
    if outcome == "inconsistent":
        assert "2 times as much as with a single worker" in verdict.findings[0].text


def test_later_rounds_count_too() -> None:
    """A coordinator that begins well and then drops what it has collected is not what a single worker leads to."""
    run, alone, _ = _collected(1.0)
    assert as_one_worker(run, alone)
    seen = run.clients[0].seen
    early = seen[5].variables
    stale = tuple(
        Seen(each.index, 0.0, variables=early, examples=each.examples, worker=each.worker) for each in seen[6:]
    )
    stopped = RunTrace((ClientTrace(run.clients[0].header, seen=(*seen[:6], *stale)),))
    assert not as_one_worker(stopped, alone)


@pytest.mark.parametrize(
    ("gradient", "updates", "outcome"),
    [
        (2.0, None, "consistent"),
        (1.0, None, "abstained"),
        (4.0, None, "inconsistent"),
        (2.0, "updates", "consistent"),
        (4.0, "updates", "inconsistent"),
        (1.0, "updates", "inconsistent"),
        (2.0, "shares", "inconsistent"),
        (1.0, "shares", "consistent"),
        (0.5, "shares", "inconsistent"),
    ],
)
def test_what_closures_are_decides_how_they_scale(gradient: float, updates: Updates | None, outcome: str) -> None:
    """A loss that is divided by the workers is right or wrong as the user says, and else not judged; times is wrong."""
    run = _read([DATA, DATA])
    seen = run.clients[0].seen
    part = Value("w", (Array.of([gradient, gradient]),), per_replica=True)
    scaled = tuple(
        Seen(each.index, 0.0, variables=each.variables, examples=each.examples, gradients=(part,), worker=each.worker)
        for each in seen
    )
    trace = RunTrace((ClientTrace(run.clients[0].header, seen=scaled),))
    assert _verdict(trace, ALONE, updates=updates).outcome == outcome


@pytest.mark.parametrize(
    ("what", "outcome"),
    [(f"{UNFINISHED} it saves for the last time", "inconsistent"), (f"{UNJOINED} it saves", "abstained")],
)
def test_what_the_last_save_may_lack_is_wrong(what: str, outcome: str) -> None:
    """And what an earlier one may lack is not known to be."""
    run = _read([DATA, DATA])
    trace = RunTrace(
        (
            ClientTrace(
                run.clients[0].header,
                seen=run.clients[0].seen,
                counters=Counters(stand_ins=(StandIn(what, "a.py:9", "1", "unknown"),)),
            ),
        )
    )
    verdict = _verdict(trace, ALONE)
    assert verdict.outcome == outcome
    assert f"{what}, scheduled at a.py:9: " in " ".join(str(verdict).split())
    assert "first divergence" not in str(verdict)  # nothing differs in the run, so that no rule is asked either
    assert "no rule reproduces" not in str(verdict)
    rejudged = Verdict("a.py", "parameter_server-2w1p", HELD)
    again = with_saved_findings(rejudged, verdict.to_json(), Reference(ALONE))
    assert again.outcome == outcome
    assert [each.text for each in again.findings] == [each.text for each in verdict.findings]


def test_what_closures_are_is_read(tmp_path: Any) -> None:
    """Next to lines, and nothing else."""
    file = tmp_path / "a.py"
    file.touch()
    script = Script.of(["python", str(file)], assume=["a.py:3=2", "closures=shares"])
    assert (script.updates, script.assume) == ("shares", {"a.py:3": 2})
    with pytest.raises(UsageError, match="closures=updates or closures=shares"):
        Script.of(["python", str(file)], assume=["closures=3"])
