"""A trace that is written again is the same trace."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from harness.evidence.trace import Array, ClientTrace, Evaluated, Final, Seen, SeenVariable, Start, read_client
from harness.evidence.writing import write_client
from tests.harness._traces import client, step, values, variable


def test_all_that_a_client_has_left_is_written(tmp_path: Path) -> None:
    """What a part begins with is known of each step of some runs, and is judged again from the files."""
    held = (SeenVariable("w", "copies", (Array.of(np.float32(2)),)),)
    made = msgspec.structs.replace(
        client(step(1, loss=1.0), step(2, loss=0.5), final=Final(0.0, (variable("w", np.float32(1)),))),
        seen=(Seen(index=1, at=1.0, variables=held),),
        start=Start(0.0, held),
        starts=(Start(1.0, held, index=2), Start(2.0, (), index=3)),
        evaluated=(Evaluated(1, 1, 2.0, "evaluate", values({"loss": 1.0}) or ()),),
        whole=True,
    )
    fields = set(ClientTrace.__struct_fields__)
    assert {name for name in fields if not getattr(made, name)} == set(), "a field that this test does not fill"
    write_client(tmp_path / "one.trace", made)
    assert read_client(tmp_path / "one.trace") == made
