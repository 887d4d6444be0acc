"""What the project tests besides."""

from digits_trainer.training import Config


def test_the_defaults_are_small():
    """Lockstep's plugin is there and has nothing to do with this."""
    assert Config().epochs == 1
