"""What a forkserver imports besides TensorFlow; here, so that a package can ask for it without what starts one."""

from __future__ import annotations

__all__ = ["also_preload", "asked_for"]

_asked: list[str] = []


def also_preload(*modules: str) -> None:
    """Have a forkserver with TensorFlow that has not been started yet import these modules as well.

    For a package whose tasks would otherwise each import it: `harness` costs a task as much as its first op.
    """
    _asked.extend(modules)


def asked_for() -> tuple[str, ...]:
    """The modules that were asked for until now."""
    return tuple(_asked)
