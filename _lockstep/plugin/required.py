"""What a test needs of the machine and the session, and what of it is missing."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

from _lockstep.plugin.markers import WrongMarker
from _lockstep.plugin.needed import need_lockstep

# As `simulator.network.NETWORKS`, which is not imported in every session of pytest.
NETWORKS = ("loopback", "namespaces")
_NAMES = {"gpus", "simulated", "tpu", "network", "xla"}
_TAKES = (
    "requires takes gpus=, tpu= and network=, simulated=True where simulated GPUs will do, and xla=True where they "
    "will not; for example @pytest.mark.requires(gpus=2)"
)


@cache
def why_no_hosts() -> str:
    """Why this machine gives no hosts, or nothing."""
    from simulator.capabilities.namespaces import try_hosts, try_namespaces

    return try_hosts(try_namespaces())


def missing(item: pytest.Item) -> str | None:
    """Why a test cannot run here, by its marker `requires` and its strategy; None if nothing is missing.

    Raises:
        WrongMarker: the marker has something that it does not take.
    """
    wanted = _marked(item)
    if why := _missing_network(item, wanted.get("network")):
        return why
    kinds = [("gpu-simulated" if wanted.get("simulated") else "gpu", wanted.get("gpus", 0))]
    needs_tpu = wanted.get("tpu", False)
    case = getattr(item, "callspec", None) and item.callspec.params.get("strategy")  # type: ignore[attr-defined]
    if wanted.get("xla") and getattr(case, "device_kind", "") == "gpu-simulated":
        return "needs XLA, which has no compiler for simulated GPUs"
    if case is not None and getattr(case, "needs", None):
        needs_tpu = needs_tpu or not case.gpus_needed
        kinds.append((case.device_kind, case.gpus_needed))
    for kind, count in kinds:
        if count and (why := _missing_gpus(kind, count)):
            return why
    return "needs a TPU, this machine has none" if needs_tpu and not _tpus() else None


def unfit(item: pytest.Item) -> str:
    """Why a test's strategy does not run on the session's hardware on any machine; nothing where it does."""
    case = getattr(item, "callspec", None) and item.callspec.params.get("strategy")  # type: ignore[attr-defined]
    return str(getattr(case, "unfit", ""))


def demands_devices(config: pytest.Config) -> bool:
    """Whether the session was to compute on something else than CPUs, and has failed if it did not."""
    return bool(config.getoption("--require-hardware")) and config.getoption("--hardware") != "cpu"


def _marked(item: pytest.Item) -> dict[str, Any]:
    marker = item.get_closest_marker("requires")
    if marker is None:
        return {}
    wanted = marker.kwargs
    if marker.args or not wanted or not wanted.keys() <= _NAMES:
        raise WrongMarker(_TAKES)
    if (network := wanted.get("network")) not in (None, *NETWORKS):
        raise WrongMarker(f"requires(network={network!r}) is unknown; it is one of {', '.join(NETWORKS)}")
    gpus: object = wanted.get("gpus", 0)
    if not isinstance(gpus, int) or isinstance(gpus, bool) or gpus < 0:
        raise WrongMarker(f"requires(gpus={gpus!r}) is not a number of GPUs; write requires(gpus=2)")
    for name in ("simulated", "tpu", "xla"):
        if not isinstance(wanted.get(name, False), bool):
            raise WrongMarker(f"requires({name}={wanted[name]!r}) is neither True nor False")
    return dict(wanted)


def _missing_network(item: pytest.Item, wanted: str | None) -> str | None:
    if wanted == "namespaces" and (why := why_no_hosts()):
        return f"needs network=namespaces, which this machine does not give: {why}"
    if wanted == "loopback" and (chosen := item.config.getoption("--network")) != wanted:
        return f"needs network=loopback, and this session has network={chosen}"
    return None


def _missing_gpus(kind: str, count: int) -> str | None:
    need_lockstep()
    from simulator.hardware import HardwareMissing, gpus

    name = f"{'simulated ' * (kind != 'gpu')}GPU{'s' * (count > 1)}"
    try:
        found = len(gpus(kind))
    except HardwareMissing as error:
        return f"needs {count} {name}: {error}"
    return None if found >= count else f"needs {count} {name}, this machine has {found or 'none'}"


def _tpus() -> tuple[str, ...]:
    need_lockstep()
    from simulator.capabilities import accelerators

    return accelerators.tpus(os.environ)
