"""What a worker of a sweep does: one run, whose figures and tables it returns as Parquet."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._plan import Task, column_value

if TYPE_CHECKING:
    import pyarrow

#: The figures of a run that become columns: the place in its summary, and the column's type.
FIGURES = {
    "duration_s": "float64",
    "rate_mbps": "float64",
    "base_rtt_ms": "float64",
    "requested_mbps": "float64",
    "goodput_mbps": "float64",
    **{
        f"{queue}_queue_ms.{figure}": "int64" if figure == "packets" else "float64"
        for queue in ("bottleneck", "sendbox")
        for figure in ("packets", "mean", "p50", "p90", "p99")
    },
    "requests.offered": "int64",
    "requests.completed": "int64",
    "requests.unfinished": "int64",
    **{
        f"slowdown.{size}.{figure}": "float64"
        for size in ("all", "small", "medium", "large")
        for figure in ("p50", "p99")
    },
    "conservation.ok": "bool",
}

#: The sums over all hops that become columns.
COUNTS = {"dropped": "policy_drops", "lost": "lost", "marked": "marked"}


@dataclass(frozen=True, slots=True)
class Work:
    """What all runs of a sweep have in common."""

    file: str
    text: str
    settings: list[tuple[str, str]]
    #: The keys of the axes with the type of their column.
    columns: dict[str, str]
    traffics: tuple[str, ...]
    tables: tuple[str, ...]

    def __call__(self, task: Task) -> dict[str, bytes]:
        """Runs one arm with one seed at one point, and returns each table as a Parquet file."""
        settings = [*self.settings, *task.pairs]
        point, seed = task.point, task.seed
        runs = _native.run(self.file, self.text, settings, seed, [task.arm], None)
        files = {"runs": parquet(_row(self, point, seed, json.loads(runs.summaries()[0])))}
        for name in self.tables:
            files[name] = parquet(_with_point(self, point, seed, runs.table(name)))
        return files


def _head(work: Work, point: dict[str, Any], seed: int) -> list[tuple[str, str, Any]]:
    """The columns that say which run it is; the arm is that of the directory."""
    keys = [(key, kind, column_value(point[key], kind)) for key, kind in work.columns.items()]
    return [*keys, ("seed", "int64", seed)]


def _row(work: Work, point: dict[str, Any], seed: int, summary: dict[str, Any]) -> pyarrow.Table:
    import pyarrow as pa

    columns = _head(work, point, seed)
    columns += [(name, kind, _at(summary, name)) for name, kind in FIGURES.items()]
    for name, key in COUNTS.items():
        counts = [hop[key] for hop in summary["hops"] if hop[key] is not None]
        columns.append((name, "int64", sum(counts)))
    for traffic in work.traffics:
        goodput = summary["goodput_by_traffic_mbps"].get(traffic)
        columns.append((f"goodput_mbps.{traffic}", "float64", goodput))
        trips = summary["round_trips_ms"].get(traffic, {})
        columns += [
            (f"round_trip_ms.{traffic}.{p}", "float64", trips.get(p)) for p in ("p50", "p99")
        ]
    columns.append(("summary", "string", json.dumps(summary, separators=(",", ":"))))
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind, _ in columns])
    return pa.Table.from_pylist([{name: value for name, _, value in columns}], schema)


def _with_point(
    work: Work, point: dict[str, Any], seed: int, native: _native.Table
) -> pyarrow.Table:
    import pyarrow as pa

    table = pa.table(native).drop_columns(["arm", "cell"]).unify_dictionaries()
    head = _head(work, point, seed)
    for place, (name, kind, value) in enumerate(head):
        column = pa.repeat(pa.scalar(value, pa.type_for_alias(kind)), table.num_rows)
        table = table.add_column(place, name, column)
    return table


def _at(summary: dict[str, Any], place: str) -> Any:
    value: Any = summary
    for key in place.split("."):
        value = None if value is None else value[key]
    return value


def parquet(table: pyarrow.Table) -> bytes:
    """Returns a table as a Parquet file."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
