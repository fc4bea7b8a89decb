"""The runs of a sweep: the points of a grid, each with every arm and seed."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import _native, _toml
from ._errors import GridError, ScenarioError

if TYPE_CHECKING:
    from ._scenario import Scenario

#: A grid: each key, or tuple of keys that change together, with its values.
Grid = Mapping[Any, Iterable[Any]]

#: A key of a scenario with its value as TOML.
Pair = tuple[str, str]

#: The longest name of a point in a file name; a hash replaces the rest of a longer one.
MAX_NAME = 180


@dataclass(frozen=True, slots=True)
class Axis:
    """The values of a key, or of keys that change together."""

    keys: tuple[str, ...]
    #: For each value, one entry for each key.
    values: tuple[tuple[Any, ...], ...]
    #: The same as pairs of key and TOML.
    pairs: tuple[tuple[Pair, ...], ...]


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a sweep."""

    #: The values of the axes by their keys.
    point: dict[str, Any]
    #: The same as TOML.
    pairs: tuple[Pair, ...]
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's file, without its directory."""
        point = ",".join(f"{key}={_shown(value)}" for key, value in self.point.items()) or "run"
        name = quote(point, safe="=,+._-")
        if len(name) > MAX_NAME:
            digest = hashlib.sha256(name.encode()).hexdigest()[:16]
            name = f"{name[: MAX_NAME - 17]}~{digest}"
        return f"{name},seed={self.seed}.parquet"


def _shown(value: Any) -> str:
    """Returns a value as text: strings as they are, everything else as TOML."""
    return value if isinstance(value, str) else _toml.literal(value)


class Plan:
    """The runs of a sweep, each made when it is asked for, so that a plan of any size is small.

    Raises :class:`forebay.GridError` with everything that is wrong, before anything is run.
    """

    def __init__(
        self,
        scenario: Scenario,
        grid: Grid,
        seeds: Iterable[int],
        arms: Iterable[str] | None = None,
        checked: Callable[[int, int], object] | None = None,
    ) -> None:
        errors: list[str] = []
        self.scenario = scenario
        self.axes = _axes(grid, errors)
        self.seeds = _seeds(seeds, errors)
        errors += self._mistakes(checked)
        self.arms, self.traffics = self._described(arms, errors)
        if errors:
            raise GridError(errors)

    def _mistakes(self, checked: Callable[[int, int], object] | None) -> list[str]:
        axes = [[list(pairs) for pairs in axis.pairs] for axis in self.axes]
        told = None if checked is None else lambda count: checked(count, self.points)
        mistakes = _native.grid_errors(*self.scenario._parts, axes, told)
        return [str(ScenarioError(*mistake)) for mistake in mistakes]

    def _described(
        self, arms: Iterable[str] | None, errors: list[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if errors:
            return (), ()
        first = self.scenario._with(list(self._pairs(0)))
        known, file = first.arms, first.file or "the scenario"
        if first.cells > 1:
            errors.append(
                f"{file}: its own [grid] makes {first.cells} cells: remove it, and give its axes "
                "to the sweep"
            )
        chosen = tuple(known if arms is None else arms)
        errors += [
            f"{file}: there is no arm {arm!r}: give one of {', '.join(known)}"
            for arm in chosen
            if arm not in known
        ]
        if not chosen or len(set(chosen)) < len(chosen):
            errors.append("arms: give at least one, and none twice")
        return chosen, tuple(first.traffics)

    @property
    def points(self) -> int:
        """The number of points of the grid."""
        count = 1
        for axis in self.axes:
            count *= len(axis.values)
        return count

    def __len__(self) -> int:
        return self.points * len(self.arms) * len(self.seeds)

    def __iter__(self) -> Iterator[Task]:
        return map(self.task, range(len(self)))

    def task(self, index: int) -> Task:
        """Returns a run by its number; seeds vary fastest, then arms, then the last axis."""
        index, seed = divmod(index, len(self.seeds))
        index, arm = divmod(index, len(self.arms))
        point = {
            key: value
            for axis, place in self._places(index)
            for key, value in zip(axis.keys, axis.values[place], strict=True)
        }
        return Task(point, self._pairs(index), self.arms[arm], self.seeds[seed])

    def _pairs(self, point: int) -> tuple[Pair, ...]:
        return tuple(pair for axis, place in self._places(point) for pair in axis.pairs[place])

    def _places(self, point: int) -> list[tuple[Axis, int]]:
        places = []
        for axis in reversed(self.axes):
            point, place = divmod(point, len(axis.values))
            places.append((axis, place))
        return places[::-1]

    def columns(self) -> dict[str, str]:
        """Returns the keys of the axes with the Arrow type of their column."""
        return {
            key: _type([value[place] for value in axis.values])
            for axis in self.axes
            for place, key in enumerate(axis.keys)
        }

    def command(self, task: Task, out: Path) -> str:
        """Returns the command that repeats a run of the sweep in ``out``."""
        file = self.scenario.file or str(out / "scenario.toml")
        pairs = [*self.scenario.settings, *task.pairs, ("seeds", f"[{task.seed}]")]
        words = ["forebay", "lab", "run", file, "--engine", "sim", "--arm", task.arm]
        for key, text in pairs:
            words += ["--set", f"{key}={text}"]
        return shlex.join(words)

    def description(self, tables: Iterable[str]) -> str:
        """Describes the sweep as JSON: what must be equal for a sweep to be resumed."""
        grid = [{"keys": axis.keys, "values": axis.pairs} for axis in self.axes]
        description = {
            "format": 1,
            "forebay": _native.__version__,
            "scenario": self.scenario.text,
            "grid": grid,
            "seeds": self.seeds,
            "arms": self.arms,
            "tables": tuple(tables),
        }
        return json.dumps(description, indent=1) + "\n"


def _axes(grid: Grid, errors: list[str]) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    seen: set[str] = set()
    for given, values in grid.items():
        keys = (given,) if isinstance(given, str) else tuple(given)
        name = ", ".join(map(str, keys))
        twice = [key for key in keys if key in seen or keys.count(key) > 1]
        seen.update(keys)
        if twice:
            errors.append(f"{name}: {twice[0]} is an axis already")
        if "seeds" in keys:
            errors.append(f"{name}: seeds are no axis: give them as `seeds`")
        axis = None if twice else _axis(keys, name, values, errors)
        if axis:
            axes.append(axis)
    return tuple(axes)


def _axis(keys: tuple[str, ...], name: str, given: Iterable[Any], errors: list[str]) -> Axis | None:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        errors.append(f"{name}: give a list of values, not {given!r}")
        return None
    values = [
        (value,) if len(keys) == 1 else value for value in getattr(given, "tolist", lambda: given)()
    ]
    if not values:
        errors.append(f"{name}: the axis is empty")
        return None
    wrong = [v for v in values if not isinstance(v, (tuple, list)) or len(v) != len(keys)]
    if wrong:
        errors.append(f"{name}: {wrong[0]!r} must have {len(keys)} values, one for each key")
        return None
    try:
        pairs = tuple(
            tuple((key, _toml.literal(v)) for key, v in zip(keys, value, strict=True))
            for value in values
        )
    except TypeError as error:
        errors.append(f"{name}: {error}")
        return None
    if len(set(pairs)) < len(pairs):
        errors.append(f"{name}: a value stands twice")
        return None
    return Axis(keys, tuple(tuple(value) for value in values), pairs)


def _seeds(given: Iterable[int], errors: list[str]) -> tuple[int, ...]:
    seeds = tuple(given) if isinstance(given, Iterable) else (given,)
    good = all(
        isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63 for seed in seeds
    )
    if not good:
        errors.append("seeds: must be whole numbers from 0 to 2**63 - 1")
    elif not seeds or len(set(seeds)) < len(seeds):
        errors.append("seeds: give at least one, and none twice")
    return seeds if good else ()


def _type(values: list[Any]) -> str:
    for kind, name in ((bool, "bool"), (int, "int64"), ((int, float), "float64")):
        if all(isinstance(v, kind) and isinstance(v, bool) is (kind is bool) for v in values):
            return name
    return "string"


def column_value(value: Any, kind: str) -> Any:
    """Returns a value of an axis as its column stores it."""
    return _shown(value) if kind == "string" else value
