"""Where the process of a test file begins; light, since the user's session imports it to name it."""

from __future__ import annotations

import contextlib
import os
import traceback
from typing import Any

from harness.tf_tests.inside.messages import NotCollected, SessionOrder


def enter(connection: Any, captured: Any, order: SessionOrder) -> None:
    """Run the file's session, or say why that cannot be."""
    from harness.tf_tests.inside import hosted_session

    try:
        hosted_session.main(connection, captured, order)
    except BaseException:  # noqa: BLE001 - whatever it is, somebody waits for it
        with contextlib.suppress(OSError):
            connection.send(NotCollected("failed", traceback.format_exc()))
        os._exit(1)
