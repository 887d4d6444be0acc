"""Why a step of a watched training is not judged, in words; and what to do where nothing is."""

from __future__ import annotations

ELSEWHERE = "give the command that starts it here: lockstep judge DIR -- python train.py"
NO_STEP = "takes no step here: if it goes on from its own last checkpoint, give it a directory without that"
FIRST_CALL = "the script comes to it here only by the call that makes what it begins with"
NOT_MADE = "the script does not come to it here: it ends before that, or calls something else"
NOTHING_LEFT = "it has left no variables that could be compared, as where these could not be read"
RESTORED = "variables that its call makes may begin with what a checkpoint has, which nobody has noted"
OWN_BEGUN = (
    "each replica begins with something of its own, which one device has not; as many replicas make of it what the run "
    "has made"
)
RENAMED = (
    "the judge's script has no variable {}: this start has other variables, or calls them otherwise, such as those of "
    "a model that it loads"
)
APART = "what it computes is not judged, since its replicas began with different copies"
BY_PYTHON = (
    "its Python runs each time, and all replicas compute it otherwise here: what it keeps there, such as a count, is "
    "no evidence"
)
