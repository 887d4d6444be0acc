"""Faults from keys and values, as files and the command line have them, with errors that name what is accepted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from simulator.errors import UsageError, meant
from simulator.faults.kinds import all_kinds
from simulator.faults.protocol import PHASES, Fault, LinkFault, fields_of
from simulator.faults.values import UNITS, FaultValue, ends_of

_WORDS = {"true": True, "false": False}
# Python does not read integers of thousands of digits; as text they are refused like any other that is too great.
_DIGITS_MAX = 100


def accepted_keys(kind: type[Fault]) -> list[str]:
    """The keys of this kind: its own first, then those that all faults have."""
    common = {field.encode_name for field in fields_of(Fault)}
    names = [field.encode_name for field in fields_of(kind)]
    return [name for name in names if name not in common] + [name for name in names if name in common]


def fault_from_mapping(values: Mapping[str, object], where: str = "fault") -> Fault:
    """A fault from a table such as `{"kind": "kill", "task": "worker:1", "step": 20}`.

    Raises:
        UsageError: an unknown or missing kind, key or value; the message names those that are accepted.
    """
    kinds = all_kinds()
    name = values.get("kind")
    # In a file it may be a list, say, which a dictionary cannot be asked for.
    if not isinstance(name, str) or name not in kinds:
        if name is None:
            raise UsageError(f"{where} names no kind; write kind=..., one of {', '.join(kinds)}")
        raise UsageError(f"{where}: kind {name!r} is unknown; {meant(name, kinds)}kinds are {', '.join(kinds)}")
    kind = kinds[name]
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


def checked(fault: Fault, where: str) -> Fault:
    """A fault that was made in Python, if it makes sense; a directory may be a `Path` there.

    Raises:
        UsageError: as `fault_from_mapping`; Python itself takes any value for a key.
    """
    if not isinstance(fault, Fault):
        raise UsageError(f"{where} is {fault!r:.80}; a plan has faults such as Kill('worker:1', step=3)")
    for key in fault.needed:
        if not getattr(fault, key):
            raise UsageError(f"{where}: {fault.kind} needs {key}=")
    try:
        made = with_implied(msgspec.convert(msgspec.to_builtins(fault, enc_hook=os.fspath), type(fault)))
        check_fault(made)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"{where}: {fault.kind}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return made


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
    unit = UNITS[key].unit if key in UNITS else None
    if unit == "count" and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return int(text)
    if unit == "number" and ".." not in text:
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


def value_of(fault: Fault, key: str) -> FaultValue | None:
    """What a key of this fault takes; None if it is no number."""
    return fault.values.get(key, UNITS.get(key))


def check_fault(fault: Fault) -> None:
    """Raise UsageError if a fault can never strike, or its keys make no sense together, whatever the cluster is."""
    for field in fields_of(type(fault)):
        key, value = field.encode_name, getattr(fault, field.name)
        if value is not None and (known := value_of(fault, key)) is not None:
            ends_of(key, value, known)
    _check_trigger(fault)
    _check_end(fault)
    if fault.in_task and fault.gate is None:
        raise UsageError(f"{fault.kind} is applied inside the task, so its trigger is step or phase")
    fault.check()


def _check_trigger(fault: Fault) -> None:
    """One trigger, and nothing that belongs to another one."""
    trigger = fault.trigger
    if fault.phase is not None and fault.phase not in PHASES:
        raise UsageError(f"phase={fault.phase!r} is unknown; phases are {', '.join(PHASES)}")
    if fault.nth != 1 and trigger != "phase":
        raise UsageError(
            f"nth={fault.nth} says which time a phase is reached, and the trigger is {trigger}; leave it out"
        )
    if fault.incarnation is not None and trigger not in ("step", "phase"):
        raise UsageError(f"incarnation= says whose step or phase counts, and the trigger is {trigger}; leave it out")
    if trigger in ("bytes", "connections"):
        if not (fault.src and fault.dst):
            raise UsageError(f"{trigger} is counted on a link; name it with src and dst")
    elif (fault.src or fault.dst) and not isinstance(fault, LinkFault):
        raise UsageError(f"src and dst name the link of bytes= or connections=, and the trigger is {trigger}")
    if fault.of is not None and not fault.of:
        raise UsageError("of= names no task; give one, such as of=worker:0, or leave it out")
    if fault.of and trigger in ("bytes", "connections", "time") and fault.until is None:
        raise UsageError(f"of= says whose step, phase or log counts, and the trigger is {trigger}; leave it out")
    if fault.log is not None:
        _check_pattern(fault.log)


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    # What is repeated too often is an OverflowError, and what is nested too deeply a RecursionError.
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"log={text!r} is not a regular expression: {error}; write \\( for a bracket") from None
    if not text:
        raise UsageError("log= is empty, which every line matches; give a regular expression, such as log=epoch 3")


def _check_end(fault: Fault) -> None:
    """At most one thing that ends it."""
    if fault.until is None:
        return
    if not fault.lasts:
        raise UsageError(f"{fault.kind} does not last, so it has no until")
    duration = next((field for field in fields_of(type(fault)) if field.name == "duration"), None)
    if duration is not None and getattr(fault, duration.name) != duration.default:
        raise UsageError(f"until={fault.until} and duration are two ends; give one of them")
