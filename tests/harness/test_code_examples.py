"""The programs that `lockstep explain` shows: wrong ones are found under their codes, right ones are consistent."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import verify
from harness.cli.explain import explain
from harness.judging.diagnostics.codes import all_codes
from harness.judging.diagnostics.examples import all_examples

_OF_A_MESH = ("stale_reads", "copies_packed", "summed_over_batch", "summed_over_model")
_OF_AN_INTERRUPTION = ("resumed_elsewhere", "restored_on_some_workers", "data_reordered", "corrupted_by_fault")
_LONGER = (  # as a program; docs/mistakes.md and the known issues have some
    *("data_overwritten", "not_broadcast", "local_overflow_decision", "set_by_each_worker", "update_lost"),
    *("update_repeated", "identical_random_streams", "batch_logs_times_workers", "loss_times_workers"),
    *("loss_divided_by_workers", "accumulation_off", "sharded_twice", "batch_times_replicas"),
    *("repeat_before_shard", "dropped_tail", "fewer_files_than_workers", "sharded_by_files", "overlapping_shards"),
    *("shuffled_shard", "updated_by_each_replica", "branch_of_each_replica"),
    *("state_of_each_replica", "divided_by_own_number"),
    *("divided_before_the_mean", "whole_loss_in_each_replica"),
)


def test_each_mistake_has_an_example_or_is_known_to_have_none() -> None:
    """A new rule, cause or relation needs one."""
    mistakes = {code.name for code in all_codes().values() if code.kind in ("rule", "cause", "relation")}
    without = {*_OF_A_MESH, *_OF_AN_INTERRUPTION, *_LONGER}
    assert mistakes - {*all_examples()} == without
    assert {*all_examples()} <= {*all_codes()}


@pytest.mark.parametrize("code", all_examples())
def test_wrong_and_right_differ_in_a_few_lines(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are Python, and are shown together."""
    example = all_examples()[code]
    for source in (example.wrong, example.right):
        compile(source, code, "exec")
    explain.main([code], standalone_mode=False)
    said = capsys.readouterr().out.splitlines()
    interrupted = "" if example.interrupt_at is None else f" with --interrupt-at {example.interrupt_at}"
    assert f"wrong under {example.strategy}{interrupted} (-), and right (+):" in said
    assert 1 <= sum(line.startswith("+ ") for line in said) <= 2


@pytest.mark.parametrize("kind", ["wrong", "right"])
@pytest.mark.parametrize("code", [pytest.param(each, marks=pytest.mark.full) for each in all_examples()])
def test_an_example_is_what_it_is_said_to_be(
    code: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong one under its code, or its cause's."""
    example = all_examples()[code]
    source = getattr(example, kind)
    (tmp_path / "train.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    program = "train.py:train" if "def train(" in source else ["python", "train.py"]
    at = example.interrupt_at
    verdict = verify(program, example.strategy, explain=kind == "wrong", prove=False, interrupt_at=at)
    if kind == "right":
        assert verdict.consistent, str(verdict)
        return
    assert verdict.outcome == "inconsistent"
    why, diagnostic = verdict.explanation, verdict.to_json()["diagnostic"]
    assert code in (diagnostic["code"], None if why is None else why.cause), str(verdict)
