"""What a seam of the noise is, and what all of them share: the seed, the eps of a dtype, when to be silent."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol
from unittest import mock

from harness.evidence.eps import EPS
from harness.recording.patches import patched

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NoiseSeam", "NoiseSource", "compute_eps", "differentiated", "dtype_of", "eps_of", "fingerprint", "patched"]

# Complex numbers are left alone.
_EPS = {dtype: eps for dtype, eps in EPS.items() if not dtype.startswith("complex")}


class NoiseSeam(Protocol):
    """A module of this folder: one place at which numbers of a program are perturbed."""

    def active(self, source: NoiseSource) -> contextlib.AbstractContextManager[None]:
        """Perturb what passes here, within this context."""


class NoiseSource:
    """Where seams have their signs from, and what they tell of what they have seen.

    Seeds `s` and `-s` are an opposite pair: what is drawn depends on the numbers that are perturbed and on `s`, and the
    sign of the seed turns all of it. Nothing is drawn from a generator that a program could use.

    Attributes:
        seed: without its sign.
        sign: 1.0, or -1.0 in the opposite run.
        coarsest: the largest eps of any number that was noted.
        computed: the largest eps that something was computed in between two casts.
        variables: fingerprints of arrays that were read from variables.
        random: signs for what is asked in the same order in each run, such as variables.
        behind: by `id`, the gradients of a tape that have the noise of a coarser dtype which they were computed in.
    """

    def __init__(self, seed: int) -> None:
        import numpy as np

        self.seed = abs(seed)
        self.sign = 1.0 if seed >= 0 else -1.0
        self.coarsest = 0.0
        self.computed = 0.0
        self.random = np.random.default_rng(self.seed)
        self.variables: set[int] = set()
        self.behind: dict[int, Any] = {}
        self._silent = threading.local()
        self._sites = itertools.count()

    def note(self, dtype: str) -> None:
        """The program computes in this dtype."""
        self.coarsest = max(self.coarsest, eps_of(dtype))

    def site(self) -> int:
        """A number that is another one at each call, and the same in each run that makes the same calls."""
        return next(self._sites)

    @property
    def is_silent(self) -> bool:
        """Whether what happens in this thread is the harness's own, or must stay for another reason."""
        return getattr(self._silent, "depth", 0) > 0

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Perturb nothing in this thread, within this context."""
        self._silent.depth = getattr(self._silent, "depth", 0) + 1
        try:
            yield
        finally:
            self._silent.depth -= 1

    def silently(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """This function, within which nothing is perturbed."""

        def call(*args: Any, **options: Any) -> Any:
            with self.silent():
                return original(*args, **options)

        return call


@contextlib.contextmanager
def differentiated(kind: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Within this context operations of a kind are differentiated by what `around` makes of their own function."""
    from tensorflow.python.framework import ops, registry

    entry = ops.gradient_registry._registry[kind]  # noqa: SLF001 - what is registered cannot be replaced otherwise
    with mock.patch.dict(entry, {registry._TYPE_TAG: around(ops.gradient_registry.lookup(kind))}):  # noqa: SLF001
        yield


def fingerprint(array: np.ndarray[Any, Any]) -> int:
    """A number that follows the content of an array."""
    return zlib.crc32(array.tobytes())


def eps_of(dtype: str) -> float:
    """Distance from 1 to the next number of a floating dtype; 0 of any other dtype."""
    return _EPS.get(dtype, 0.0)


def dtype_of(eps: float) -> str | None:
    """The dtype that has this eps."""
    return next((dtype for dtype, each in _EPS.items() if each == eps), None)


def compute_eps() -> float:
    """The eps of the dtype that Keras layers compute in: with mixed precision it is coarser than the variables' own."""
    policies = (
        sys.modules[keras].mixed_precision.global_policy()
        if keras == "tf_keras"
        else sys.modules[keras].mixed_precision.dtype_policy()
        for keras in ("keras", "tf_keras")
        if keras in sys.modules
    )
    return max((eps_of(policy.compute_dtype) for policy in policies), default=0.0)
