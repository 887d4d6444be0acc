"""What the pytest plugin makes of devices: who needs which, where verdicts were reached, and --require-hardware."""

from __future__ import annotations

import pytest

from _lockstep.verdicts import DEVICE_PROPERTY
from tests.harness.test_plugin import Session, session

__all__ = ["session"]

SOMEWHERE = """
import pytest
from _lockstep.verdicts import announce
from harness.judging.laws.protocol import Judgement
from harness.judging.verdict import Verdict
from simulator import hardware

hardware.gpus = lambda kind="gpu": ("GPU 0", "GPU 1") if kind == "gpu" else ("GPU 0",)

@pytest.mark.strategies("mirrored-2")
def test_training(strategy):
    held = Judgement("loss_matches_reference", "held", "", (), 0.25, 1, suffices=True)
    announce(Verdict("program", strategy.name, (held,), tasks={{"local:0": {{"devices": {devices}}}}}))

@pytest.mark.requires(gpus=1, simulated=True)
def test_simulated_ones_do(): pass

@pytest.mark.requires(gpus=2, simulated=True)
def test_one_is_simulated(): pass
"""


@pytest.mark.full
def test_a_session_that_was_to_run_on_gpus_and_did_not_has_failed(session: Session) -> None:
    """Every test may have passed; the matrix says what the tasks themselves computed on."""
    strict = ("--hardware=gpu", "--require-hardware", "-k", "training")
    result = session(SOMEWHERE.format(devices=["cpu:2"]), *strict)
    result.assert_outcomes(passed=1, deselected=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["lockstep: --require-hardware with --hardware=gpu, and no verdict was reached on *"])
    simulated = SOMEWHERE.format(devices=["GPU 0: SIMULATED GPU 0 (host memory, CPU kernels), TF32 off"])
    assert session(simulated, *strict).ret == pytest.ExitCode.TESTS_FAILED
    result = session(SOMEWHERE.format(devices=["GPU 0: NVIDIA H100", "GPU 1: NVIDIA H100"]), *strict)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["hardware gpu; cells by what their tasks computed on: 1 on NVIDIA H100"])


def test_other_tests_may_say_what_they_have_run_on(session: Session) -> None:
    """Those that reach no verdict, as tests of TensorFlow's own; a session of them has run on GPUs too."""
    tests = f'def test_training(record_property): record_property("{DEVICE_PROPERTY}", "GPU 0: NVIDIA H100")'
    result = session(tests, "--hardware=gpu", "--require-hardware")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.OK


def test_what_does_not_compute_on_tpus_is_skipped_there(session: Session) -> None:
    """Also where missing hardware is a failure, since no machine would change that; a rehearsal needs no TPU."""
    tests = 'import pytest\n@pytest.mark.strategies("mirrored-2", "tpu")\ndef test_training(strategy): pass\n'
    result = session(tests, "--hardware=tpu-rehearsed", "--require-hardware")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*mirrored-2 does not compute on TPUs; strategy tpu does"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # no verdict was reached


def test_who_accepts_simulated_gpus_says_so(session: Session) -> None:
    """They are counted apart, and a session may be all simulated."""
    told = SOMEWHERE.format(devices=["GPU 0: SIMULATED GPU 0 (host memory, CPU kernels), TF32 off"])
    result = session(told, "--hardware=gpu-simulated")
    result.assert_outcomes(passed=2, skipped=1)
    shown = "hardware gpu-simulated; cells by what their tasks computed on: 1 on SIMULATED GPU (host memory, *"
    result.stdout.fnmatch_lines_random([shown, "SKIPPED*needs 2 simulated GPUs, this machine has 1"])


HARDWARE = """
import pytest
from simulator import hardware
from simulator.capabilities import accelerators

hardware.gpus = lambda kind="gpu": ("GPU 0",) if kind == "gpu" else ()
accelerators.tpus = lambda environment: ()

@pytest.mark.requires(gpus=2)
def test_two_gpus(): pass

@pytest.mark.requires(gpus=1)
def test_one_gpu(): pass

@pytest.mark.requires(tpu=True)
def test_tpu(): pass

@pytest.mark.strategies("mirrored-2:nccl", "tpu", "mirrored-2")
def test_strategy(strategy): pass

@pytest.mark.requires(gpu=1)
def test_typo(): pass

@pytest.mark.requires(network="ns")
def test_unknown_network(): pass

@pytest.mark.requires(gpus="two")
def test_no_number(): pass

@pytest.mark.requires()
def test_nothing_required(): pass

@pytest.mark.cluster(wroker=2)
def test_unknown_job(cluster): pass

def test_nameless(strategy): pass
"""


@pytest.mark.full
def test_missing_hardware_skips_with_its_reason_or_fails(session: Session) -> None:
    """A skip says what is needed and what there is; under --require-hardware it is a failure; a typo is an error."""
    result = session(HARDWARE)
    result.assert_outcomes(passed=2, skipped=4, errors=6)
    assert "raise WrongMarker" not in result.stdout.str()
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED*needs 2 GPUs, this machine has 1",
            "SKIPPED*needs a TPU, this machine has none",
            "*requires takes gpus=, tpu= and network=*",
            "*requires(network='ns') is unknown; it is one of loopback, namespaces*",
            "*requires(gpus='two') is not a number of GPUs; write requires(gpus=2)*",
            "*@pytest.mark.cluster has no wroker; it takes chief, worker, ps, evaluator, devices,*",
            '*the fixture `strategy` needs names; write @pytest.mark.strategies("mirrored-2")*',
        ]
    )
    session(HARDWARE, "--require-hardware").assert_outcomes(passed=2, errors=10)
    session(HARDWARE, "--hardware=gpu", "-k", "strategy").assert_outcomes(passed=1, skipped=2, deselected=9)
