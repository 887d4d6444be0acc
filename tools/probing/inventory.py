"""What a Keras has: the public classes of each kind, and the forms in which they are tried."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent.parent


class Inventory(msgspec.Struct, frozen=True):
    """The classes and forms of one kind.

    Attributes:
        classes: that are public, without those that are there to be derived from.
        forms: the names of the forms, of which `Dense:regularized` is one of `Dense`.
        refused: how many combinations of arguments that were drawn a class refuses on one device.
    """

    classes: tuple[str, ...]
    forms: tuple[str, ...]
    refused: int = 0


def inventory_of(package: str, drawn: int = 0, seed: int = 0) -> dict[str, Inventory]:
    """The inventory of each kind, with so many drawn forms of each class.

    It is made in a process of its own, since this one does not import TensorFlow.
    """
    command = [sys.executable, "-m", __spec__.name, package, str(drawn), str(seed)]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(told.splitlines()[-1], type=dict[str, Inventory])


def _inventory(package: str, count: int, seed: int) -> dict[str, Inventory]:
    from tools.probing.drawn import draw_forms
    from tools.probing.kinds import KINDS

    keras = importlib.import_module(package)
    found = {}
    for name, kind in KINDS.items():
        module = getattr(keras, kind.module)
        public = {name: each for name in dir(module) if isinstance(each := getattr(module, name), type)}
        # An alias, such as Convolution2D, is the class that it names; GroupQueryAttention has another name of its own.
        classes = {each.__name__ if each.__name__ in public else name for name, each in public.items()}
        drawn = draw_forms(keras, kind, count, seed)
        forms = tuple(sorted({*kind.forms(keras), *drawn.names}))
        found[name] = Inventory(tuple(sorted(classes - kind.bases)), forms, drawn.refused)
    return found


if __name__ == "__main__":
    print(msgspec.json.encode(_inventory(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))).decode())
