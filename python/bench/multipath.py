"""Bundler's grid of rates, round trips and ways by a sweep: `python python/bench/multipath.py OUT`.

It runs `experiments/bundler/multipath.toml` at each of its points with one seed, in OUT, and prints
the share of measurements out of order, which it reads from the dataset. A sweep that was
interrupted goes on. `forebay lab reproduce bundler --only multipath` computes the same figures.
"""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path

import pages
import pandas
import pyarrow.dataset

import forebay

FILE = Path(__file__).parent.parent.parent / "experiments" / "bundler" / "multipath.toml"


def sweep(out: Path) -> forebay.Sweep:
    """Runs what is missing of the grid."""
    text = tomllib.loads(FILE.read_text())
    # The axes belong to the sweep.
    own = text.pop("grid")
    grid = {f"path.{axis}": values for axis, values in own.items()}
    return forebay.sweep(forebay.Scenario(text), grid, [1], out=out, tables=["ticks"])


def out_of_order(out: Path) -> pandas.DataFrame:
    """Returns the share of measurements out of order at each point, in per cent."""
    keys = ["path.rate", "path.rtt", "path.ways"]
    dataset = pyarrow.dataset.dataset(out / "ticks", partitioning="hive")
    columns = [*keys, "time_s", "accepted", "out_of_order"]
    # After the warm-up.
    ticks = dataset.to_table(columns=columns, filter=pyarrow.dataset.field("time_s") >= 5)
    counts = ticks.to_pandas().sort_values("time_s").groupby(keys, observed=True)
    feedback = counts[["accepted", "out_of_order"]]
    grown = feedback.last() - feedback.first()
    share = 100 * grown.out_of_order / (grown.accepted + grown.out_of_order)
    return share.rename("out_of_order").reset_index()


def page(out: Path) -> str:
    """Returns the table of the results page: the shares by the number of ways."""
    table = out_of_order(out).groupby("path.ways").out_of_order.agg(["min", "mean", "max"])
    table.columns = ["lowest", "mean", "highest"]
    return pages.markdown(table.map("{:.2f} %".format), "ways")


def main(out: Path) -> None:
    start = time.monotonic()
    done = sweep(out)
    took = time.monotonic() - start
    print(f"{done.finished} of {done.total} runs in {took:.0f} s, {done.failed} failed")
    frame = out_of_order(out)
    table = frame.groupby("path.ways").out_of_order.agg(["min", "mean", "max"])
    print(table.round(2).to_string())
    many = frame[frame["path.ways"] > 1].out_of_order
    one = frame[frame["path.ways"] == 1].out_of_order
    print(f"one way, the highest: {one.max():.2f} %")
    print(f"2 to 32 ways, the lowest and the mean: {many.min():.2f} %, {many.mean():.1f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
