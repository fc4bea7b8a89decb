"""Stored runs as Parquet: ``python -m forebay.export PATH... --out DIR``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._result import TABLES, Result, load

if TYPE_CHECKING:
    import pyarrow


def export(
    paths: Iterable[str | bytes | os.PathLike[str]],
    out: str | bytes | os.PathLike[str],
    tables: Iterable[str] = TABLES,
) -> list[Path]:
    """Writes the tables of stored runs as Parquet files ``out/TABLE/RUN.parquet``.

    ``paths`` are directories of ``forebay lab run --out``, with their subdirectories, or single
    files. Every table begins with the columns that tell runs apart: the arm, the seed, the rate and
    round-trip time of the path, and the labels of the cell. Tables without rows are left out. A
    file appears under its name when it is complete. Returns the files.

    Raises ``ValueError`` if a file is damaged or two have one name, and ``OSError`` if a file cannot
    be read or written.
    """
    import pyarrow.parquet as pq

    wanted = list(tables)
    for name in wanted:
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}: give one of {', '.join(TABLES)}")
    written = []
    for name, file in _files([Path(os.fsdecode(path)) for path in paths]).items():
        result = load(file)
        for table in wanted:
            content = _with_run(result, table)
            if content.num_rows == 0:
                continue
            path = Path(os.fsdecode(out)) / table / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{name}.partial")
            pq.write_table(content, partial, compression="zstd")
            partial.replace(path)
            written.append(path)
    return written


def _files(paths: list[Path]) -> dict[str, Path]:
    """The files of stored runs by name. Commas replace the borders of subdirectories, whose names
    readers would take for columns."""
    files: dict[str, Path] = {}
    for path in paths:
        below = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        if not below:
            raise ValueError(
                f"no stored runs (*.jsonl) in {path}; `forebay lab run --out` makes them"
            )
        for file in below:
            parts = file.relative_to(path).parts if path.is_dir() else (file.name,)
            name = ",".join(parts).removesuffix(".jsonl")
            if files.setdefault(name, file) != file:
                raise ValueError(f"{files[name]} and {file} have the same name: export them apart")
    return files


def _with_run(result: Result, name: str) -> pyarrow.Table:
    """The table with the columns that tell runs apart in front."""
    import pyarrow

    table = result.table(name).to_arrow().drop_columns(["cell"])
    [summary] = result.summaries
    values: dict[str, Any] = {
        "seed": pyarrow.scalar(summary["seed"], pyarrow.uint64()),
        "path_rate_mbps": float(summary["rate_mbps"]),
        "path_rtt_ms": float(summary["base_rtt_ms"]),
    }
    for label, value in summary["labels"].items():
        values[label if label not in table.column_names else f"label.{label}"] = value
    for place, (column, value) in enumerate(values.items(), start=1):
        repeated = pyarrow.repeat(value, table.num_rows)
        table = table.add_column(place, column, repeated)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Exports what a command line names, and returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m forebay.export",
        description="Write stored runs of any engine as Parquet: DIR/TABLE/RUN.parquet.",
        epilog="Exit status: 0; 2 if a run cannot be read or a file cannot be written.",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a directory that `forebay lab run --out` wrote, or one of its files",
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="the directory of the tables")
    parser.add_argument(
        "--table", choices=TABLES, action="append", help="write only this table; several times"
    )
    args = parser.parse_args(arguments)
    try:
        written = export(args.paths, args.out, args.table or TABLES)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(written)} files: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
