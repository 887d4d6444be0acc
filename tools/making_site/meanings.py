"""Pages that follow from the code: what each law, code, fault and strategy means, by its own words.

A new file of one of these folders is on its page by itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from harness.judging import laws
from harness.subject.strategies import all_kinds as all_strategies
from simulator.faults.kinds import all_kinds as all_faults
from simulator.faults.protocol import Fault, fields_of
from simulator.faults.values import UNITS
from tools.making_site.codes import lines
from tools.making_site.said import opening, paragraphs


def pages() -> dict[str, str]:
    """Each page's path under `reference/` and its Markdown."""
    made = {"laws": _laws(), "codes": lines(), "faults": _faults(), "strategies": _strategies()}
    return {name: re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n" for name, lines in made.items()}


def _link(module: ModuleType) -> str:
    path = module.__name__.replace(".", "/") + ".py"
    return f"[{path}](../{path})"


def _opened(name: str, module: ModuleType) -> Iterator[str]:
    yield f"\n## {name}\n\n{opening(module)}\n\n{paragraphs(module)}"


def _laws() -> Iterator[str]:
    yield "# Laws"
    yield ""
    yield "What has to hold between a run and its reference, in the order of reports."
    yield "[How a run is judged](../docs/numerics.md) says where the bounds come from."
    for law in laws.all_laws():
        module = import_module(f"{laws.__name__}.{law.id}")
        yield from _opened(law.id, module)
        if law.suffices:
            yield "\nThat it holds is enough for a verdict to be consistent, if no law is broken."
        else:
            yield "\nThat it holds is not enough for a verdict: some other law has to hold as well."
        yield f"\nDefined in {_link(module)}."


def _faults() -> Iterator[str]:
    yield "# Faults"
    yield ""
    yield "Every kind with its keys. Triggers, which all kinds share, are in [Faults](../docs/faults.md#triggers), as"
    yield "is [what training does after each](../docs/faults-measured.md#what-training-does-after-each-fault)."
    shared = {field.encode_name for field in fields_of(Fault)}
    for name, kind in all_faults().items():
        module = import_module(kind.__module__)
        does = (inspect.getdoc(kind) or "").partition("\n")[0]
        yield f"\n## {name}\n\n{opening(module)}\n\n{does}\n\n{paragraphs(kind)}\n"
        yield "| key | default | takes |\n|---|---|---|"
        for field in fields_of(kind):
            if field.encode_name not in shared or field.encode_name in kind.needed:
                yield f"| `{field.encode_name}` | {_default(kind, field)} | {_takes(kind, field.encode_name)} |"
        yield ""
        if kind.cause:
            yield f"Stands for: {kind.cause}."
        if kind.unsearched:
            yield f"A search does not draw it: it {kind.unsearched}."
        elif kind.of_machines:
            yield "A search draws it where tasks are on several machines and the job can go on without one."
        yield f"\nDefined in {_link(module)}."


def _default(kind: type[Fault], field: object) -> str:
    name = getattr(field, "encode_name", "")
    default = getattr(field, "default", None)
    if name in kind.needed:
        return "required"
    return "" if default in (None, "") or "NODEFAULT" in repr(default) else f"`{default}`"


def _takes(kind: type[Fault], name: str) -> str:
    known = kind.values.get(name) or UNITS.get(name)
    if known is None:
        return ""
    bounds = f", from {known.least:g}" if known.least else ""
    return f"{known.unit}{bounds}"


def _strategies() -> Iterator[str]:
    yield "# Strategies"
    yield ""
    yield "Names of strategies, as `--strategy` and `verify` take them."
    for name, kind in all_strategies().items():
        module = import_module(type(kind).__module__)
        yield from _opened(name, module)
        yield f"\nForm: `{kind.accepted}`; for example {', '.join(f'`{each}`' for each in kind.examples)}."
        yield "" if kind.synchronous else "\nIts steps do not wait for all replicas."
        yield f"\nDefined in {_link(module)}."
