"""What a kind of classes brings: forms in which its classes are made, and what replicas do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Form", "Keras", "Kind", "Row", "Work", "forms_of"]

Keras = Any
# Name of a form, inputs, positional and named arguments.
Row = tuple[str, str, tuple[Any, ...], dict[str, Any]]


class Form(NamedTuple):
    """One way to make a class.

    Attributes:
        inputs: the key in the examples of what it is given.
        make: what is called with the module of the Keras, below the strategy's scope.
        call: calls what was made; None if that is a call of it with the inputs.
    """

    inputs: str
    make: Callable[[Keras], Any]
    call: Callable[..., Any] | None = None


class Work(Protocol):
    """What was made of some forms, below a strategy's scope."""

    def replica_step(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Train on one replica's rows; scalars that are added up over the replicas."""

    def variables(self) -> Mapping[str, Any]:
        """All state, by names that begin with the form's."""

    def results(self) -> Mapping[str, Any]:
        """What is read outside of the replicas after a step."""


class Kind(NamedTuple):
    """A kind of classes.

    Attributes:
        module: of the Keras, in which the public classes stand.
        bases: classes that are there to be derived from, or are another name of one.
        forms: the forms that this Keras has, by names such as `Dense` and `Dense:regularized`.
        examples: so many examples, the same in each process.
        work: makes the chosen forms, given the replicas and the rows of a whole batch.
        circumstances: under which they are tried.
        issues: known defects by patterns of `package/form`; the symptom must be that of the defect.
        documented: by form and circumstance, why the numbers may differ; the documentation says so.
    """

    module: str
    bases: frozenset[str]
    forms: Callable[[Keras], Mapping[str, Form]]
    examples: Callable[[int], Mapping[str, Any]]
    work: Callable[[Keras, Mapping[str, Form], int, int], Work]
    circumstances: Sequence[str]
    issues: Mapping[str, str] = {}
    documented: Mapping[tuple[str, str], str] = {}


def forms_of(keras: Keras, module: str, rows: Sequence[Row]) -> dict[str, Form]:
    """Forms that are calls of classes with arguments.

    Args:
        keras: the module of the Keras; rows of classes that it lacks are left out.
        module: of it, with the classes.
        rows: of the forms.
    """
    classes = getattr(keras, module)

    def form(name: str, inputs: str, args: tuple[Any, ...], options: dict[str, Any]) -> Form:
        return Form(inputs, lambda chosen: getattr(getattr(chosen, module), name.partition(":")[0])(*args, **options))

    return {row[0]: form(*row) for row in rows if hasattr(classes, row[0].partition(":")[0])}
