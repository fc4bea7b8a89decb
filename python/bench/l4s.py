"""A grid of the L4S paper by a sweep: `python python/bench/l4s.py OUT`.

25 links, 4 to 200 Mbit/s and 5 to 100 ms, each with 24 mixes of 1 to 10 DCTCP and Cubic flows over
DualPI2, as in `experiments/l4s/fig5.toml`. The paper's runs last 250 s; these have 5 s of warm-up
and 10 s measured. The figures are read from the dataset in OUT. A sweep that was interrupted goes
on.
"""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pages
import pandas

import forebay

FILE = Path(__file__).parent.parent.parent / "experiments" / "l4s" / "fig5.toml"
FLOWS = ("traffic.l4s.flows", "traffic.classic.flows")
GRID: dict[Any, Any] = {
    "path.rate": [f"{rate} Mbit/s" for rate in (4, 12, 40, 120, 200)],
    "path.rtt": [f"{rtt} ms" for rtt in (5, 10, 20, 50, 100)],
    FLOWS: [(l4s, classic) for l4s in (1, 2, 5, 10) for classic in (1, 2, 3, 4, 5, 10)],
}


def sweep(out: Path) -> forebay.Sweep:
    """Runs what is missing of the grid."""
    text = tomllib.loads(FILE.read_text())
    # The axes belong to the sweep.
    del text["grid"]
    scenario = forebay.Scenario({**text, "warmup": "5 s", "duration": "10 s"})
    return forebay.sweep(scenario, GRID, [1], out=out)


def runs(out: Path) -> pandas.DataFrame:
    """Reads the runs, and adds the ratio of the rates of flows and the use of the link."""
    frame = pages.runs(out)
    l4s = frame["goodput_mbps.l4s"] / frame["traffic.l4s.flows"]
    classic = frame["goodput_mbps.classic"] / frame["traffic.classic.flows"]
    return frame.assign(
        # In the order of the grid, not of the alphabet.
        rtt=frame["path.rtt"].str.removesuffix(" ms").astype(int),
        ratio=l4s / classic,
        use=100 * (frame["goodput_mbps.l4s"] + frame["goodput_mbps.classic"]) / frame.rate_mbps,
    )


def page(out: Path) -> str:
    """Returns the table of the results page: the ratio of rates, by link."""
    frame = runs(out)
    table = frame.pivot_table("ratio", "rate_mbps", "rtt", "median").map("{:.2f}".format)
    table.index = [f"{rate:.0f} Mbit/s" for rate in table.index]
    table.columns = [f"{rtt} ms" for rtt in table.columns]
    return pages.markdown(table, "")


def main(out: Path) -> None:
    start = time.monotonic()
    done = sweep(out)
    took = time.monotonic() - start
    print(f"{done.finished} of {done.total} runs in {took:.0f} s, {done.failed} failed")
    frame = runs(out)
    for what, column in (
        ("rate of a DCTCP flow over that of a Cubic flow", "ratio"),
        ("goodput, % of the link", "use"),
        ("99th percentile of all waits, ms", "bottleneck_queue_ms.p99"),
    ):
        print(f"{what}: median of 24 mixes, by Mbit/s and ms")
        print(frame.pivot_table(column, "rate_mbps", "rtt", "median").round(2).to_string())
    print(f"ratio from 0.5 to 2 in {100 * frame.ratio.between(0.5, 2).mean():.1f} % of the cells")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
