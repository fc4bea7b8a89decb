"""The harm map on Dask: whether a box is worse than none, on paths drawn at random."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._dataset import Dataset
from ._errors import GridError
from ._sweep import Execution, Progress, Sweep, cluster, reporter
from ._worker import parquet

if TYPE_CHECKING:
    from distributed import Client

#: The arms of a path run together, since they are judged against each other.
ARM = "all"


@dataclass(frozen=True, slots=True)
class HarmPath:
    """A path of the map, with all its arms and seeds."""

    number: int
    seed: int
    arm: str = ARM

    @property
    def name(self) -> str:
        """The name of the path's file."""
        return f"path={self.number:06},seed={self.seed}.parquet"

    @property
    def point(self) -> dict[str, Any]:
        """What a list of failures says of the path."""
        return {"path": self.number}


@dataclass(frozen=True, slots=True)
class Judge:
    """What all paths of a map have in common."""

    seeds: tuple[int, int]
    guard: bool

    def __call__(self, path: HarmPath) -> dict[str, bytes]:
        """Runs a path, and returns its row as a Parquet file."""
        import pyarrow as pa

        with tempfile.TemporaryDirectory(prefix="fb-harm-") as cells:
            text = _native.harm_cell(path.seed, path.number, self.seeds, self.guard, cells)
        cell = json.loads(text)["cells"][0]
        row = {
            "path": cell["number"],
            "family": cell["family"],
            "what": cell["what"],
            "rate_mbps": cell["rate_mbps"],
            "rtt_ms": cell["rtt_ms"],
            "worse": cell["worse"],
            "control_worse": cell["control_worse"],
            "map": text,
        }
        for arm in ("status_quo", "control", "in_network", "forebay"):
            for figure in FIGURES:
                value = cell[arm][figure]
                row[f"{arm}.{figure}"] = None if value is None else float(value)
        columns = {
            name: pa.array([value], pa.float64() if "." in name else None)
            for name, value in row.items()
        }
        return {"runs": parquet(pa.table(columns))}


#: The figures of each arm that become columns.
FIGURES = ("goodput_mbps", "slowdown_p50", "slowdown_p99", "unfinished", "bottleneck_p99_ms")


class Map:
    """The paths of a map."""

    def __init__(self, judge: Judge, seed: int, cells: int, families: tuple[str, ...]) -> None:
        self.judge, self.seed, self.cells, self.families = judge, seed, cells, families
        self.arms = (ARM,)
        self.numbers = _native.harm_cells(seed, cells, list(families))
        if not self.numbers:
            raise GridError(["no path has this family: give more cells"])

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[HarmPath]:
        return (HarmPath(number, self.seed) for number in self.numbers)

    def description(self) -> str:
        """Describes the map as JSON: what must be equal for it to be resumed."""
        seeds, confirm = self.judge.seeds
        description = {
            "format": 1,
            "forebay": _native.__version__,
            "seed": self.seed,
            "cells": self.cells,
            "families": self.families,
            "seeds": seeds,
            "confirm": confirm,
            "guard": self.judge.guard,
        }
        return json.dumps(description, indent=1) + "\n"

    def command(self, path: HarmPath | None, _out: Path) -> str:
        """Returns the command that repeats a path, or the map."""
        seeds, confirm = self.judge.seeds
        words = ["forebay", "lab", "harm", "--seeds", seeds, "--confirm", confirm]
        words += ["--seed", self.seed]
        words += ["--cells", self.cells] if path is None else ["--cell", path.number]
        if self.families and path is None:
            words += ["--family", ",".join(self.families)]
        if not self.judge.guard:
            words.append("--without-guard")
        return shlex.join(map(str, words))


def harm(
    cells: int = 230,
    *,
    out: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    seed: int = 1,
    seeds: int = 3,
    confirm: int = 9,
    families: Iterable[str] = (),
    guard: bool = True,
    client: Client | str | int | None = None,
    retries: int = 2,
    outstanding: int | None = None,
    progress: bool | Callable[[Progress], object] = True,
) -> Sweep:
    """Draws ``cells`` paths at random, and judges on each whether a box is worse than none.

    It is ``forebay lab harm`` on Dask, with its page ``harm.md``, its picture and its JSON, which
    are the same byte by byte. A task is a path with all its arms and seeds; a path that looks worse
    runs with ``confirm`` further seeds, which decide. ``runs`` of the dataset in ``out`` has a row
    for each path. For everything else see :func:`forebay.sweep`: a map that was interrupted goes
    on, and paths that fail are listed. The page is written when no path failed.
    """
    for name, value in (("cells", cells), ("seeds", seeds)):
        if value < 1:
            raise GridError([f"{name}: give at least 1"])
    plan = Map(Judge((seeds, confirm), guard), seed, cells, tuple(families))
    report = reporter(progress)
    dataset = Dataset(out, ())
    dataset.open(plan.description(), {})
    with cluster(client) as used:
        done = Execution(plan, plan.judge, dataset, used, retries, outstanding, report).all()
    if not done.failed:
        maps = done.table().column("map").to_pylist()
        _native.harm_write(maps, str(dataset.out), plan.command(None, dataset.out))
    return done
