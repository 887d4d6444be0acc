"""Pages of the public names of a package, whose text Sphinx takes from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

PACKAGES: dict[str, tuple[str, ...]] = {
    "harness": ("harness", "harness.recording.recorder"),
    "simulator": ("simulator", "simulator.capabilities"),
}
"""The modules on each page; all that they export is the public contract."""


def pages() -> dict[str, str]:
    """Each page's path under `reference/` and its Markdown."""
    return {name: "\n".join(_page(name, modules)) for name, modules in PACKAGES.items()}


def _page(name: str, modules: tuple[str, ...]) -> Iterator[str]:
    yield f"# `{name}`"
    for module in modules:
        found = import_module(module)
        yield f"\n## `from {module} import ...`\n\n{(inspect.getdoc(found) or '').strip()}\n"
        yield "```{eval-rst}"
        for each in found.__all__:
            yield from _directive(f"{module}.{each}", getattr(found, each))
        yield "```"


def _directive(path: str, value: object) -> Iterator[str]:
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    else:
        kind = "autofunction" if callable(value) else "autodata"
    yield f".. {kind}:: {path}"
    if kind in ("autoclass", "autoexception"):
        yield "   :members:"
    yield ""
