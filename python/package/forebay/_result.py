"""Runs in this process, and their records as tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from ._scenario import Scenario

#: The names of the tables of a result.
TABLES = (
    "requests",
    "flows",
    "senders",
    "round_trips",
    "queues",
    "ticks",
    "events",
    "packets",
    "hops",
)


class Table:
    """A table of a result, in Arrow's memory format.

    Everything that knows Arrow's PyCapsule interface reads it without a copy: pyarrow, polars,
    DuckDB and others.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Table | pyarrow.Table) -> None:
        self._native = native

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.to_arrow(),)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """Returns the table as a ``pyarrow.Table`` over the same memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the table as a ``pandas.DataFrame``."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def __len__(self) -> int:
        return self._native.num_rows

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.column_names)}>"


@dataclass(frozen=True)
class _Stored:
    """The records of runs in a pickled result."""

    tables: dict[str, Table]
    absent: dict[str, str]
    """Why there is no table of a name."""
    texts: list[str]

    @staticmethod
    def of(runs: _native.Runs | _Stored) -> _Stored:
        """Makes all tables of runs."""
        if isinstance(runs, _Stored):
            return runs
        tables: dict[str, Table] = {}
        absent: dict[str, str] = {}
        for name in TABLES:
            try:
                tables[name] = Table(runs.table(name))
            except ValueError as error:
                absent[name] = str(error)
        return _Stored(tables, absent, runs.summaries())

    def table(self, name: str) -> Table:
        if name in self.absent:
            raise ValueError(self.absent[name])
        return self.tables[name]

    def summaries(self) -> list[str]:
        return self.texts

    def __len__(self) -> int:
        return len(self.texts)


class Result:
    """The records of :func:`run` or :func:`load`.

    Each table has the columns ``arm`` and ``cell``, and is made when it is first asked for. Times
    count from the start of a run, warm-up included.

    A result can be pickled, so that a task of Dask may return it. It then has all of its tables,
    ``packets`` too, which may be large: :func:`forebay.sweep` writes files instead.
    """

    def __init__(self, runs: _native.Runs | _Stored) -> None:
        self._runs = runs
        self._tables: dict[str, Table] = {}
        self._summaries: list[dict[str, Any]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, (_Stored.of(self._runs),)

    def table(self, name: str) -> Table:
        """Returns a table by its name, one of ``forebay.TABLES``."""
        if name not in TABLES:
            raise KeyError(f"there is no table {name!r}: give one of {', '.join(TABLES)}")
        if name not in self._tables:
            made = self._runs.table(name)
            self._tables[name] = made if isinstance(made, Table) else Table(made)
        return self._tables[name]

    @property
    def requests(self) -> Table:
        """Every request: size, start, end and slowdown."""
        return self.table("requests")

    @property
    def flows(self) -> Table:
        """The bytes that each flow's receiver has read, every 100 ms."""
        return self.table("flows")

    @property
    def senders(self) -> Table:
        """Congestion window, packets in flight and RTT of each bulk TCP flow, every 100 ms."""
        return self.table("senders")

    @property
    def round_trips(self) -> Table:
        """Every round trip of closed loops."""
        return self.table("round_trips")

    @property
    def queues(self) -> Table:
        """Rate, backlog, delay and drops of both queues, every 10 ms of the measured time."""
        return self.table("queues")

    @property
    def ticks(self) -> Table:
        """The state of every control loop, every 10 ms."""
        return self.table("ticks")

    @property
    def events(self) -> Table:
        """Every decision of the control loops, with its reason."""
        return self.table("events")

    @property
    def packets(self) -> Table:
        """Every packet through the queues of the bottleneck and the sendboxes."""
        return self.table("packets")

    @property
    def hops(self) -> Table:
        """The packet counts of every box and link."""
        return self.table("hops")

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The figures of each run, as ``forebay lab run --json`` writes them."""
        if self._summaries is None:
            self._summaries = [json.loads(text) for text in self._runs.summaries()]
        return self._summaries

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Result of {len(self)} runs>"


def run(
    scenario: Scenario,
    seed: int = 1,
    *,
    arms: Iterable[str] | None = None,
    progress: Callable[[float], object] | None = None,
) -> Result:
    """Runs a scenario in the simulator with one seed: every arm, or those of ``arms``.

    The same scenario and seed give the same result, byte by byte, on every machine. Other threads
    of Python run meanwhile, and Ctrl-C ends the run. ``progress`` is called a few times in a second
    with the share that is done, 0 to 1; an exception of it ends the run.
    """
    wanted = None if arms is None else list(arms)
    return Result(_native.run(*scenario._parts, seed, wanted, progress))


def load(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> Result:
    """Reads a run of any engine that ``forebay lab run --out`` stored, a file ``*.jsonl``.

    The table ``senders`` is empty, and packets have no traffic: these are not stored. Times count
    from zero of the clock of the run, which on real Linux is that of the machine.
    """
    return Result(_native.load(os.fsdecode(path)))
