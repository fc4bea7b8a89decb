"""The command line of sweeps: ``python -m forebay.sweep FILE --grid KEY=VALUE,... --out DIR``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from . import _native, _toml
from ._errors import GridError, ScenarioError, SweepError
from ._result import TABLES
from ._scenario import Scenario
from ._sweep import Sweep, sweep

#: As shells have it: interrupted by Ctrl-C.
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Runs a sweep that is described on a command line, and returns the exit status."""
    args = _parser().parse_args(arguments)
    try:
        return _run(args)
    except (GridError, ScenarioError, SweepError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted: the same command goes on with {args.out}", file=sys.stderr)
        return INTERRUPTED


def _run(args: argparse.Namespace) -> int:
    scenario = Scenario(args.file)._with([_native.parse_setting(text) for text in args.set])
    grid: dict[str, list[Any]] = {}
    for text in args.grid:
        for key, literal in _native.parse_axis(text):
            grid.setdefault(key, []).append(_toml.value(literal))
    seeds = scenario.seeds if args.seeds is None else args.seeds
    result = sweep(
        scenario,
        grid,
        seeds,
        out=args.out,
        client=args.scheduler or args.workers,
        arms=args.arm.split(",") if args.arm else None,
        tables=args.table,
        retries=args.retries,
    )
    failures(result)
    print(
        f"{result.finished} runs finished, {result.finished_before} were finished before, "
        f"{result.failed} failed: {args.out}"
    )
    return 1 if result.failed else 0


def failures(result: Sweep) -> None:
    """Prints each failed run with the command that repeats it."""
    for failure in result.failures:
        print(f"{failure.error}\n    {failure.command}", file=sys.stderr)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where runs are done."""
    parser.add_argument("--workers", type=int, metavar="N", help="processes [default: the cores]")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler instead")
    parser.add_argument(
        "--retries", type=int, default=2, metavar="N", help="tries after a failure [default: 2]"
    )


def _seeds(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    if dash:
        return list(range(int(first), int(last) + 1))
    return [int(seed) for seed in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m forebay.sweep",
        description="Run a scenario at every point of a grid, on Dask.",
        epilog="Exit status: 0; 1 if a run failed; 2 if the scenario or the grid is wrong; "
        "130 if interrupted. The same command goes on with a sweep that was interrupted.",
    )
    parser.add_argument("file", metavar="FILE", help="the scenario file, in TOML")
    parser.add_argument("--out", metavar="DIR", required=True, help="the directory of the dataset")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="set a key of the scenario"
    )
    parser.add_argument(
        "--grid",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="run with each of these values; with several axes, with every combination",
    )
    parser.add_argument(
        "--seeds",
        type=_seeds,
        metavar="SEEDS",
        help="such as 1-10 or 1,2,5 [default: those of the file]",
    )
    parser.add_argument("--arm", metavar="ARM,...", help="run only these arms")
    parser.add_argument(
        "--table",
        choices=TABLES,
        action="append",
        default=[],
        help="keep this table of every run too",
    )
    add_workers(parser)
    return parser
