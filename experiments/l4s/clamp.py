#!/usr/bin/env python3
"""What DualPI2's base probability loses by being clamped at zero, from a run's record.

    forebay lab run experiments/l4s/one.toml --engine sim --out DIR
    experiments/l4s/clamp.py DIR/dualpi2-120mbit-20ms-1.jsonl

Replays the classic queue's delay through the controller with the parameters of the paper's Table 1. Whatever a
clamped update loses is error that is never made up for: its mean over alpha is what the mean delay falls
short of the target.
"""

import bisect
import json
import sys

TARGET, UPDATE, ALPHA, BETA = 0.015, 0.016, 5 / 16, 50 / 16
DROPPED, L4S = 1, 2


def classic(path):
    """When each classic packet left and how long it had waited, in seconds; from when to when is measured."""
    left, waits, measured = [], [], None
    for line in open(path, encoding="utf-8"):
        record = json.loads(line)
        if "run" in record:
            measured = record["run"]["start"] / 1e9, record["run"]["end"] / 1e9
        now = 0
        for gap, wait, _, _, flags in record.get("bottleneck", []):
            now += gap
            if not flags & (DROPPED | L4S):
                left.append(now / 1e9)
                waits.append(wait / 1e9)
    return left, waits, measured


def replay(left, waits, measured):
    """The head's delays at the updates that are measured, and what each lost at zero."""
    base, before, delays, losses = 0.0, 0.0, [], []
    for n in range(1, int(measured[1] / UPDATE)):
        now = n * UPDATE
        head = bisect.bisect_right(left, now)
        delay = max(0.0, now - (left[head] - waits[head])) if head < len(left) else 0.0
        wanted = base + ALPHA * (delay - TARGET) + BETA * (delay - before)
        base, before = min(max(wanted, 0.0), 1.0), delay
        if now >= measured[0]:
            delays.append(delay)
            losses.append(max(0.0, -wanted))
    return delays, losses


def main():
    delays, losses = replay(*classic(sys.argv[1]))
    count = len(losses)
    clamped = sum(1 for loss in losses if loss > 0) / count
    missing = sum(losses) / count / ALPHA
    print(f"{clamped:.1%} of {count} updates are clamped at zero, which takes {missing * 1e3:.2f} ms from the")
    print(f"mean: {(TARGET - missing) * 1e3:.2f} ms of {TARGET * 1e3:.0f} are left; it is {sum(delays) / count * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
