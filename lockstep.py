"""What `%load_ext lockstep` loads in a notebook; everything else of Lockstep has other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Have `%%lockstep` mean what `harness.magic` says."""
    from _lockstep import names

    names.claim()
    from harness import magic

    magic.load_ipython_extension(shell)
