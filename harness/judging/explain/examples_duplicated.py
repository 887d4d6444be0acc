"""Rule: some examples were consumed more often than by the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.judging.explain._examples import amiss, explained, listed
from harness.judging.explain.protocol import Case, Explanation, Rule

_SHARD = (
    "Give each input pipeline its own shard: ds.shard(context.num_input_pipelines, context.input_pipeline_id) before "
    "shuffling, or strategy.experimental_distribute_dataset with AutoShardPolicy.DATA; shuffle with the same seed "
    "everywhere."
)
_CHOSEN = (
    "One process gives them to its replicas. If it chooses them by what steps compute, such as priorities, let it have "
    "what all replicas have computed; if it draws them, give it a seed."
)
_WHOLE = (
    "Shard it: strategy.experimental_distribute_dataset with AutoShardPolicy.DATA splits a global batch, while "
    "distribute_datasets_from_function needs ds.shard(context.num_input_pipelines, context.input_pipeline_id) and a "
    "batch of context.get_per_replica_batch_size(global_batch)."
)


@dataclass(frozen=True)
class _ExamplesDuplicated:
    id: str = "examples_duplicated"
    priority: int = 10

    def explain(self, case: Case) -> Explanation | None:
        found = amiss(case)
        truth = Counter[int]() if found is None else found.both.reference.counts()
        # Ids that the reference never saw are no duplicates.
        if found is None or not found.surplus or not set(found.surplus) <= set(truth):
            return None
        since = "Over the run" if found.both.asynchronous else f"From step {found.step} on"
        factor = _common_factor(found.both.run.counts(), truth)
        if factor is not None:
            times = f"{since}, every example was consumed {factor} times as often as by the reference."
            return explained(self.id, found, f"{times} {_everything(case, factor)}", _WHOLE)
        several = case.run.header.clients > 1
        overlap = ": the shards overlap" if several else ""
        rest = f" and {listed(found.missing)} less often{overlap}" if found.missing else ""
        what = f"{since}, the run consumed {listed(found.surplus)} more often than the reference{rest}."
        return explained(self.id, found, what, _SHARD if several else _CHOSEN)


def _common_factor(seen: Counter[int], truth: Counter[int]) -> int | None:
    """The k > 1 with seen = k x truth, if there is one."""
    key = next(iter(truth))
    factor, rest = divmod(seen[key], truth[key])
    same = not rest and factor > 1 and all(seen[key] == factor * count for key, count in truth.items())
    return factor if same and len(seen) == len(truth) else None


def _everything(case: Case, factor: int) -> str:
    header = case.run.header
    who = "worker" if factor == header.clients else "replica" if factor == header.replicas else "input pipeline"
    return f"Every {who} read the whole data set ({header.clients} clients, {header.replicas} replicas)."


RULES: tuple[Rule, ...] = (_ExamplesDuplicated(),)
