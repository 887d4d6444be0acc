"""Lockstep, its scenarios and all that they need in files that can be carried to a machine without a network."""

from harness.bundling.wheels import PYTHONS, Bundle, bundle

__all__ = ["PYTHONS", "Bundle", "bundle"]
