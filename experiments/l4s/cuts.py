#!/usr/bin/env python3
"""How often Prague cuts its window, from a run's record.

    forebay lab run experiments/l4s/one-prague.toml --engine sim --out DIR
    experiments/l4s/cuts.py DIR/dualpi2-40mbit-50ms-1.jsonl

Prague cuts at the first mark that comes once a round trip (25 ms, if that is shorter) has passed since the last cut. A cut
takes half the share of marks, a round trip without one adds a segment: with a cut in every round trip the window is 2 over
that share, and as many times more as a cut is rarer.
"""

import json
import sys

DROPPED, L4S, MARKED = 1, 2, 4
REFERENCE = 25e6


def scalable(path):
    """When each L4S packet left, how long it had waited and whether it was marked; the run's header. Nanoseconds."""
    packets, header = [], None
    for line in open(path, encoding="utf-8"):
        record = json.loads(line)
        header = record.get("run", header)
        now = 0
        for gap, wait, _, _, flags in record.get("bottleneck", []):
            now += gap
            if flags & L4S and not flags & DROPPED and header["start"] <= now < header["end"]:
                packets.append((now, wait, bool(flags & MARKED)))
    return packets, header


def main():
    packets, header = scalable(sys.argv[1])
    time = header["end"] - header["start"]
    round_trip = header["base_rtt"] + sum(wait for _, wait, _ in packets) / len(packets)
    due = max(round_trip, REFERENCE)
    marks = [at for at, _, marked in packets if marked]
    cuts, last = 0, -due
    for at in marks:
        if at >= last + due:
            cuts, last = cuts + 1, at
    share, window = len(marks) / len(packets), len(packets) / time * round_trip
    growth = min(round_trip / REFERENCE, 1)
    rounds = [0] * int(time / due)
    for at in marks:
        slot = int((at - header["start"]) / due)
        if slot < len(rounds):
            rounds[slot] += 1
    print(f"a cut every {time / cuts / due:.2f} times it is due; {rounds.count(0) / len(rounds):.0%} of those times are without a mark")
    print(f"window {window:.1f}, marked {share:.2%}: {window * share / 2 / growth:.2f} times 2 over the marks")


if __name__ == "__main__":
    main()
