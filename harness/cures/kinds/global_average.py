"""Cure: losses are averaged over the global batch, and not over what each replica has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource

_MEANS = ("reduce_mean", "mean")


class _GlobalAverage:
    codes: tuple[str, ...] = (
        *NUMBERS,
        "loss_times_replicas",
        "loss_times_workers",
        "divided_by_own_number",
        "mean_of_replica_means",
        "accumulation_off",
    )

    def changed(self, source: CureSource) -> Iterator[str]:
        for call in source.calls(*_MEANS, line=source.line):
            # Without a size TensorFlow takes that of a replica's batch times the replicas.
            if len(call.args) == 1 and not call.keywords:
                yield source.replaced(call.func, f"{source.tensorflow}.nn.compute_average_loss")
            yield source.replaced(call, f"{source.of(call)} / {source.replicas}")
        for node in source.nodes(ast.BinOp):
            if isinstance(node.op, ast.Div):
                yield source.replaced(node, f"{source.of(node)} / {source.replicas}")
        for call in source.calls("compute_average_loss", line=source.line):
            left = [word for word in call.keywords if word.arg != "global_batch_size"]
            if call.args and len(left) < len(call.keywords):
                words = [f"{word.arg}={source.of(word.value)}" for word in left]
                given = ", ".join([*map(source.of, call.args), *words])
                yield source.replaced(call, f"{source.of(call.func)}({given})")
            elif len(call.args) == 1 and not call.keywords:  # replicas may have unequal numbers of examples
                tf, losses = source.tensorflow, source.of(call.args[0])
                count = f'{source.context}.all_reduce("SUM", {tf}.cast({tf}.size({losses}), {tf}.float32))'
                yield source.replaced(call, f"{tf}.reduce_sum({losses}) / {count}")


CURE = _GlobalAverage()
