"""Law: replicas and their copies of variables stood on the GPUs or the TPU that the run is said to have used."""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.counters import DevicePlacement
from harness.evidence.trace import ClientTrace
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.subject.strategies import kind_of
from harness.subject.strategies.tpu import REHEARSED


class _PlacedOnDevices(Law):
    """TensorFlow moves what cannot be where it was asked to be to another device, and says nothing."""

    id = "placed_on_devices"
    order = 117
    suffices = False

    def concerns(self, case: Case) -> bool:
        """Runs on GPUs and TPUs; a CPU is always there."""
        return any(_is_accelerated(client) for client in case.run.clients)

    def judge(self, case: Case) -> Judgement:
        if all(device == REHEARSED for client in case.run.clients for device in client.header.devices):
            return not_judged(self.id, "a rehearsal for a TPU computes on the CPU")
        kind = kind_of(case.run.header.strategy)
        if kind is None or kind.variables_on == "servers":
            return not_judged(
                self.id, "the replicas are in other processes, which were asked for the number of their GPUs only"
            )
        # A process that a fault has killed never came to write down where its values were.
        clients = [client for client in case.run.clients if client.counters.placement is not None]
        if not clients:
            return not_judged(self.id, "no client came to its end")
        findings = tuple(
            Finding(self.id, f"{client.header.task}: {text}", task=client.header.task)
            for client in clients
            if client.counters.placement is not None
            for text in _misplaced(client.counters.placement, kind.variables_on, "TPU" if kind.on_tpu else "GPU")
        )
        compared = sum(
            len(client.counters.placement.replicas) + len(client.counters.placement.variables)
            for client in clients
            if client.counters.placement is not None
        )
        return judged(self.id, compared, findings)


def _is_accelerated(client: ClientTrace) -> bool:
    return any(not device.startswith("cpu:") for device in client.header.devices)


def _misplaced(found: DevicePlacement, variables_on: str, device_type: str) -> Iterator[str]:
    replicas = found.replicas or (f"{device_type}:0",)  # TensorFlow's own choice, which the default strategy leaves it
    for number, device in enumerate(replicas):
        if device not in found.there:
            has = ", ".join(name for name in found.there if name.startswith(device.partition(":")[0])) or "none such"
            yield f"replica {number} was to compute on {device}, which TensorFlow does not have (it has {has})"
        elif not device.startswith(f"{device_type}:"):
            yield f"replica {number} computed on {device}"
        elif device_type == "GPU" and not found.peak_bytes.get(device):  # TensorFlow counts no TPU's
            yield f"replica {number} was to compute on {device}, and nothing was ever in that device's memory"
    if len(set(replicas)) < len(replicas):
        yield f"{len(replicas)} replicas computed on {len(set(replicas))} devices: {', '.join(replicas)}"
    for name, places in found.variables.items():
        wanted = ("CPU:0",) if variables_on == "cpu" else replicas
        if len(places) not in (1, len(wanted)) or any(place not in wanted for place in places):
            yield f"variable {name!r} stood on {', '.join(places)} and not on {', '.join(wanted)}"
        elif len(places) > 1 and places != wanted:
            yield f"the copies of variable {name!r} stood on {', '.join(places)}, in another order than the replicas"


LAW = _PlacedOnDevices()
