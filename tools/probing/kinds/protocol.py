"""What a kind of classes brings: forms in which its classes are made, and what replicas do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Form", "Keras", "Kind", "Row", "forms_of"]

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


class Kind(NamedTuple):
    """A kind of classes.

    Attributes:
        module: of the Keras, in which the public classes stand.
        bases: classes that are there to be derived from, or are another name of one.
        forms: the forms that this Keras has, by names such as `Dense` and `Dense:regularized`.
        train: a training, given strategy, record, the Keras, some of the forms and the circumstance.
        circumstances: under which they are tried.
        issues: patterns of `package/form`, and the known defect that these meet; its symptom must be seen.
        documented: patterns of `package/form/strategy/circumstance`, and what the documentation says of these.
        beyond: such patterns, and why nobody can do that; it is not tried.
    """

    module: str
    bases: frozenset[str]
    forms: Callable[[Keras], Mapping[str, Form]]
    train: Callable[[Any, Any, Keras, Mapping[str, Form], str], None]
    circumstances: Sequence[str]
    issues: Sequence[tuple[str, str]] = ()
    documented: Sequence[tuple[str, str]] = ()
    beyond: Sequence[tuple[str, str]] = ()


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
