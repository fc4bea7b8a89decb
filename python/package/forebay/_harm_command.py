"""The command line of the harm map on Dask: ``python -m forebay.harm --cells 230 --out DIR``."""

from __future__ import annotations

import argparse
import sys

from ._errors import GridError, SweepError
from ._harm import harm
from ._sweep_command import INTERRUPTED, add_workers, failures


def main(arguments: list[str] | None = None) -> int:
    """Makes a map that is described on a command line, and returns the exit status."""
    args = _parser().parse_args(arguments)
    try:
        result = harm(
            args.cells,
            out=args.out,
            seed=args.seed,
            seeds=args.seeds,
            confirm=args.confirm,
            families=args.family.split(",") if args.family else (),
            guard=not args.without_guard,
            client=args.scheduler or args.workers,
            retries=args.retries,
        )
    except (GridError, SweepError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted: the same command goes on with {args.out}", file=sys.stderr)
        return INTERRUPTED
    failures(result)
    worse = sum(result.table().column("worse").to_pylist())
    print(f"{worse} of {result.total} paths are worse with Forebay than without a box: {args.out}")
    return 1 if result.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m forebay.harm",
        description="Judge on paths drawn at random whether a box is worse than none, on Dask.",
        epilog="Exit status: 0; 1 if a path failed; 2 if an option is wrong; 130 if interrupted. "
        "The same command goes on with a map that was interrupted.",
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="the directory of the dataset")
    for name, default, text in (
        ("--cells", 230, "paths"),
        ("--seed", 1, "the seed that paths are drawn with"),
        ("--seeds", 3, "seeds of each path"),
        ("--confirm", 9, "further seeds of a path that looks worse"),
    ):
        text = f"{text} [default: {default}]"
        parser.add_argument(name, type=int, default=default, metavar="N", help=text)
    parser.add_argument("--family", metavar="FAMILY,...", help="only paths of these families")
    parser.add_argument("--without-guard", action="store_true", help="with `guard = false`")
    add_workers(parser)
    return parser
