"""Measures sweeps: `python python/bench/sweeps.py faults|speed|memory`.

`faults`  2000 short runs on four worker processes, of which two are killed with SIGKILL while one
          is added; the dataset is compared with that of one worker.
`speed`   the time of the same runs on one worker and on two, in pairs.
`memory`  the client's memory with a grid of 100 000 points, of which the first 1000 are run.
"""

from __future__ import annotations

import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distributed import Client, LocalCluster

import forebay

SHORT = forebay.Scenario(
    {
        "name": "short",
        "duration": "300 ms",
        "path": {"rate": "12 Mbit/s", "rtt": "20 ms", "queue": {"kind": "fifo", "limit": "1 bdp"}},
        "traffic": [{"name": "bulk", "kind": "bulk", "flows": 1, "congestion": "cubic"}],
        "arm": [
            {"name": "today", "sendbox": "forward"},
            {"name": "boxed", "sendbox": {"policy": "sfq", "limit": "500 packets"}},
        ],
    }
)


def worker(address: str) -> subprocess.Popen[bytes]:
    """Starts a worker process that nobody restarts."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def files(out: Path) -> dict[str, bytes]:
    """The content of all files of a dataset by their names."""
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


def faults(root: Path) -> None:
    """Kills workers during a sweep and compares its dataset."""
    grid = {
        "path.rate": [f"{rate} Mbit/s" for rate in range(3, 23)],
        "traffic.bulk.flows": [1, 2, 3, 4, 5],
    }
    seeds = range(1, 11)
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, Client(cluster) as client:
        workers = [worker(cluster.scheduler_address) for _ in range(4)]
        client.wait_for_workers(4)
        acts = [
            (400, lambda: workers[0].send_signal(signal.SIGKILL)),
            (800, lambda: workers.append(worker(cluster.scheduler_address))),
            (1200, lambda: workers[1].send_signal(signal.SIGKILL)),
        ]

        def act(progress: forebay.Progress) -> None:
            if acts and progress.done >= acts[0][0]:
                acts.pop(0)[1]()

        start = time.monotonic()
        done = forebay.sweep(SHORT, grid, seeds, out=root / "four", client=client, progress=act)
        elapsed = time.monotonic() - start
        alive = len(client.scheduler_info()["workers"])
        codes = [process.poll() for process in workers]
        for process in workers:
            process.kill()
            process.wait()
    forebay.sweep(SHORT, grid, seeds, out=root / "one", client=1, progress=False)
    frame = done.to_pandas()
    twice = frame.duplicated(["path.rate", "traffic.bulk.flows", "arm", "seed"]).sum()
    same = files(root / "four") == files(root / "one")
    print(f"runs {done.finished} of {done.total}, failed {done.failed}, in {elapsed:.0f} s")
    print(f"exit codes of the workers at the end {codes}, {alive} alive")
    print(f"rows {len(frame)}, of them twice {twice}")
    print(f"byte-identical to the dataset of one worker: {same}")


def speed(root: Path, pairs: int = 3, runs: int = 48) -> None:
    """Compares the time on two workers with that on one."""
    scenario = SHORT.with_(**{"duration": "20 s", "path.rate": "96 Mbit/s"})
    ratios = []
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0") as one:
        with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as two:
            for pair in range(-1, pairs):
                times = []
                for workers, client in ((1, one), (2, two)):
                    out = root / f"{pair}-{workers}"
                    # The first pair only loads the package on the workers.
                    seeds = range(1, 1 + (2 if pair < 0 else runs))
                    start = time.monotonic()
                    forebay.sweep(
                        scenario, {}, seeds, arms=["boxed"], out=out, client=client, progress=False
                    )
                    times.append(time.monotonic() - start)
                if pair >= 0:
                    ratios.append(times[0] / times[1])
                    print(f"{runs} runs: one worker {times[0]:.2f} s, two {times[1]:.2f} s")
    print(f"two workers do {statistics.median(ratios):.2f} times as much as one (median)")


def memory(root: Path) -> None:
    """Measures the memory of the client, which is also the scheduler here."""

    class Enough(Exception):
        pass

    def stop(progress: forebay.Progress) -> None:
        if progress.done >= 1000:
            raise Enough

    grid = {
        "path.rate": [f"{rate} Mbit/s" for rate in range(3, 103)],
        "path.rtt": [f"{rtt} ms" for rtt in range(10, 110)],
        "traffic.bulk.flows": range(1, 11),
    }
    start = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    try:
        forebay.sweep(SHORT, grid, out=root / "out", arms=["boxed"], client=2, progress=stop)
    except Enough:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    elapsed = time.monotonic() - start
    print(f"100 000 points checked and 1000 run in {elapsed:.0f} s")
    print(f"memory of the client {before:.0f} MiB before, at most {peak:.0f} MiB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        {"faults": faults, "speed": speed, "memory": memory}[sys.argv[1]](Path(directory))
