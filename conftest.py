"""Load Lockstep's own pytest plugin, also in a checkout that has not been installed.

Where it is installed, the entry point of the same name has registered the plugin already, and pytest skips this one.
"""

pytest_plugins = ("harness.plugin",)
