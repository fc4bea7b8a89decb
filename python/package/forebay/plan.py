"""The planner of interconnects: where content providers should hand over their traffic.

>>> network = forebay.plan.Network("isp.gml", "providers.toml", "demands.csv")
>>> plan = network.solve()
>>> plan.links
>>> network.hints("prefixes.csv").to_pandas()

The book's page "Planning interconnects" describes the inputs and the method.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _native, _toml
from ._errors import PlanError

if TYPE_CHECKING:
    import pandas

__all__ = ["Hints", "Network", "Plan", "PlanError"]

#: The columns of demands.
DEMANDS = ("provider", "entry", "router", "demand")

#: The columns of the frame of hints.
HINTS = ("neighbour", "prefix", "of", "entry", "router", "demand", "method", "state", "before")

#: What the planner takes a graph for.
GRAPH = "graph of networkx.json"

#: The attributes of nodes and of links that the planner uses.
OF_NODES = ("label", "name", "serves")
OF_LINKS = ("capacity", "metric")

#: A file's name, and its text.
Source = tuple[str, str]

#: What a network is made of: topology, providers, demands, and both options.
Sources = tuple[Source, Source, Source | None, str | None, str | None]

#: The path of a file.
FilePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Network:
    """A topology, its content providers, and their demands. It never changes.

    ``topology`` is a graph of networkx, or the path of a file that ``forebay plan solve`` reads.
    Links of a graph may have ``capacity`` (bits per second, or a string such as ``"10 Gbit/s"``)
    and ``metric``; nodes may have ``label``, ``name`` and ``serves``. Other attributes, such as the
    ``pos`` of a layout, are not used. ``providers`` is a TOML file, TOML text
    (a string with a line break), a mapping with the same keys, or a list of providers.

    ``demands`` is a file, a frame or another table with the columns ``provider``, ``entry``,
    ``router`` and ``demand``, or a list of mappings with these keys. Instead of it, ``gravity`` is
    the total rate of a gravity model, such as ``"400 Gbit/s"``. ``capacity`` is that of links
    without one.

    Raises :class:`forebay.PlanError` with the file and the line of the first mistake. The line of a
    frame is the number of the row, from 1. A graph has no lines: its mistakes name the link.

    A network can be pickled, so that tasks of Dask may take it. It then has the texts of its files
    as they were when it was made.
    """

    __slots__ = ("_native", "_sources")

    def __init__(
        self,
        topology: Any,
        providers: FilePath | Mapping[str, Any] | Iterable[Mapping[str, Any]],
        demands: Any = None,
        *,
        gravity: str | None = None,
        capacity: str | None = None,
    ) -> None:
        if (demands is None) == (gravity is None):
            raise TypeError("give either demands, or gravity with the total rate of a model")
        sources: Sources = (
            _topology(topology),
            _providers(providers),
            None if demands is None else _demands(demands),
            gravity,
            capacity,
        )
        self._make(sources)

    def _make(self, sources: Sources) -> None:
        self._sources = sources
        try:
            self._native = _native.Network(*sources)
        except PlanError as error:
            if error.file == GRAPH:
                raise PlanError("the graph", None, error.key, error.message) from None
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _network, self._sources

    def solve(
        self,
        *,
        scope: str = "all",
        fairness: str = "wba",
        factor: float = 2.0,
        steps: int = 5,
        aggregates: int = 5000,
        paths: int = 4,
        sub_flows: int | None = None,
    ) -> Plan:
        """Compares the present routing with the best one. The options are those of the command."""
        options = {
            "scope": scope,
            "fairness": fairness,
            "factor": factor,
            "steps": steps,
            "aggregates": aggregates,
            "paths": paths,
            "sub_flows": sub_flows,
        }
        text, count, left_out = self._native.solve(options)
        return Plan(json.loads(text), count, left_out)

    def hints(
        self,
        prefixes: Any,
        *,
        last: Hints | FilePath | None = None,
        gain: float = 0.005,
        release: float = 0.001,
        fairness: str = "wba",
        factor: float = 2.0,
        steps: int = 5,
        aggregates: int = 5000,
        paths: int = 4,
    ) -> Hints:
        """Says which provider should send the traffic for which prefix through which entry.

        ``prefixes`` is a file, a table with the columns ``prefix``, ``router`` and, if known,
        ``share``, or a list of mappings with these keys. ``last`` has the hints in force. A
        neighbour gets new hints only if the network would carry at least the share ``gain`` less
        without them, and keeps them until ``release`` or less would be lost.
        """
        options = {
            "scope": "all",
            "fairness": fairness,
            "factor": factor,
            "steps": steps,
            "aggregates": aggregates,
            "paths": paths,
            "sub_flows": None,
        }
        before: Source | None = None
        if isinstance(last, Hints):
            before = ("hints.json", last.text)
        elif last is not None:
            before = _file(last)
        return Hints(*self._native.hints(_prefixes(prefixes), before, options, gain, release))


class Plan:
    """A plan beside the present routing, as frames. Rates are in bits per second."""

    def __init__(
        self, data: dict[str, Any], aggregates: int | None = None, left_out: int | None = None
    ) -> None:
        self.data = data
        """Everything that ``forebay plan solve --json`` writes."""
        self.aggregates = aggregates
        """The number of aggregate flows; ``None`` in a plan that follows hints."""
        self.left_out = left_out
        """The number of demands left out, since no entry reaches their routers."""

    @property
    def totals(self) -> pandas.DataFrame:
        """The traffic carried, the fairness index and the highest utilisation, before and after."""
        return _frame([self.data["before"], self.data["after"]]).set_axis(["before", "after"])

    @property
    def providers(self) -> pandas.DataFrame:
        """What each provider asks for and gets."""
        return _frame(self.data["providers"])

    @property
    def flows(self) -> pandas.DataFrame:
        """The traffic by provider, entry and boundary router, before and after."""
        return _frame(self.data["flows"])

    @property
    def paths(self) -> pandas.DataFrame:
        """The proposed paths, each with its rate; ``path`` is a list of routers."""
        rows = [
            {"provider": aggregate["provider"], "router": aggregate["router"], **way}
            for aggregate in self.data["routing"]
            for way in aggregate["ways"]
        ]
        columns = ["provider", "router", "entry", "path", "rate", "before", "present"]
        return _frame(rows, columns)

    @property
    def links(self) -> pandas.DataFrame:
        """The load of links and interconnections whose capacity is known, before and after."""
        return _frame(self.data["links"], ["from", "to", "capacity", "before", "after"])

    @property
    def notes(self) -> list[str]:
        """What the planner adjusted in the topology."""
        return list(self.data["notes"])

    def __repr__(self) -> str:
        before, after = (self.data[key]["total"] for key in ("before", "after"))
        demand = self.data["demand"]
        return f"<Plan: {before:.4g} of {demand:.4g} bit/s carried before, {after:.4g} after>"


class Hints:
    """Hints for neighbours: the entry at which the traffic to each prefix should come in."""

    def __init__(self, text: str, outcome: str) -> None:
        self.text = text
        """The hints as JSON, which ``forebay plan announce --hints`` reads from a file."""
        self.data: dict[str, Any] = json.loads(text)
        """The same as values."""
        self.outcome = Plan(json.loads(outcome))
        """The present routing beside the one that results if all hints are followed."""

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a row for each hint; ``before`` has the present entries with their parts."""
        rows = [
            {
                **hint,
                "neighbour": neighbour["name"],
                "before": {part["entry"]: part["part"] for part in hint["before"]},
            }
            for neighbour in self.data["neighbours"]
            for hint in neighbour["hints"]
        ]
        return _frame(rows, list(HINTS))

    @property
    def neighbours(self) -> pandas.DataFrame:
        """A row for each neighbour: its gain in bits per second, and the numbers of its hints."""
        rows = [
            {
                "name": neighbour["name"],
                "gain": neighbour["gain"],
                "followed": neighbour["followed"],
                "hints": len(neighbour["hints"]),
                "withdrawn": len(neighbour["withdrawn"]),
                "notes": neighbour["notes"],
            }
            for neighbour in self.data["neighbours"]
        ]
        return _frame(rows, ["name", "gain", "followed", "hints", "withdrawn", "notes"])

    def __len__(self) -> int:
        return sum(len(neighbour["hints"]) for neighbour in self.data["neighbours"])

    def __repr__(self) -> str:
        return f"<{len(self)} hints for {len(self.data['neighbours'])} neighbours>"


def _frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(rows, columns=columns)


def _network(*sources: Any) -> Network:
    """Makes a network again that was pickled."""
    network = object.__new__(Network)
    network._make(sources)
    return network


def _is_file(given: Any) -> bool:
    return isinstance(given, (str, bytes, os.PathLike))


def _file(path: FilePath) -> Source:
    """Returns the name and the text of a file, which may be compressed."""
    name = os.fsdecode(path)
    return name, _native.read_text(name)


def _topology(given: Any) -> Source:
    """Returns a graph of networkx as node-link JSON, or a file."""
    if _is_file(given):
        return _file(given)
    if not all(hasattr(given, name) for name in ("nodes", "edges", "is_directed")):
        raise TypeError("topology: give a graph of networkx, or the path of a file")
    nodes = [
        {"label": str(id), **_used(data, OF_NODES), "id": id} for id, data in given.nodes(data=True)
    ]
    links = [
        {**_used(data, OF_LINKS), "source": a, "target": b} for a, b, data in given.edges(data=True)
    ]
    text = (
        f'{{"name": {json.dumps(str(given.graph.get("name", "")))}, '
        f'"directed": {json.dumps(bool(given.is_directed()))}, '
        f'"nodes": {_records(nodes)}, "links": {_records(links)}}}'
    )
    return GRAPH, text


def _used(data: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def _providers(given: Any) -> Source:
    if isinstance(given, str) and "\n" in given:
        return "providers.toml", given
    if _is_file(given):
        return _file(given)
    whole = given if isinstance(given, Mapping) else {"provider": list(given)}
    return "providers.toml", _toml.document(whole)


def _demands(given: Any) -> Source:
    if _is_file(given):
        return _file(given)
    rows = [
        {column: _needed(row, column, "demands", at) for column in DEMANDS}
        for at, row in enumerate(_rows(given), 1)
    ]
    return "demands.json", _records(rows)


def _prefixes(given: Any) -> Source:
    if _is_file(given):
        return _file(given)
    lines = ["prefix,router,share"]
    for at, row in enumerate(_rows(given), 1):
        prefix, router = (str(_needed(row, c, "prefixes", at)) for c in ("prefix", "router"))
        if "," in prefix or "\n" in prefix + router:
            message = f"{prefix!r} at {router!r} has a comma or a line break"
            raise PlanError("prefixes", at, "", message)
        lines.append(f"{prefix},{router},{row.get('share', 1)}")
    return "prefixes.csv", "\n".join(lines) + "\n"


def _rows(given: Any) -> list[Mapping[str, Any]]:
    """Returns the rows of a frame, of an Arrow table, or of a list."""
    if hasattr(given, "__arrow_c_stream__"):
        import pyarrow

        rows: list[Mapping[str, Any]] = pyarrow.table(given).to_pylist()
        return rows
    return list(given)


def _needed(row: Mapping[str, Any], column: str, name: str, line: int) -> Any:
    if row.get(column) is None:
        raise PlanError(name, line, "", f"has no `{column}`")
    return row[column]


def _records(rows: list[dict[str, Any]]) -> str:
    """Returns a JSON array with a line for each row, so that errors can name the row."""
    return "[" + ",\n".join(json.dumps(row, default=_plain) for row in rows) + "]"


def _plain(value: Any) -> Any:
    """Returns a value that JSON knows in the place of a scalar of NumPy, or a text."""
    is_scalar = hasattr(value, "item") and getattr(value, "size", 1) == 1
    return value.item() if is_scalar else str(value)
