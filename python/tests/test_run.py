"""Runs: their tables, progress, Ctrl-C, and other threads meanwhile."""

from __future__ import annotations

import _thread
import os
import pickle
import threading
import time
from pathlib import Path

import pandas
import pyarrow
import pytest

import forebay


def test_tables_agree_with_the_summary(scenario: forebay.Scenario) -> None:
    result = forebay.run(scenario, seed=3)
    assert [s["arm"] for s in result.summaries] == ["today", "boxed"]
    assert {s["seed"] for s in result.summaries} == {3}
    flows = result.flows.to_pandas().groupby("arm").bytes.sum()
    requests = result.requests.to_pandas()
    packets = result.packets.to_pandas()
    hops = result.hops.to_pandas()
    for summary in result.summaries:
        arm, seconds = summary["arm"], summary["duration_s"]
        assert flows[arm] * 8e-6 / seconds == pytest.approx(summary["goodput_mbps"], abs=1e-3)
        own = requests[(requests.arm == arm) & requests.measured]
        assert len(own) == summary["requests"]["offered"] > 0
        assert own.end_s.notna().sum() == summary["requests"]["completed"]
        nearest_rank = own.slowdown.sort_values().iloc[(len(own) + 1) // 2 - 1]
        assert nearest_rank == pytest.approx(summary["slowdown"]["all"]["p50"], abs=1e-4)
        link = packets[(packets.arm == arm) & (packets.hop == "link") & ~packets.dropped]
        assert len(link) == summary["bottleneck_queue_ms"]["packets"]
        assert link.delay_ms.mean() == pytest.approx(
            summary["bottleneck_queue_ms"]["mean"], abs=1e-3
        )
        assert set(link.traffic.dropna()) == {"web", "bulk"}
        assert hops[hops.arm == arm].dropped.sum() == sum(
            h["policy_drops"] for h in summary["hops"]
        )
    ticks = result.ticks.to_pandas()
    assert set(ticks.arm) == {"boxed"}, "only a box has a control loop"
    assert ticks.accepted.is_monotonic_increasing and ticks.accepted.iloc[-1] > 10
    assert ticks.out_of_order.iloc[-1] < ticks.accepted.iloc[-1], "one path keeps the order"
    assert len(result.events.to_pandas()) > 0


def test_senders_show_windows_and_round_trips(scenario: forebay.Scenario) -> None:
    fixed = {"traffic.bulk.congestion": "fixed", "traffic.bulk.window": 7, "duration": "2 s"}
    senders = forebay.run(scenario.with_(**fixed), arms=["today"]).senders.to_pandas()
    late = senders[senders.time_s > 1]
    assert len(late) == 10 and set(late.traffic) == {"bulk"} and set(late.flow) == {0}
    assert set(late.window_packets) == {7} and late.in_flight_packets.max() == 7
    # Seven packets in a round trip of 20 ms are less than the path's rate.
    assert late.rtt_ms.between(20, 45).all()


def test_the_same_seed_gives_the_same_records(scenario: forebay.Scenario) -> None:
    first, again, other = (forebay.run(scenario, seed=seed) for seed in (5, 5, 6))
    for name in forebay.TABLES:
        assert first.table(name).to_arrow().equals(again.table(name).to_arrow()), name
    assert not first.packets.to_arrow().equals(other.packets.to_arrow())


def test_tables_are_read_in_place(scenario: forebay.Scenario) -> None:
    table = forebay.run(scenario, arms=["boxed"]).packets
    one, two = table.to_arrow(), pyarrow.table(table)
    addresses = [
        [chunk.buffers()[1].address for chunk in arrow["time_s"].chunks] for arrow in (one, two)
    ]
    assert addresses[0] == addresses[1], "both are views of the same memory"
    assert one.num_rows == len(table) > 0
    assert isinstance(table.to_pandas(), pandas.DataFrame)
    with pytest.raises(KeyError, match="there is no table 'packet'"):
        forebay.run(scenario).table("packet")


def test_arms_can_be_chosen(scenario: forebay.Scenario) -> None:
    assert [s["arm"] for s in forebay.run(scenario, arms=["boxed"]).summaries] == ["boxed"]
    with pytest.raises(ValueError, match="there is no arm `boxd`"):
        forebay.run(scenario, arms=["boxd"])


def test_progress_grows_to_one_and_may_end_the_run(scenario: forebay.Scenario) -> None:
    long = scenario.with_(**{"duration": "60 s", "path.rate": "96 Mbit/s"})
    seen: list[float] = []
    forebay.run(long, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 1.0 and len(seen) > 1

    class Enough(Exception):
        pass

    def stop(done: float) -> None:
        raise Enough

    with pytest.raises(Enough):
        forebay.run(long, progress=stop)


def test_ctrl_c_ends_a_run(scenario: forebay.Scenario) -> None:
    # So long that the test would not end without it.
    long = scenario.with_(**{"duration": "5000 s", "traffic.web.balanced": False})
    pressed = False

    def press(done: float) -> None:
        nonlocal pressed
        if not pressed:
            pressed = True
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        forebay.run(long, progress=press)


def test_other_threads_run_meanwhile(scenario: forebay.Scenario) -> None:
    long = scenario.with_(**{"duration": "60 s", "path.rate": "96 Mbit/s"})
    running, counted = threading.Event(), [0]

    def count() -> None:
        while not running.is_set():
            counted[0] += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    at: list[int] = []
    other.start()
    try:
        forebay.run(long, progress=lambda done: at.append(counted[0]))
    finally:
        running.set()
        other.join()
    # Between two reports the run holds no lock, so the other thread has counted on.
    assert len(at) > 2 and all(a < b for a, b in zip(at[:-1], at[1:-1]))


def test_what_the_simulator_cannot_do_is_a_run_error(scenario: forebay.Scenario) -> None:
    with pytest.raises(forebay.RunError, match="only Linux has the policy"):
        forebay.run(scenario.set("arm.boxed.sendbox.policy", "cake"))


def test_a_result_can_be_pickled(scenario: forebay.Scenario) -> None:
    result = forebay.run(pickle.loads(pickle.dumps(scenario)), seed=2)
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result))))
    assert len(again) == len(result) == 2 and repr(again) == repr(result)
    assert again.summaries == result.summaries
    for name in forebay.TABLES:
        assert again.table(name).to_arrow().equals(result.table(name).to_arrow()), name
    table = pickle.loads(pickle.dumps(result.queues))
    assert table.column_names == result.queues.column_names and len(table) == len(result.queues)
    figures = forebay.run(scenario.set("records", "figures"), arms=["today"])
    again = pickle.loads(pickle.dumps(figures))
    assert again.summaries == figures.summaries
    with pytest.raises(ValueError, match="figures"):
        again.packets  # noqa: B018


def test_paths_may_be_bytes(file: Path) -> None:
    assert forebay.Scenario(os.fsencode(file)) == forebay.Scenario(file)
