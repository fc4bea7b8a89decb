"""Sweeps: many runs of a scenario on Dask, whose results come into a Parquet dataset."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ._dataset import Dataset, Failures
from ._errors import SweepError
from ._plan import Grid, Plan
from ._result import TABLES
from ._worker import Work

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from distributed import Client, Future

    from ._scenario import Scenario

#: The number of failures that a sweep keeps in memory; `failed.jsonl` has all of them.
MAX_FAILURES = 1000


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed each time that it was tried."""

    point: dict[str, Any]
    arm: str
    seed: int
    error: str
    """The error of the last try, in one line."""
    command: str
    """The command that repeats the run."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep has come."""

    done: int
    """The runs that are finished, those of before included."""
    failed: int
    total: int
    seconds_left: float | None
    """The time that the remaining runs take at the rate so far."""

    def __str__(self) -> str:
        share = 100 * (self.done + self.failed) // max(self.total, 1)
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.seconds_left is None else f", {_duration(self.seconds_left)} left"
        return f"{self.done} of {self.total} runs ({share} %){failed}{left}"


@dataclass
class Sweep:
    """A sweep that has ended."""

    dataset: Dataset
    total: int
    """The number of runs."""
    finished_before: int
    """The runs that an earlier sweep had finished, which were not repeated."""
    finished: int
    """The runs that this sweep finished."""
    failed: int
    """The runs that failed."""
    failures: list[Failure] = field(default_factory=list)
    """The failed runs, at most the first 1000."""

    def table(self, name: str = "runs") -> pyarrow.Table:
        """Returns a table of all finished runs; ``runs`` has a row for each."""
        return self.dataset.read(name)

    def to_pandas(self, name: str = "runs") -> pandas.DataFrame:
        """Returns a table of all finished runs as a frame."""
        frame: pandas.DataFrame = self.table(name).to_pandas()
        return frame


def sweep(
    scenario: Scenario,
    grid: Grid,
    seeds: Iterable[int] = (1,),
    *,
    out: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    client: Client | str | int | None = None,
    arms: Iterable[str] | None = None,
    tables: Iterable[str] = (),
    retries: int = 2,
    outstanding: int | None = None,
    progress: bool | Callable[[Progress], object] = True,
) -> Sweep:
    """Runs a scenario at every point of a grid, with every arm and seed.

    ``grid`` has the values of each key, ``{"path.rate": ["24 Mbit/s", "48 Mbit/s"]}``; a tuple of
    keys changes them together: ``{("path.rate", "path.rtt"): [("1 Gbit/s", "10 ms"), ...]}``.

    ``out`` becomes a Parquet dataset: ``runs`` has a file of one row for each run, and each of
    ``tables`` (see ``forebay.TABLES``) a file for each run. Files come as runs finish. If ``out``
    has an earlier part of the same sweep, its finished runs are not repeated. The files are the
    same, byte by byte, whatever the number of workers.

    ``client`` is any client of Dask distributed, whose workers have this package, or the address
    of a scheduler. A number starts a local cluster of so many worker processes; without one, it
    has a worker for each core. A run that fails is tried ``retries`` times more. Then it is listed
    with its error and its command, here and in ``failed.jsonl``, and the other runs go on. At most
    ``outstanding`` runs are with the scheduler at a time; by default four for each thread of the
    workers.

    All errors of the scenario and its grid come at once before the first run, as a
    :class:`forebay.GridError`.
    """
    report = reporter(progress)
    wanted = tuple(tables)
    unknown = [name for name in wanted if name not in TABLES]
    if unknown:
        raise ValueError(f"there is no table {unknown[0]!r}: give some of {', '.join(TABLES)}")
    plan = Plan(scenario, grid, seeds, arms)
    dataset = Dataset(out, wanted)
    dataset.open(plan.description(wanted), {"scenario.toml": scenario.text})
    file, text, settings = scenario._parts
    work = Work(file, text, settings, plan.columns(), plan.traffics, wanted)
    with cluster(client) as used:
        return Execution(plan, work, dataset, used, retries, outstanding, report).all()


def cluster(client: Client | str | int | None) -> AbstractContextManager[Client]:
    """Returns a client of Dask: the one that is given, or one that is closed at the end."""
    try:
        from distributed import Client as New
    except ImportError:
        raise SweepError(
            "a sweep needs Dask: install it with `pip install 'forebay[sweep]'`"
        ) from None
    if isinstance(client, str):
        return New(client)
    if client is None or isinstance(client, int):
        return New(n_workers=client, processes=True, threads_per_worker=1, dashboard_address=":0")
    return nullcontext(client)


class Task(Protocol):
    """A run that is to be done. Its file in the dataset is `name`, in the directory of `arm`."""

    @property
    def name(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def point(self) -> dict[str, Any]: ...


class Tasks(Protocol):
    """All runs of a sweep, each made when it is asked for."""

    @property
    def arms(self) -> tuple[str, ...]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def command(self, task: Any, out: Path) -> str:
        """Returns the command that repeats a run of the dataset in `out`."""
        ...


class Execution:
    """A sweep that is running: ``work`` does a task, and returns its tables as Parquet files."""

    def __init__(
        self,
        plan: Tasks,
        work: Callable[[Any], dict[str, bytes]],
        dataset: Dataset,
        client: Client,
        retries: int,
        outstanding: int | None,
        report: Callable[[Progress], object],
    ) -> None:
        self.plan, self.work, self.dataset, self.client = plan, work, dataset, client
        self.retries, self.outstanding, self.report = retries, outstanding, report
        self.failures = Failures(dataset.out)
        self.listed: list[Failure] = []
        self.before = self.done = 0
        #: The runs that are with the scheduler: the task, and how often it was tried before.
        self.open: dict[Any, tuple[Task, int]] = {}
        self.limit, self.asked = 0, 0.0

    def all(self) -> Sweep:
        from distributed import as_completed

        waiting = self._missing()
        # By default it would use the loop of the client that was made last.
        loop = self.client.loop
        completed = as_completed(loop=loop, with_results=True, raise_errors=False)
        start = time.monotonic()
        self._fill(waiting, completed)
        try:
            for future, result in completed:
                self._ended(future, result, completed)
                self._fill(waiting, completed)
                self._tell(time.monotonic() - start)
        except BaseException:
            self.client.cancel(list(completed.futures))
            raise
        self._tell(time.monotonic() - start)
        failed = self.failures.count
        return Sweep(self.dataset, len(self.plan), self.before, self.done, failed, self.listed)

    def _missing(self) -> Iterator[Task]:
        finished = {arm: self.dataset.finished(arm) for arm in self.plan.arms}
        for task in self.plan:
            if task.name in finished[task.arm]:
                self.before += 1
            else:
                yield task

    def _fill(self, waiting: Iterator[Task], completed: Any) -> None:
        """Gives runs to the scheduler, up to the limit."""
        now = time.monotonic()
        # Workers come and go, so their number is asked for again.
        if now - self.asked > 1.0:
            self.asked = now
            threads = sum(self.client.nthreads().values())
            self.limit = self.outstanding or max(8, 4 * threads)
        while len(self.open) < self.limit:
            task = next(waiting, None)
            if task is None:
                return
            self._submit(task, 0, completed)

    def _submit(self, task: Task, tried: int, completed: Any) -> None:
        future = self.client.submit(self.work, task, pure=False)
        self.open[future.key] = (task, tried)
        completed.add(future)

    def _ended(self, future: Future, result: Any, completed: Any) -> None:
        task, tried = self.open.pop(future.key)
        if future.status == "finished":
            self.dataset.add(task, result)
            self.done += 1
        elif tried < self.retries:
            self._submit(task, tried + 1, completed)
        else:
            self._failed(task, result)

    def _failed(self, task: Task, result: Any) -> None:
        # Dask gives the type, the exception and its traceback, or only an exception.
        error = result[1] if isinstance(result, tuple) else result
        text = str(error).replace("\n", "; ") or type(error).__name__
        command = self.plan.command(task, self.dataset.out)
        failure = Failure(task.point, task.arm, task.seed, text, command)
        self.failures.add(
            {
                "point": task.point,
                "arm": task.arm,
                "seed": task.seed,
                "error": text,
                "command": command,
            }
        )
        if len(self.listed) < MAX_FAILURES:
            self.listed.append(failure)

    def _tell(self, elapsed: float) -> None:
        ended = self.done + self.failures.count
        remaining = len(self.plan) - self.before - ended
        left = elapsed / ended * remaining if ended else None
        self.report(Progress(self.before + self.done, self.failures.count, len(self.plan), left))


def reporter(progress: bool | Callable[[Progress], object]) -> Callable[[Progress], object]:
    if callable(progress):
        return progress
    if not progress:
        return lambda _: None
    return _Printer()


class _Printer:
    """Prints progress to standard error: once a second on a terminal, else once a minute."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.last = 0.0

    def __call__(self, progress: Progress) -> None:
        now, ended = time.monotonic(), progress.done + progress.failed == progress.total
        if now - self.last < (1.0 if self.terminal else 60.0) and not ended:
            return
        self.last = now
        end = "\n" if ended or not self.terminal else ""
        print(
            f"\r{progress}    " if self.terminal else progress, end=end, file=sys.stderr, flush=True
        )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
