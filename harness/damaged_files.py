"""Says of a saved file that it is damaged, in one sentence, whatever it is that cannot be read in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from simulator import LockstepError, UsageError

_REASON_MAX = 200


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Take whatever goes wrong with what is read from this path as damage to it.

    Nothing but saved files goes into what is done in this context, and anything may be in them: a check of each value
    would be as long as the code that reads them, and would have holes.

    Raises:
        UsageError: it cannot be read, or is not what it should be.
    """
    try:
        yield
    except LockstepError:
        raise
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:_REASON_MAX]
        reason = f"{type(error).__name__}: {said}" if said else type(error).__name__
        raise UsageError(f"{path} is damaged, or not what Lockstep has written there: {reason}") from error
