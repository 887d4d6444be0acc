"""The ledger of a run: read from traces, joined after an interruption, shown as a table."""

from __future__ import annotations

from harness.evidence.trace import RunTrace
from harness.ledger._build import ledger_of
from harness.ledger._consumed import Consumed
from harness.ledger._join import joined
from harness.ledger._table import table

__all__ = ["Ledger"]


class Ledger(Consumed):
    """Every example that a run consumed, in the order recorded; `Consumed` says which columns there are."""

    @classmethod
    def of(cls, run: RunTrace, reference: RunTrace | None = None) -> Ledger:
        """Read the examples of a run.

        Epochs are those given to `record.step`. Where a run gave none, its steps belong to the epochs of the same steps
        of the reference; where that gave none either, an epoch of the reference ends whenever all of its examples have
        been seen once (see `docs/ledger.md`). Without a reference, or if its examples do not repeat in this way, all
        steps are epoch 1.
        """
        return ledger_of(cls, run, reference)

    @staticmethod
    def joined(before: Ledger, after: Ledger, resumed_at: int | None = None) -> Ledger:
        """The ledger of an interrupted run and of the run that resumed it, as of one run.

        Args:
            before: of the interrupted run.
            after: of the resumed run. If it counts its steps from 1 again, they are counted on.
            resumed_at: the last step that the resumed run restored, 0 if it began anew. Later steps of the interrupted
                run are `undone`: their effect is lost, so their examples do not count. Not given: all steps count.
        """
        return joined(before, after, resumed_at)

    def table(self, expected: Ledger | None = None, *, width: int = 110, rows: int = 12) -> str:
        """Workers across, steps down: sizes of the replicas' batches, first and last id, ids too often and missing.

        Args:
            expected: the reference's ledger, to compare each step with. Without it, an id is too often if it occurred
                before in the same epoch.
            width: characters in a line at most; workers that do not fit in are counted.
            rows: steps shown at most, wrong ones before others.
        """
        return table(self, expected, width=width, rows=rows)
