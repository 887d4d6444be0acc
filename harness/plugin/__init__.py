"""The pytest plugin, as `pytest_plugins = ["harness.plugin"]` names it in a checkout that has not been installed.

Where Lockstep is installed, an entry point of this name has registered `_lockstep.plugin` already.
"""

from _lockstep.plugin import *  # noqa: F403 - the same hooks and fixtures
from _lockstep.plugin import __all__ as __all__
