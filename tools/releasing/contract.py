"""The public contract as text: exported names with their parameters, and commands with their options."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import click

from tools.making_site.reference import PACKAGES

_OURS = {"harness", "simulator"}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def contract() -> str:
    """One line for each name, parameter, field and option: what goes or changes is a line that goes or changes."""
    lines = [
        "# The public contract. Written by `python tools/api.py`; docs/releasing.md says what a change of it means."
    ]
    for module in (module for modules in PACKAGES.values() for module in modules):
        found = importlib.import_module(module)
        for name in sorted(found.__all__):
            lines += ["", *_named(f"{module}.{name}", getattr(found, name))]
    for command in _commands():
        lines += ["", f"lockstep {command.name}", *(f"    {line}" for line in sorted(_options(command)))]
    return "\n".join(lines) + "\n"


def _named(path: str, value: object) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"def {path}" if callable(value) else f"{path}: {type(value).__name__}"
        if callable(value):
            yield from _parameters(value, "    ")
        return
    yield f"class {path}({', '.join(base.__name__ for base in value.__bases__ if base is not object)})"
    parameters = () if _is_plain_error(value) else tuple(inspect.signature(value).parameters)
    if parameters:
        yield from _parameters(value, "    ")
    for name, member in sorted(_members(value).items()):
        function = getattr(member, "__func__", member)
        if isinstance(member, property):
            yield f"    {name}: property{_returns(inspect.signature(member.fget)) if member.fget else ''}"
        elif inspect.isfunction(function):
            kind = f"{type(member).__name__} " if function is not member else ""
            yield f"    {kind}def {name}"
            yield from _parameters(function, "        ")
        elif name not in parameters:
            yield f"    {name}"


def _is_plain_error(value: type) -> bool:
    """Whether it is made as every exception is, which Python shows in another way from version to version."""
    return issubclass(value, BaseException) and not any("__init__" in vars(base) for base in _own(value))


def _own(value: type) -> list[type]:
    """The class and those of its bases that are ours, from the bottom up."""
    return [base for base in reversed(value.__mro__) if base.__module__.partition(".")[0] in _OURS]


def _members(value: type) -> dict[str, object]:
    """The public members of a class, also of bases that are ours, as they stand in the class."""
    found: dict[str, object] = {}
    for base in _own(value):
        names = (*vars(base), *getattr(base, "__annotations__", {}))
        found |= {name: vars(base).get(name) for name in names if not name.startswith("_")}
    return found


_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: ("positional ", ""),
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ("", ""),
    inspect.Parameter.VAR_POSITIONAL: ("", "*"),
    inspect.Parameter.KEYWORD_ONLY: ("keyword ", ""),
    inspect.Parameter.VAR_KEYWORD: ("", "**"),
}
"""By the kind of a parameter what stands before its name."""


def _parameters(value: object, indent: str) -> Iterator[str]:
    assert callable(value)
    signature = inspect.signature(value)
    for parameter in signature.parameters.values():
        only, stars = _KINDS[parameter.kind]
        default = "" if parameter.default is parameter.empty else f" = {_ADDRESS.sub('', repr(parameter.default))}"
        if parameter.name not in ("self", "cls"):
            yield f"{indent}{only}{stars}{parameter.name}{_type(parameter.annotation, ': ')}{default}"
    if returns := _returns(signature):
        yield f"{indent}{returns.strip()}"


def _returns(signature: inspect.Signature) -> str:
    return _type(signature.return_annotation, " -> ")


def _type(annotation: object, before: str) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    return before + (annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _commands() -> Iterator[click.Command]:
    import harness.cli

    for name in sorted(each.name for each in pkgutil.iter_modules(harness.cli.__path__)):
        if not name.startswith("_"):
            yield getattr(importlib.import_module(f"harness.cli.{name}"), name)


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        names = " / ".join((*parameter.opts, *parameter.secondary_opts))
        if isinstance(parameter, click.Argument):
            yield f"argument {names}"
        elif isinstance(parameter, click.Option):
            kind = "flag" if parameter.is_flag else parameter.type.name
            choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
            several = ", may be given several times" if parameter.multiple else ""
            yield f"{names}: {kind}{several}{''.join(f' {choice}' for choice in choices)}"
