"""What a kind of strategy is, and one strategy under one name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from harness.subject.machines import Over
from simulator import Topology
from simulator.agent.devices import TF32_VARIABLE


class StrategyKind:
    """A kind of strategy; each lives in its own file, as `KIND`, and overrides what is not so by default.

    Its objects hold nothing, so that a case can be sent to a task.

    Attributes:
        name: the part of a strategy's name before the first dash.
        order: the place in lists and reports, lowest first.
        form: a regular expression for the rest of the name, with any of the groups `workers`, `replicas`, `model`, `ps`
            and `option`.
        accepted: the form as error messages show it.
        options: example of a name with an option, and the other options of that name.
        examples: the names in the catalogue: one of each shape and each option.
        synchronous: whether every step waits for all replicas.
        clustered: whether its tasks, where it has workers, are a cluster with a network between them.
        reads_config: whether its tasks read from `TF_CONFIG` what cluster they are in.
        draws_apart: whether each client draws what `tf.data` shuffles without a seed, as workers of a cluster do.
        variables_on: where variables stand: on the devices of their `replicas`, on the `cpu`, or on `servers`.
        steps_apart: why replicas cannot be seen to run in step, for a report; empty where they can.
        on_tpu: whether it computes on TPUs, which no other strategy does.
        reference: the strategy under which one device computes what runs are held against.
        on_mesh: whether tensors are laid out over a mesh: no Python can be called in a graph there, so that nothing
            leaves one but what the program returns.
    """

    name: str = ""
    order: int = 0
    form: str = ""
    accepted: str = ""
    options: str = ""
    examples: tuple[str, ...] = ()
    synchronous: bool = True
    clustered: bool = False
    reads_config: bool = False
    draws_apart: bool = False
    variables_on: str = "replicas"
    steps_apart: str = ""
    on_tpu: bool = False
    reference: str = "default"
    on_mesh: bool = False

    def replicas(self, case: StrategyCase) -> int:
        """Replicas in sync, as TensorFlow counts them."""
        return case.workers * case.devices // case.model

    def needs(self, case: StrategyCase) -> str | None:
        """Hardware without which it cannot run, whatever devices it computes on, in words."""
        return None

    def topology(self, case: StrategyCase) -> Topology:
        """The cluster it runs on."""
        return Topology(devices=case.device_text)

    def build(self, case: StrategyCase) -> Any:
        """Create the `tf.distribute.Strategy` on the devices that the simulator has set up; called in a client task."""
        raise NotImplementedError

    def replicas_seen(self, strategy: Any, case: StrategyCase) -> int:
        """The replicas in sync that TensorFlow sees, to be compared with `replicas`."""
        return int(strategy.num_replicas_in_sync)

    def workers_seen(self, strategy: Any, case: StrategyCase) -> int:
        """The workers that TensorFlow sees, to be compared with those of the case."""
        return case.workers

    def local_replicas(self, strategy: Any, case: StrategyCase) -> int:
        """Replicas in the client's own process."""
        return case.devices

    def computes_on(self, strategy: Any, case: StrategyCase) -> tuple[str, ...]:
        """What a client's replicas compute on, in words; nothing where what the simulator says is all there is."""
        return ()


@dataclass(frozen=True)
class StrategyCase:
    """One strategy under one name.

    Attributes:
        name: as in pytest ids, on the command line and in reports.
        family: its kind.
        workers: worker tasks, 1 where the strategy knows no workers.
        devices: devices each worker computes on.
        model: over how many devices one replica of the model is laid out.
        ps: parameter-server tasks.
        option: the suffix after the colon, or `None`.
        hardware: `cpu`, `gpu`, `gpu-simulated`, `tpu` or `tpu-rehearsed`.
        network: `loopback` or `namespaces`, as of `simulator.Cluster`; None for the default of the session.
        over: the machines of its tasks; None for this one.
    """

    name: str
    family: StrategyKind
    workers: int = 1
    devices: int = 1
    model: int = 1
    ps: int = 0
    option: str | None = None
    hardware: str = "cpu"
    network: str | None = None
    over: Over | None = None

    @property
    def kind(self) -> str:
        """The part of the name before the first dash, for example `multi_worker`."""
        return self.family.name

    @property
    def on(self) -> dict[str, Any]:
        """Keyword arguments of `simulator.Cluster` that say where its tasks are."""
        return {"network": self.network, **({} if self.over is None else self.over.options)}

    @property
    def synchronous(self) -> bool:
        """Whether every step waits for all replicas. Parameter-server training does not."""
        return self.family.synchronous

    @property
    def replicas(self) -> int:
        """Replicas in sync, as TensorFlow counts them: a parameter-server worker is a replica of its own."""
        return self.family.replicas(self)

    @property
    def clients(self) -> tuple[str, ...]:
        """Tasks that run the program."""
        return self.topology.clients

    @property
    def needs(self) -> str | None:
        """Hardware without which this strategy cannot run, in words; `None` if a CPU will do."""
        if (own := self.family.needs(self)) is not None:
            return own
        if self.option == "nccl":
            return f"{self.devices * self.workers} {'simulated ' * (self.device_kind != 'gpu')}GPUs"
        return {"gpu": "a GPU", "gpu-simulated": "a simulated GPU", "tpu": "a TPU"}.get(self.hardware)

    @property
    def gpus_needed(self) -> int:
        """How many GPUs of its kind have to be there: one can be split into logical ones, but not for NCCL."""
        if self.device_kind == "cpu" or self.family.needs(self) is not None:
            return 0
        return self.replicas if self.option == "nccl" else 1

    @property
    def device_kind(self) -> str:
        """What each worker computes on, `cpu`, `gpu` or `gpu-simulated`."""
        if self.hardware in ("gpu", "gpu-simulated"):
            return self.hardware
        return "gpu" if self.option == "nccl" else "cpu"

    @property
    def accelerator(self) -> str:
        """What its replicas compute on, `cpu`, `gpu`, `gpu-simulated`, `tpu` or `tpu-rehearsed`."""
        if self.family.on_tpu:
            return "tpu-rehearsed" if self.rehearsed else "tpu"
        return self.device_kind

    @property
    def rehearsed(self) -> bool:
        """Whether the steps are compiled as for a TPU, and computed on a CPU."""
        return self.family.on_tpu and self.hardware == "tpu-rehearsed"

    @property
    def on_device(self) -> bool:
        """Whether TensorFlow takes what its replicas compute on for something else than a CPU."""
        return self.accelerator not in ("cpu", "tpu-rehearsed")

    @property
    def tf32(self) -> bool:
        """Whether its replicas may multiply float32 in TF32, which is off unless the environment asks for it."""
        return self.device_kind != "cpu" and os.environ.get(TF32_VARIABLE) == "1"

    @property
    def unfit(self) -> str:
        """Why a strategy does not compute on the hardware that was asked for, whatever machine it is; else nothing."""
        if self.hardware.startswith("tpu") and not self.family.on_tpu:
            return f"{self.name} does not compute on TPUs; strategy tpu does"
        return ""

    @property
    def computes_apart(self) -> bool:
        """Whether the kernels that it computes with are others than those of the reference, which runs on a CPU."""
        return self.accelerator != "cpu"

    @property
    def device_type(self) -> str:
        """The same as TensorFlow has it, `CPU` or `GPU`."""
        return "CPU" if self.device_kind == "cpu" else "GPU"

    @property
    def device_text(self) -> str:
        """The devices of each worker as of `Topology`, such as `cpu:2`."""
        return f"{self.device_kind}:{self.devices}"

    @property
    def device_names(self) -> list[str]:
        """The devices of each worker as of TensorFlow, such as `CPU:1`."""
        return [f"{self.device_type}:{index}" for index in range(self.devices)]

    def gpus_of(self, task: str) -> int:
        """How many logical GPUs TensorFlow should see of a task."""
        return self.devices if self.topology.devices_of(task.partition(":")[0]).on_gpu else 0

    @property
    def topology(self) -> Topology:
        """The cluster this strategy runs on."""
        return self.family.topology(self)

    def build(self) -> Any:
        """Create the `tf.distribute.Strategy`; called in a client task, never in the parent."""
        return self.family.build(self)

    def __str__(self) -> str:
        return self.name
