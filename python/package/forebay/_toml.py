"""Writes TOML: what ``tomllib`` of the standard library reads and does not write."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def literal(value: Any) -> str:
    """Returns a value as TOML: a truth value, number, string, list or mapping."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # a scalar of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        entries = ", ".join(f"{_key(k)} = {literal(v)}" for k, v in value.items())
        return f"{{ {entries} }}" if entries else "{}"
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return "[" + ", ".join(map(literal, value)) + "]"
    raise TypeError(
        f"a scenario has no values of type {type(value).__name__}: "
        "give a string, number, truth value, list or dict"
    )


def document(data: Mapping[str, Any]) -> str:
    """Returns a TOML document: tables and lists of tables get lines of their own."""
    first, rest = [], []
    for key, value in data.items():
        if isinstance(value, Mapping):
            rest += ["", f"[{_key(key)}]", *_lines(value)]
        elif _is_tables(value):
            for entry in value:
                rest += ["", f"[[{_key(key)}]]", *_lines(entry)]
        else:
            first.append(f"{_key(key)} = {literal(value)}")
    return "\n".join(first + rest) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {literal(value)}" for key, value in table.items()]


def _is_tables(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(entry, Mapping) for entry in value)
    )


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    # JSON escapes what TOML escapes, in the same way, except for DEL and surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def value(text: str) -> Any:
    """Returns the value that a literal stands for."""
    return tomllib.loads(f"value = {text}")["value"]
