"""Law: no example comes again while one device would still be given others.

This holds also where the order is drawn anew in each run: workers that all read everything, each in an order of its
own, have some examples twice before they have others once.
"""

from __future__ import annotations

from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged


class _ExamplesInTurn(Law):
    id = "examples_in_turn"
    order = 43
    suffices = False

    def concerns(self, case: Case) -> bool:
        return case.reference.clients[0].counters.all_examples is not None

    def judge(self, case: Case) -> Judgement:
        """Read what the process that followed the run counted of the run's examples and of its own."""
        total = case.reference.clients[0].counters.all_examples
        assert total is not None
        rows, again, expected = total.again
        text = (
            f"of the first {rows} examples that the replicas were given {again} had come before, "
            f"and of one device's {expected or 'none'}: replicas read the same data"
        )
        return judged(self.id, total.rows, (Finding(self.id, text, observable="examples"),) if again else ())


LAW = _ExamplesInTurn()
