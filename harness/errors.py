"""What the harness raises on purpose, besides the simulator's errors."""

from __future__ import annotations

from simulator import LockstepError, UsageError
from simulator.units import format_size


class NothingObserved(UsageError):
    """Raised when a program reported nothing and nothing was seen: without observations a run proves nothing.

    Args:
        program: its name.
        script: whether it is one.
        steps: how many steps were seen, in which there was nothing to judge.
    """

    def __init__(self, program: str, *, script: bool = False, steps: int = 0) -> None:
        if steps:
            super().__init__(
                f"{program} observed nothing that can be judged (steps seen: {steps}): they train no variable that all "
                "replicas hold alike, and ask no tape for gradients of variables. With "
                "tf.VariableSynchronization.ON_READ each replica keeps its own until it is read. Train variables with "
                "the default synchronization, or verify a function train(strategy, record), which reports what it has"
            )
            return
        step = (
            "a call of a tf.function or of strategy.run in which a tf.GradientTape is asked for gradients of "
            "variables, or an optimizer is given some, or, before any of that, replicas run and a variable is assigned "
            "there, or next (nothing on a TPU, and nothing in a thread that the program starts)"
        )
        of_function = (
            f"it never gave a value to record.step or record.final, and it took no step that Lockstep could see by "
            f"itself, which is {step}. Report at least a loss or variables, for example "
            "record.step(loss=loss, variables=model.variables), or pass record.keras_callback(model) to fit"
        )
        of_script = (
            f"it took no step that Lockstep could see, which is {step}. Let the script train in its main thread; what "
            "has to train elsewhere can be verified as a function train(strategy, record), which reports its steps"
        )
        super().__init__(f"{program} observed nothing: {of_script if script else of_function}")


class Abstained(LockstepError):
    """Raised when a program cannot be judged, right or wrong; the message names what could not be seen."""


class NotReproducible(Abstained):
    """Raised when two equal runs of the reference differ: a bound that is derived from such runs would accept anything.

    Args:
        difference: the first value that differs, with its place.
    """

    def __init__(self, difference: str) -> None:
        super().__init__(
            "not reproducible: the reference was run twice with the same seeds on one device, and the runs differ, by "
            f"more than threads explain: {difference}. Usual causes: data or initial values from os.urandom, the "
            "clock, random.Random() or tf.random.Generator.from_non_deterministic_state(); the order of a set; a "
            "Dataset.map(..., deterministic=False); a tf.random op with a state in a parallel map; a file that one run "
            "leaves for the next. Give what draws a fixed seed, or use tf.random.stateless_*"
        )


class SharedState(UsageError):
    """Raised when one run of a verification has read a file that another one has written: it may not have trained."""

    def __init__(self, program: str, path: str, *, reader: str, writer: str) -> None:
        self.path = path
        super().__init__(
            f"{program}: {reader} has read {path}, which {writer} had written, so the two are not independent and "
            "nothing is shown. Keep what a run saves in record.directory, which each run has for itself; what "
            "all runs are to read, such as prepared data, has to be there before the verification and stay as it is"
        )


class MissingHardware(LockstepError):
    """Raised when a strategy needs hardware that this machine lacks."""


class NoRoom(LockstepError):
    """Raised when a disk has no room for what a verification is about to record, before it is full."""

    @classmethod
    def of(cls, directory: str, needed: int, free: int, why: str) -> NoRoom:
        """What to say of it.

        Args:
            directory: on the disk.
            needed: bytes that have to fit there yet.
            free: bytes that do.
            why: they are needed, or what is known so far.
        """
        return cls(
            f"{directory} has no room for this verification: {why}; {format_size(needed)} have to fit there yet, and "
            f"{format_size(free)} are free. Take fewer steps (of a script: --first), give record.step fewer variables "
            "and gradients, or keep it on a larger disk: TMPDIR names that of runs, LOCKSTEP_CACHE that of references"
        )


class TooLarge(LockstepError):
    """Raised when a task has observed more at once than a frame of a trace can hold.

    Args:
        task: whose.
        at: when, in words.
        size: bytes of its arrays.
        most: bytes that a frame can hold.
    """

    def __init__(self, task: str, at: str, size: int, most: int) -> None:
        super().__init__(
            f"what {task} has observed {at} cannot be kept: its arrays have {format_size(size)}, and a frame of a "
            f"trace holds at most {format_size(most)}. Give record.step fewer variables or gradients, or a part of them"
        )
