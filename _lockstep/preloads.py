"""What a forkserver imports besides TensorFlow; here, so that a package can ask for it without what starts one."""

from __future__ import annotations

_asked: list[tuple[str, bool]] = []


def also_preload(*modules: str, bare: bool = False) -> None:
    """Have each forkserver that has not been started yet import these modules as well.

    For what its tasks would otherwise each import: `harness` costs a task as much as its first op.

    Args:
        modules: by their names.
        bare: also in a forkserver that has no TensorFlow, whose tasks start within milliseconds.
    """
    _asked.extend((module, bare) for module in modules)


def all_asked_for() -> tuple[tuple[str, bool], ...]:
    """All that was asked for until now, for forkservers of another process; see `adopt`."""
    return tuple(_asked)


def adopt(asked: tuple[tuple[str, bool], ...]) -> None:
    """Ask for what another process has asked for."""
    _asked.extend(each for each in asked if each not in _asked)


def asked_for(*, bare: bool) -> tuple[str, ...]:
    """The modules that were asked for until now: of a forkserver that has no TensorFlow, or of any other."""
    return tuple(module for module, anywhere in _asked if anywhere or not bare)
