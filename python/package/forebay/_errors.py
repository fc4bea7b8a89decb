"""Exceptions of the package. The native module raises them too."""

from __future__ import annotations


class FileError(ValueError):
    """A mistake in a file or in a text that stands for one, with its place.

    ``str()`` of it is one line that names the file, the line and the key.
    """

    def __init__(self, file: str, line: int | None, key: str, message: str) -> None:
        super().__init__(file, line, key, message)
        self.file = file
        """The file, or what the text is called without one."""
        self.line = line
        """The line in the file, from 1; ``None`` if the mistake has none."""
        self.key = key
        """The key with its tables, such as ``traffic.load``; empty if the mistake has none."""
        self.message = message
        """The mistake, and what to do."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f" {self.key}:" if self.key else ""
        return f"{place}:{key} {self.message}"


class ScenarioError(FileError):
    """A mistake in a scenario, with its place."""


class PlanError(FileError):
    """A mistake in a topology, in providers, demands, prefixes or hints, with its place."""


class RunError(RuntimeError):
    """A run could not be done, although its scenario is valid."""


class GridError(ValueError):
    """Everything that is wrong with the grid of a sweep, found before its first run."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(errors)
        self.errors = errors
        """The errors, one line each."""

    def __str__(self) -> str:
        return "\n".join(self.errors)


class SweepError(RuntimeError):
    """A sweep cannot begin or go on; the runs that are done are kept."""
