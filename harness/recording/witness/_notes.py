"""What seams note of a whole program, besides what belongs to a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.evidence.pipelines import Pipeline


@dataclass
class ProgramNotes:
    """Each once, in the order in which it came.

    Attributes:
        tables: lines that write a table while the program trains.
        by_replica: lines that make a value for each replica by its number while the program trains.
        restored: lines that restored something before the first step.
        unreduced: evaluations that have given each replica numbers of its own, of which nothing was reduced.
        packed: lines that laid out copies which differ, each with the step that was being made then.
        pipelines: the data sets that the program has iterated, each with the step that was being made then.
        assigned: by variable and line after which step it was given a value outside of all steps first, and last.
        averages: by line and batch what `tf.nn.compute_average_loss` was told, with the step that was being made then.
    """

    tables: dict[str, None] = field(default_factory=dict)
    by_replica: dict[str, None] = field(default_factory=dict)
    restored: dict[str, None] = field(default_factory=dict)
    unreduced: dict[str, None] = field(default_factory=dict)
    packed: dict[str, int] = field(default_factory=dict)
    pipelines: dict[Pipeline, int] = field(default_factory=dict)
    assigned: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    averages: dict[tuple[str, int], int] = field(default_factory=dict)
