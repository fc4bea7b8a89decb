"""Writes tables of a results page from the Parquet datasets of sweeps.

    python python/bench/pages.py docs/results/python.md l4s=OUT multipath=OUT [--check]

Each NAME=OUT makes the part NAME of the page, between `<!-- NAME -->` and `<!-- end of NAME -->`,
from the dataset OUT that `python python/bench/NAME.py OUT` made. A part says which command made it
and what is in the dataset. With `--check` nothing is written, and the exit status is 1 if the page
has something else. A dataset that is not complete is refused.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import textwrap
from pathlib import Path

import pandas
import pyarrow.dataset

#: The parts, each with the module beside this file that reads its dataset.
PARTS = ("l4s", "multipath")


def runs(out: Path) -> pandas.DataFrame:
    """Reads the finished runs of a sweep."""
    dataset = pyarrow.dataset.dataset(out / "runs", format="parquet", partitioning="hive")
    columns = [name for name in dataset.schema.names if name != "summary"]
    frame: pandas.DataFrame = dataset.to_table(columns=columns).to_pandas()
    return frame


def markdown(frame: pandas.DataFrame, corner: str) -> str:
    """Returns a frame of texts as a table, whose first column is the index."""
    head = [corner, *map(str, frame.columns)]
    rows = [[str(index), *row] for index, row in zip(frame.index, frame.to_numpy(), strict=True)]
    first, *rest = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([first, "|" + "---|" * len(head), *rest]).replace("|  |", "| |")


def origin(name: str, out: Path) -> str:
    """Says which command made the part, and from which runs; raises if any is missing."""
    sweep = json.loads((out / "sweep.json").read_text())
    expected = len(sweep["seeds"]) * len(sweep["arms"])
    for axis in sweep["grid"]:
        expected *= len(axis["values"])
    finished = len(runs(out))
    if finished != expected:
        raise SystemExit(f"{out} has {finished} of {expected} runs: let the sweep go on")
    seeds = ", ".join(map(str, sweep["seeds"]))
    text = (
        f"Made by `python python/bench/pages.py PAGE {name}=OUT` from the {finished} rows of the "
        f"dataset `OUT/runs`, with seed {seeds} and version {sweep['forebay']}."
    )
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def part(name: str, out: Path) -> str:
    """Makes a part of a page."""
    return f"{origin(name, out)}\n\n{importlib.import_module(name).page(out)}"


def replaced(page: str, name: str, text: str) -> str:
    """Returns the page with another text in one of its parts."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise SystemExit(f"the page needs one line {begin} and a line {end} after it")
    return pattern.sub(lambda _: f"{begin}\n\n{text}\n\n{end}", page)


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    page_file, *wanted = [word for word in arguments if word != "--check"]
    file = Path(page_file)
    page = before = file.read_text()
    for word in wanted:
        name, equals, out = word.partition("=")
        if not equals or name not in PARTS:
            raise SystemExit(f"{word}: give NAME=OUT, with a NAME of {', '.join(PARTS)}")
        page = replaced(page, name, part(name, Path(out)))
    if check:
        print("the page is that of the datasets" if page == before else "the page differs")
        return int(page != before)
    file.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
