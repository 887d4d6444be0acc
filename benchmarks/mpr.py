"""The parent's side of `mpr_peer`: a long-lived process, so that both sides are measured warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SOURCE = Path(__file__).with_name("mpr_peer.py")
# The script is found here by its processes; their own noise must not reach ours.
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}


@contextmanager
def multi_process_runner(workers: int) -> Iterator[Callable[[], float]]:
    """Yield a function that runs one fresh MultiProcessRunner cluster and returns its seconds.

    Raises:
        RuntimeError: from the function, with the end of the peer's output, if the peer failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "mpr_peer")
        script.write_text(f"#!{sys.executable}\n{_SOURCE.read_text()}")
        script.chmod(0o755)
        log = Path(folder, "log")
        with log.open("w") as errors:
            peer = subprocess.Popen(
                [str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **_ENVIRONMENT},
            )
        assert peer.stdin is not None
        assert peer.stdout is not None
        requests, answers = peer.stdin, peer.stdout

        def run() -> float:
            requests.write(f"{workers}\n")
            requests.flush()
            # The processes of the cluster share this output, so other lines come in between.
            for line in answers:
                if line.startswith('{"seconds"'):
                    return float(json.loads(line)["seconds"])
            raise RuntimeError(f"MultiProcessRunner ended with {peer.wait()}:\n{log.read_text()[-3000:]}")

        try:
            yield run
        finally:
            requests.close()
            try:
                peer.wait(timeout=30)
            except subprocess.TimeoutExpired:
                peer.kill()
                peer.wait()
            answers.close()
