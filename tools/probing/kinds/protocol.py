"""What a kind of classes brings: forms in which its classes are made, and what replicas do with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

Keras = Any
# Name of a form, inputs, positional and named arguments.
Row = tuple[str, str, tuple[Any, ...], dict[str, Any]]


class Form(NamedTuple):
    """One way to make a class.

    Attributes:
        inputs: the key in the examples of what it is given.
        make: what is called with the module of the Keras, below the strategy's scope.
        call: calls what was made; None if that is a call of it with the inputs.
        public: the class, if `make` takes further arguments of it, by their names.
    """

    inputs: str
    make: Callable[..., Any]
    call: Callable[..., Any] | None = None
    public: str = ""


class Work(Protocol):
    """What was made of some forms, below a strategy's scope."""

    @property
    def inputs(self) -> Collection[str]:
        """The names of those that it reads; what replicas are not given costs nothing."""

    def compute(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """Of one replica's rows, losses that are added up over the replicas, and gradients; XLA may compile it."""

    def update(self, gradients: Any) -> None:
        """Train by what replicas have computed; here they wait for each other."""

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
        circumstances: under which they are tried.
        work: makes some of the forms, given also the rows of a whole batch; see `stepping`.
        train: where there is no such work, a training, given strategy, record, the Keras, and some of the forms.
        issues: patterns of `package/form`, and the known defect that these meet; its symptom must be seen.
        documented: patterns of `package/form/strategy/circumstance`, and what the documentation says of these.
        beyond: such patterns, and why nobody can do that; it is not tried.
        unmade: public classes that no form makes, and why.
    """

    module: str
    bases: frozenset[str]
    forms: Callable[[Keras], Mapping[str, Form]]
    circumstances: Sequence[str]
    work: Callable[[Keras, Mapping[str, Form], int], Work] | None = None
    train: Callable[[Any, Any, Keras, Mapping[str, Form]], None] | None = None
    issues: Sequence[tuple[str, str]] = ()
    documented: Sequence[tuple[str, str]] = ()
    beyond: Sequence[tuple[str, str]] = ()
    unmade: Mapping[str, str] = MappingProxyType({})


def forms_of(keras: Keras, module: str, rows: Sequence[Row]) -> dict[str, Form]:
    """Forms that are calls of classes with arguments.

    Args:
        keras: the module of the Keras; rows of classes that it lacks are left out.
        module: of it, with the classes.
        rows: of the forms.
    """
    classes = getattr(keras, module)

    def form(name: str, inputs: str, args: tuple[Any, ...], options: dict[str, Any]) -> Form:
        public = name.partition(":")[0]

        def make(chosen: Keras, **more: Any) -> Any:
            return getattr(getattr(chosen, module), public)(*args, **options | more)

        return Form(inputs, make, public=public)

    return {row[0]: form(*row) for row in rows if hasattr(classes, row[0].partition(":")[0])}
