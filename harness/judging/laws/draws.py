"""Law: replicas draw other numbers for other examples, each once, from the distribution of one device."""

from __future__ import annotations

from harness.evidence.witness_values import OWN_DRAWS, wrong_draws
from harness.judging.laws.protocol import FINDINGS_MAX, Case, Finding, Judgement, Law, judged, not_judged


class _Draws(Law):
    id = "draws"
    order = 15
    suffices = False
    cure = (
        "Give each replica a stream of its own: a tf.random.Generator made in strategy.scope(), or a stateless seed to "
        "which tf.distribute.get_replica_context().replica_id_in_sync_group is added; or draw by the example's number."
    )

    def concerns(self, case: Case) -> bool:
        seen = (step.seen for step in case.reference.clients[0].steps)
        return any(draw.kind not in OWN_DRAWS for each in seen if each is not None for draw in each.draws)

    def judge(self, case: Case) -> Judgement:
        """Read what the process that followed the run has seen of its draws."""
        findings: dict[tuple[str, str], Finding] = {}
        steps = [step for step in case.reference.clients[0].steps if step.seen is not None]
        for step in steps:
            for draw in wrong_draws(step.seen):
                text = f"step {step.index}, {draw.where}: {draw.text}"
                findings.setdefault(
                    (draw.kind, draw.where), Finding(self.id, text, step=step.index, observable="draws")
                )
        if not steps:
            return not_judged(self.id, "no draws were seen")
        return judged(self.id, len(steps), tuple(findings.values())[:FINDINGS_MAX])


LAW = _Draws()
