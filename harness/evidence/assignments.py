"""Where a program has given variables values between its steps."""

from __future__ import annotations

import msgspec


class Assignment(msgspec.Struct, frozen=True):
    """One line that has assigned a variable outside of all steps, such as a callback's that sets a rate.

    Attributes:
        variable: the name that TensorFlow or Keras gives it.
        line: of the program, `train.py:12`.
        first: after which step it did so first, 0 before all of them.
        last: after which one it did so last.
    """

    variable: str
    line: str
    first: int
    last: int

    def is_after(self, step: int) -> bool:
        """Whether it may have done so after this step, before the next one."""
        return self.first <= step <= self.last
