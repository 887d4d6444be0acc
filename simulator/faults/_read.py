"""Faults from keys and values, as files and the command line have them, with errors that name what is accepted."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from simulator.errors import UsageError
from simulator.faults.kinds import all_kinds
from simulator.faults.protocol import PHASES, UNITS, Fault

__all__ = ["accepted_keys", "check_fault", "fault_from_mapping", "fault_from_text", "with_implied"]

_WORDS = {"true": True, "false": False}


def accepted_keys(kind: type[Fault]) -> list[str]:
    """The keys of this kind: its own first, then those that all faults have."""
    common = {field.encode_name for field in msgspec.structs.fields(Fault)}
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return [name for name in names if name not in common] + [name for name in names if name in common]


def fault_from_mapping(values: Mapping[str, object], where: str = "fault") -> Fault:
    """A fault from a table such as `{"kind": "kill", "task": "worker:1", "step": 20}`.

    Raises:
        UsageError: an unknown or missing kind, key or value; the message names those that are accepted.
    """
    kinds = all_kinds()
    name = values.get("kind")
    if name not in kinds:
        raise UsageError(f"{where}: kind {name!r} is unknown; kinds are {', '.join(kinds)}")
    kind = kinds[str(name)]
    keys = accepted_keys(kind)
    for key in values:
        if key not in keys and key != "kind":
            raise UsageError(f"{where}: {name} has no key {key!r}; its keys are {', '.join(keys)}")
    for key in kind.needed:
        if not values.get(key):
            raise UsageError(f"{where}: {name} needs {key}=")
    try:
        fault = with_implied(msgspec.convert(values, kind))
        check_fault(fault)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {name}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return fault


def fault_from_text(text: str) -> Fault:
    r"""A fault from the form of the command line, `kind=kill,task=worker:1,step=20`.

    Several tasks are joined by `+`; a bare `one_way` is `one_way=true`. A comma within a value, as in a regular
    expression, is written `\,`.

    Raises:
        UsageError: as `fault_from_mapping`, and a key given twice.
    """
    values: dict[str, object] = {}
    for item in text.replace("\\,", "\0").split(","):
        key, equals, value = (part.replace("\0", ",") for part in item.strip().partition("="))
        if key in values:
            raise UsageError(f"fault {text!r} has {key} twice")
        values[key] = _value(key, value) if equals else True
    return fault_from_mapping(values, f"fault {text!r}")


def _value(key: str, text: str) -> object:
    if UNITS.get(key) == "count" and text.isdecimal():
        return int(text)
    if UNITS.get(key) == "number" and ".." not in text:
        try:
            return float(text)
        except ValueError:
            return text
    if key in ("task", "of") and "+" in text:
        return text.split("+")
    return _WORDS.get(text, text)


def with_implied(fault: Fault) -> Fault:
    """The fault with the trigger that its kind has by itself, if it names none."""
    if not fault.implied or fault.triggers:
        return fault
    return msgspec.structs.replace(fault, **fault.implied)


def check_fault(fault: Fault) -> None:
    """Raise UsageError if the keys of a fault make no sense together, whatever the cluster is."""
    trigger = fault.trigger
    if fault.phase is not None and fault.phase not in PHASES:
        raise UsageError(f"phase={fault.phase!r} is unknown; phases are {', '.join(PHASES)}")
    if trigger in ("bytes", "connections") and not (fault.src and fault.dst):
        raise UsageError(f"{trigger} is counted on a link; name it with src and dst")
    if fault.until is not None and not fault.lasts:
        raise UsageError(f"{fault.kind} does not last, so it has no until")
    if fault.in_task and fault.gate is None:
        raise UsageError(f"{fault.kind} is applied inside the task, so its trigger is step or phase")
    fault.check()
