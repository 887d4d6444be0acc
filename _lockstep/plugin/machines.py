"""`pytest --machines`: the tasks of clusters that `verify` runs are on other machines, which stay reached."""

from __future__ import annotations

import contextlib
import os

import pytest

from _lockstep.plugin.needed import need_lockstep

_CHOSEN = pytest.StashKey[contextlib.ExitStack]()


def add_options(group: pytest.OptionGroup) -> None:
    """`--machines`, and how tasks and files get there."""
    group.addoption(
        "--machines",
        metavar="'COMMAND {}:NAME,...'",
        help="run the tasks of verify's clusters there: COMMAND starts a process on the machine whose name stands for "
        "{} and joins its standard streams, such as 'ssh {}:m0,m1'; or ray:COUNT or ray:NODE,NODE, nodes of a Ray "
        "cluster; references and single processes are here",
    )
    group.addoption(
        "--machines-place", action="append", default=[], metavar="TASK=NAME", help="the machine of a task, everywhere"
    )
    group.addoption(
        "--machines-files",
        choices=("shared", "ship"),
        help="the working directory is the same on all machines, or its files are sent (default: shared)",
    )
    group.addoption("--machines-python", metavar="PATH", help="Python there (default: the path of this one)")


def told(config: pytest.Config) -> list[str]:
    """What the header says of it."""
    chosen = config.getoption("--machines")
    return [] if chosen is None else [f"machines={chosen}, for the clusters of verify"]


def choose(config: pytest.Config) -> None:
    """Have strategies with several tasks be on these machines, in this process and in those of xdist, or refuse."""
    asked = {name: config.getoption(f"--{name}") for name in ("machines", "machines-files", "machines-python")}
    asked["machines-place"] = config.getoption("--machines-place") or None
    if asked["machines"] is None:
        if given := [f"--{name}" for name, value in asked.items() if value]:
            raise pytest.UsageError(f"{', '.join(given)} is about machines; give --machines as well")
        return
    need_lockstep()
    from harness.subject.machines import OVER_VARIABLE, Over
    from simulator import UsageError
    from simulator.machines.engines.machine_pool import keeping
    from simulator.machines.engines.selection import engine_of

    place = dict(_pair(text) for text in asked["machines-place"] or ())
    over = Over(asked["machines"], tuple(place.items()), asked["machines-files"], asked["machines-python"])
    try:
        engine = engine_of(**over.options)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    assert engine is not None
    config.stash[_CHOSEN] = stack = contextlib.ExitStack()
    before = os.environ.get(OVER_VARIABLE)
    os.environ[OVER_VARIABLE] = over.as_default()
    stack.callback(
        lambda: os.environ.pop(OVER_VARIABLE, None) if before is None else os.environ.update({OVER_VARIABLE: before})
    )
    stack.enter_context(keeping(engine))


def forget(config: pytest.Config) -> None:
    """Let the machines go."""
    if _CHOSEN in config.stash:
        config.stash[_CHOSEN].close()


def _pair(text: str) -> tuple[str, str]:
    task, mark, name = text.partition("=")
    if not (task and mark and name):
        raise pytest.UsageError(f"--machines-place {text!r} is not understood; write worker:0=m1")
    return task, name
