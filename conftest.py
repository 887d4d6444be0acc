"""Load Lockstep's own pytest plugin, also in a checkout that has not been installed, and what all tests share.

Where it is installed, the entry point of the same name has registered the plugin already, and pytest skips this one.
"""

import os
import signal
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("harness.plugin",)

# Most of what is inconsistent here is wrong on purpose, or for a reason that is known; tests of culprits ask for them.
os.environ.setdefault("LOCKSTEP_CULPRIT", "0")
os.environ.setdefault("LOCKSTEP_PROVE", "0")

# How long an example takes says how busy the machine is. New examples are drawn in the full profile: a change is judged
# by the same ones wherever it is tried, also where Hypothesis does not see that it is a CI.
_ALWAYS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("lockstep", _ALWAYS, derandomize=True, max_examples=40)
settings.register_profile("lockstep-full", _ALWAYS, derandomize=False, max_examples=150)

_IGNORED_VARIABLE = "LOCKSTEP_TESTS_IGNORE"


def _ignore(number: int, frame: FrameType | None) -> None:
    """Handle a signal by doing nothing, which, unlike that it is ignored, is not inherited by what is started."""


def _take_signals_from_the_shell() -> None:
    """What `nohup`, `&` and `trap` have made to be ignored from birth would be so in whatever the tests start.

    This process goes on ignoring it, and so do xdist's workers, which learn of it by a variable.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # Ctrl-C should work, and does not where `&` was
        signal.signal(signal.SIGINT, signal.default_int_handler)
    numbers = [signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
    ignored = {number for number in numbers if signal.getsignal(number) is signal.SIG_IGN}
    ignored |= {signal.Signals(int(each)) for each in os.environ.get(_IGNORED_VARIABLE, "").split()}
    for number in ignored:
        signal.signal(number, _ignore)
    os.environ[_IGNORED_VARIABLE] = " ".join(str(int(number)) for number in sorted(ignored))
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # else no exit code of a child is known
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


_take_signals_from_the_shell()


def pytest_configure(config: pytest.Config) -> None:
    """Choose how Hypothesis draws before a test module is read, unless the command line does."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("lockstep-full" if config.getoption("--profile") == "full" else "lockstep")


@pytest.fixture
def simulated_gpu() -> None:
    """The library that simulates GPUs, built if need be; where it cannot be, the test is skipped with the reason."""
    from simulator.hardware.simulated import NotBuilt, library

    try:
        library()
    except NotBuilt as why:
        pytest.skip(str(why))
