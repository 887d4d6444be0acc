"""Which versions of TensorFlow are refused, and why: read from what is installed, without importing it."""

from __future__ import annotations

import importlib.metadata

from packaging.version import InvalidVersion, Version

# Also in pyproject.toml; a test holds the two to each other.
OLDEST = Version("2.16.2")
_CURE = f"install tensorflow>={OLDEST} into the environment of the training"


def why_refused(tensorflow: str | None = None) -> str:
    """Return an empty string if Lockstep takes this TensorFlow, else why not and what to do.

    Args:
        tensorflow: its version; None for the one that is installed. What has no version that can be read, such as a
            build of somebody's own under another name, is taken.
    """
    try:
        version = Version(tensorflow or importlib.metadata.version("tensorflow"))
    except (importlib.metadata.PackageNotFoundError, InvalidVersion):
        return ""
    if version >= OLDEST:
        return ""
    if version.release < (2, 16):
        why = "there Keras 2 is a part of TensorFlow, and Lockstep looks into Keras 3 and tf_keras"
    else:
        why = f"{OLDEST} is the oldest release with which it was ever run"
    return f"TensorFlow {version} is refused, since {why}; {_CURE}"
