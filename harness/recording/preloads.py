"""Imported by a forkserver, so that no client has to: all that runs in one, and what is one file a kind."""

from harness.recording import client, file_access, noise, recorder
from harness.recording.witness import all_seams
from harness.subject.strategies import all_kinds

__all__ = ["client", "file_access", "noise", "recorder"]

all_seams()
all_kinds()
