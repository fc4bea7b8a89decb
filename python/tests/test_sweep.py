"""Sweeps on real workers: what ends in the dataset, whatever happens to workers and client."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

import forebay
from forebay._dataset import Dataset

GRID = {"path.rate": ["12 Mbit/s", "24 Mbit/s"], "traffic.bulk.flows": [1, 2, 3]}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two worker processes."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def files(out: Path) -> dict[str, bytes]:
    """The content of all files of a dataset, without the list of failures."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "failed.jsonl"
    }


def test_a_sweep_is_the_same_on_any_number_of_workers(
    scenario: forebay.Scenario, client: Client, tmp_path: Path
) -> None:
    told: list[forebay.Progress] = []
    # Both clients are open, and the one that is used first is not the one that was made last.
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as one:
        two = forebay.sweep(
            scenario,
            GRID,
            [1, 2],
            out=tmp_path / "two",
            client=client,
            tables=["queues"],
            progress=told.append,
        )
        forebay.sweep(
            scenario,
            GRID,
            [1, 2],
            out=tmp_path / "one",
            client=one,
            tables=["queues"],
            progress=False,
        )
    assert (two.total, two.finished, two.failed) == (24, 24, 0)
    assert told[-1].done == told[-1].total == 24
    assert files(tmp_path / "one") == files(tmp_path / "two")
    frame = two.to_pandas()
    assert len(frame) == 24
    keys = ["path.rate", "traffic.bulk.flows", "arm", "seed"]
    assert not frame.duplicated(keys).any()
    alone = forebay.run(
        scenario.with_(**{"path.rate": "24 Mbit/s", "traffic.bulk.flows": 3}),
        seed=2,
        arms=["boxed"],
    )
    row = frame[
        (frame["path.rate"] == "24 Mbit/s")
        & (frame["traffic.bulk.flows"] == 3)
        & (frame.arm == "boxed")
        & (frame.seed == 2)
    ].iloc[0]
    assert json.loads(row.summary) == alone.summaries[0]
    assert row["goodput_mbps.bulk"] == alone.summaries[0]["goodput_by_traffic_mbps"]["bulk"]
    queues = two.to_pandas("queues")
    assert (
        len(queues)
        == sum(
            len(forebay.run(scenario.with_(**{"path.rate": rate}), arms=[arm]).queues)
            for rate in GRID["path.rate"]
            for arm in scenario.arms
        )
        * 6
    )


def test_a_sweep_goes_on_where_it_was_interrupted(
    scenario: forebay.Scenario, client: Client, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def stop(progress: forebay.Progress) -> None:
        if progress.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forebay.sweep(scenario, GRID, out=out, client=client, progress=stop)
    done = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    assert len(done) == 5
    damaged = next(iter(done))
    damaged.write_bytes(damaged.read_bytes()[:-10])
    (out / "runs" / "arm=today" / ".half.parquet").write_bytes(b"half")
    rest = forebay.sweep(scenario, GRID, out=out, client=client, progress=False)
    assert (rest.finished_before, rest.finished, rest.total) == (4, 8, 12)
    kept = {path for path in done if path.stat().st_mtime_ns == done[path]}
    assert kept == done.keys() - {damaged}, "no finished run is repeated"
    forebay.sweep(scenario, GRID, out=tmp_path / "whole", client=client, progress=False)
    assert files(out) == files(tmp_path / "whole")
    again = forebay.sweep(scenario, GRID, out=out, client=client, progress=False)
    assert (again.finished_before, again.finished) == (12, 0)


def test_killed_workers_lose_no_run(scenario: forebay.Scenario, tmp_path: Path) -> None:
    seeds = range(1, 31)
    killed: list[int] = []
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):

        def kill(progress: forebay.Progress) -> None:
            if progress.done >= 5 and not killed:
                workers = client.run(os.getpid)
                killed.append(next(iter(workers.values())))
                os.kill(killed[0], signal.SIGKILL)

        result = forebay.sweep(
            scenario, {}, seeds, out=tmp_path / "a", client=client, progress=kill
        )
    assert killed and (result.finished, result.failed) == (60, 0)
    frame = result.to_pandas()
    assert len(frame) == 60 and not frame.duplicated(["arm", "seed"]).any()
    forebay.sweep(scenario, {}, seeds, out=tmp_path / "b", client=1, progress=False)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_failed_run_is_listed_with_its_command_and_the_rest_goes_on(
    scenario: forebay.Scenario, client: Client, tmp_path: Path
) -> None:
    # The simulator has no cake, which the check of the scenario does not know.
    grid = {"arm.boxed.sendbox.policy": ["sfq", "cake"]}
    out = tmp_path / "out"
    result = forebay.sweep(
        scenario.set("ecn", True), grid, [1, 2], out=out, client=client, progress=False, retries=1
    )
    assert (result.finished, result.failed) == (6, 2), "only the boxed arm has the policy"
    failure = result.failures[0]
    assert failure.point == {"arm.boxed.sendbox.policy": "cake"}
    assert "only Linux has the policy" in failure.error
    assert shlex.split(failure.command) == [
        *["forebay", "lab", "run", scenario.file, "--engine", "sim", "--arm", failure.arm],
        *["--set", "ecn=true", "--set", 'arm.boxed.sendbox.policy="cake"'],
        *["--set", f"seeds=[{failure.seed}]"],
    ]
    lines = [json.loads(line) for line in (out / "failed.jsonl").read_text().splitlines()]
    assert {line["command"] for line in lines} == {f.command for f in result.failures}
    assert len(result.to_pandas()) == 6


def test_a_directory_keeps_one_sweep(
    scenario: forebay.Scenario, client: Client, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    forebay.sweep(scenario, {}, out=out, client=client, progress=False)
    with pytest.raises(forebay.SweepError, match="differs in seeds"):
        forebay.sweep(scenario, {}, [1, 2], out=out, client=client, progress=False)
    with pytest.raises(forebay.SweepError, match="differs in scenario"):
        forebay.sweep(scenario.set("ecn", True), {}, out=out, client=client, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(forebay.SweepError, match="has other files"):
        forebay.sweep(scenario, {}, out=tmp_path / "other", client=client, progress=False)
    with pytest.raises(ValueError, match="there is no table 'x'"):
        forebay.sweep(scenario, {}, out=out, client=client, tables=["x"])
    with pytest.raises(KeyError, match="the sweep has no table"):
        Dataset(out, ()).read("queues")


def test_nothing_is_made_for_a_wrong_grid(
    scenario: forebay.Scenario, client: Client, tmp_path: Path
) -> None:
    with pytest.raises(forebay.GridError):
        forebay.sweep(scenario, {"path.rat": [1]}, out=tmp_path / "out", client=client)
    assert not (tmp_path / "out").exists()
