"""Whose a variable is, by who is making it."""

from __future__ import annotations

from harness.recording.owners import owner_of


class Model:
    """Stands for that of tf_keras, by its name and its module."""

    def build(self) -> str:
        """Makes a weight."""
        return owner_of()

    def _create_counter_variable(self) -> str:
        return owner_of()

    def counts(self) -> str:
        """Makes a count of batches."""
        return self._create_counter_variable()


class Trainer(Model):
    """A program's own."""


class Checkpoint:
    """Stands for that of TensorFlow."""

    def _maybe_create_save_counter(self) -> str:
        return owner_of()

    def save(self) -> str:
        """Counts itself."""
        return self._maybe_create_save_counter()


class PreemptionCheckpointHandler:
    """Stands for that of TensorFlow."""

    def _initialize_for_mirrored_and_multi_worker_mirrored(self) -> str:
        return owner_of()


class State(Checkpoint):
    """A program's own, which keeps what it trains in it."""

    def weights(self) -> str:
        """Makes a weight."""
        return owner_of()


Checkpoint.__module__, State.__module__ = "tensorflow.python.checkpoint.checkpoint", "train"
PreemptionCheckpointHandler.__module__ = "tensorflow.python.distribute.failure_handling.failure_handling"
Model.__module__ = "tf_keras.src.engine.training"
Trainer.__module__ = "train"


def test_counts_of_batches_are_not_the_models_own() -> None:
    """tf_keras neither saves nor uses them."""
    assert Model().build() == "a model"
    assert Model().counts() == "a count of batches"
    assert owner_of() == "the program"


def test_a_model_of_the_program_has_them_as_well() -> None:
    """Its class is the program's, and the method is tf_keras's."""
    assert Trainer().counts() == "a count of batches"


def test_a_checkpoint_owns_nothing_but_the_count_of_its_saves() -> None:
    """What a class of the program's own keeps in it is the program's."""
    assert (State().save(), State().weights()) == ("a count of saves", "the program")


def test_a_handler_of_preemption_counts_its_saves() -> None:
    """Its count of steps is that of its last save, which a run that nobody preempts never makes."""
    handler = PreemptionCheckpointHandler()
    assert handler._initialize_for_mirrored_and_multi_worker_mirrored() == "a count of saves"
