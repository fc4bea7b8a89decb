"""Scenarios: a path, traffic, and arms to compare, as text that is checked by the laboratory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _native, _toml

#: What errors call a scenario that has no file.
UNNAMED = "scenario.toml"


class Scenario:
    """A scenario, from a TOML file, TOML text or a mapping. It never changes.

    >>> scenario = Scenario("experiments/demo.toml")
    >>> slow = scenario.set("path.rate", "24 Mbit/s").set("traffic.web.load", "50%")

    A string with a line break is TOML text, any other string is the path of a file. The keys are
    those of the book's page "Scenario files". Files that a scenario names, such as traces, are
    looked for beside its own file.
    """

    __slots__ = ("_file", "_settings", "_source", "_text")

    def __init__(
        self, source: str | bytes | os.PathLike[str] | os.PathLike[bytes] | Mapping[str, Any]
    ) -> None:
        self._file: str = UNNAMED
        self._settings: tuple[tuple[str, str], ...] = ()
        if isinstance(source, Mapping):
            self._source = _toml.document(source)
        elif isinstance(source, str) and "\n" in source:
            self._source = source
        else:
            self._file = os.fsdecode(source)
            self._source = Path(self._file).read_text(encoding="utf-8-sig")
        self._text = _native.set_keys(self._file, self._source, [])

    def set(self, key: str, value: Any) -> Scenario:
        """Returns the scenario with another value of a key.

        The key names tables from the outside in, and an entry of a list by its name or by its
        number from 1: ``traffic.web.load``, ``path.way.2.rate``. The value is checked when the
        scenario is run, or by :meth:`check`.
        """
        return self.with_(**{key: value})

    def with_(self, **values: Any) -> Scenario:
        """Returns the scenario with other values of some keys.

        >>> scenario.with_(**{"path.rate": "24 Mbit/s", "ecn": True})
        """
        return self._with([(key, _toml.literal(value)) for key, value in values.items()])

    def _with(self, pairs: list[tuple[str, str]]) -> Scenario:
        """Returns the scenario with keys that are set to values in TOML."""
        made = object.__new__(Scenario)
        made._file, made._source = self._file, self._source
        made._settings = (*self._settings, *pairs)
        made._text = _native.set_keys(self._file, self._source, list(made._settings))
        return made

    def check(self) -> Scenario:
        """Raises :class:`forebay.ScenarioError` if the scenario cannot be run, or returns it."""
        self._describe()
        return self

    @property
    def _parts(self) -> tuple[str, str, list[tuple[str, str]]]:
        """What the native module takes: file, text as it was read, and settings."""
        return self._file, self._source, list(self._settings)

    def _describe(self) -> tuple[str, str, list[str], list[int], int, list[str]]:
        return _native.describe(*self._parts)

    @property
    def text(self) -> str:
        """The scenario as TOML."""
        return self._text

    @property
    def file(self) -> str | None:
        """The file that the scenario was read from, if any."""
        return None if self._file == UNNAMED else self._file

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """The keys that were set after reading, with their values as TOML."""
        return self._settings

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self._describe()[0]

    @property
    def title(self) -> str:
        """The title of the scenario; may be empty."""
        return self._describe()[1]

    @property
    def arms(self) -> list[str]:
        """The names of the arms that the scenario compares."""
        return self._describe()[2]

    @property
    def seeds(self) -> list[int]:
        """The seeds that the scenario names."""
        return self._describe()[3]

    @property
    def cells(self) -> int:
        """The number of cells: the combinations of the scenario's own ``[grid]``."""
        return self._describe()[4]

    @property
    def traffics(self) -> list[str]:
        """The names of the traffics."""
        return self._describe()[5]

    def __repr__(self) -> str:
        changes = "".join(f".set({key!r}, {value})" for key, value in self._settings)
        return f"<Scenario {self._file}{changes}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        return (self._file, self._text) == (other._file, other._text)

    def __hash__(self) -> int:
        return hash((self._file, self._text))
