"""Rule: some examples were consumed more often than by the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.explain._examples import listed, totals
from harness.explain.protocol import Case, Explanation, Rule

__all__ = ["RULES"]


@dataclass(frozen=True)
class _ExamplesDuplicated:
    id: str = "examples_duplicated"
    priority: int = 10

    def explain(self, case: Case) -> Explanation | None:
        found = totals(case)
        if found is None:
            return None
        step, seen, truth = found
        excess, missing = seen - truth, truth - seen
        if not excess or not set(excess) <= set(truth):
            return None  # ids that the reference never saw are no duplicates
        factor = _common_factor(seen, truth)
        if factor is not None:
            text = f"From step {step} on, every example was consumed {factor} times as often as by the reference. "
            text += _everything(case, factor)
        else:
            rest = f" and {listed(missing)} less often: the shards overlap" if missing else ""
            text = (
                f"From step {step} on, the run consumed {listed(excess)} more often than the reference{rest}. Give "
                "each input pipeline its own shard: ds.shard(context.num_input_pipelines, context.input_pipeline_id) "
                "before shuffling, or strategy.experimental_distribute_dataset with AutoShardPolicy.DATA; shuffle with "
                "the same seed everywhere."
            )
        return Explanation(self.id, text)


def _common_factor(seen: Counter[int], truth: Counter[int]) -> int | None:
    """The k > 1 with seen = k x truth, if there is one."""
    key = next(iter(truth))
    factor, rest = divmod(seen[key], truth[key])
    same = not rest and factor > 1 and all(seen[key] == factor * count for key, count in truth.items())
    return factor if same and len(seen) == len(truth) else None


def _everything(case: Case, factor: int) -> str:
    header = case.run.header
    who = "worker" if factor == header.clients else "replica" if factor == header.replicas else "input pipeline"
    return (
        f"Every {who} read the whole data set ({header.clients} clients, {header.replicas} replicas). Shard it: "
        "strategy.experimental_distribute_dataset with AutoShardPolicy.DATA splits a global batch, while "
        "distribute_datasets_from_function needs ds.shard(context.num_input_pipelines, "
        "context.input_pipeline_id) and a batch of context.get_per_replica_batch_size(global_batch)."
    )


RULES: tuple[Rule, ...] = (_ExamplesDuplicated(),)
