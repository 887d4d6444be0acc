"""Data as JSON, whatever texts it has."""

from __future__ import annotations

from typing import Any

import msgspec


def encoded(data: Any) -> bytes:
    r"""JSON, in which `\udcff` stands for a byte that is not of UTF-8: arguments and names of files are bytes."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return msgspec.json.encode(_readable(msgspec.to_builtins(data)))


def _readable(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode(errors="backslashreplace").decode()
    if isinstance(data, dict):
        return {_readable(key): _readable(value) for key, value in data.items()}
    return [_readable(each) for each in data] if isinstance(data, list | tuple) else data
