"""A signal that Python cannot pass on where it comes, as in a destructor, ends the command nevertheless."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal, threading
from harness.cli import _Asked, _heard

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

asked = _Asked()
try:
    with _heard(asked, None):
        del_me = Dying()
        del del_me
        print("lost", flush=True)
        threading.Event().wait(10)
        print("never", flush=True)
except KeyboardInterrupt:
    print("heard", asked.code)
"""


def test_one_that_was_lost_comes_again() -> None:
    """Without a word of Python's, which would have printed the exception and gone on."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.split(), done.stderr) == (["lost", "heard", "143"], "")
