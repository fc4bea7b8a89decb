"""Prints a table of the runs of both simulators; the argument is a file with one JSON line a run."""

import json
import statistics
import sys

with open(sys.argv[1], encoding="utf-8") as lines:
    runs = [json.loads(line) for line in lines]
theirs = [run for run in runs if run["simulator"] == "ns-3"]
ours = [run for run in runs if run["simulator"] == "forebay"]

ROWS = [
    ("wall time, s", "wall_s", 3),
    ("processor time, s", "cpu_s", 3),
    ("goodput, Mbit/s", "goodput_mbps", 2),
    ("mean queue delay, ms", "mean_wait_ms", 2),
    ("packets through the queue", "packets", 0),
    ("packets dropped", "drops", 0),
    ("events", "events", 0),
]


def median(of, key):
    return statistics.median(run[key] for run in of)


print(
    f"{ours[0]['seconds']} simulated seconds; medians of {len(ours)} runs of forebay "
    f"and {len(theirs)} of ns-3 in turn\n"
)
print("| | ns-3 | forebay |")
print("|---|---:|---:|")
for name, key, digits in ROWS:
    print(f"| {name} | {median(theirs, key):.{digits}f} | {median(ours, key):.{digits}f} |")
for name, key in [("wall", "wall_s"), ("processor", "cpu_s")]:
    ratio = median(theirs, key) / median(ours, key)
    # Each run of ns-3 stands between two of ours.
    each = [
        run[key] / statistics.mean(mine[key] for mine in ours[2 * n : 2 * n + 2])
        for n, run in enumerate(theirs)
    ]
    print(
        f"\nBy {name} time ns-3 takes {ratio:.1f} times as long "
        f"({min(each):.1f} to {max(each):.1f} in single turns)."
    )
