"""The planner of interconnects."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from decimal import Decimal
from pathlib import Path

import networkx
import numpy
import pandas
import pyarrow
import pytest

import forebay
from forebay.plan import Network

EXAMPLE = Path(__file__).parent.parent.parent / "experiments" / "interconnect"
MBIT = 1e6

PROVIDERS = [
    {"name": "video", "entry": [{"router": r} for r in ("west", "north", "east")]},
    {"name": "cloud", "entry": [{"router": r} for r in ("west", "north", "east")]},
]
DEMANDS = pandas.DataFrame(
    {
        "provider": ["video", "cloud"],
        "entry": "west",
        "router": "metro",
        "demand": [40 * MBIT, 40 * MBIT],
    }
)
PREFIXES = [{"prefix": f"198.18.{n}.0/24", "router": "metro", "share": 1} for n in range(4)]


def graph() -> networkx.Graph:
    """A network with three entries: 80 Mbit/s fit, of which 30 enter in the west."""
    made = networkx.Graph(name="three ingresses")
    made.add_nodes_from(["west", "north", "east", "core"], serves=False)
    made.add_node("metro")
    for entry, rate in (("west", "30 Mbit/s"), ("north", 30 * MBIT), ("east", 20 * MBIT)):
        made.add_edge(entry, "core", capacity=rate, metric=10)
    made.add_edge("core", "metro", capacity=200 * MBIT, metric=10)
    return made


def test_a_graph_and_frames_give_a_plan() -> None:
    plan = Network(graph(), PROVIDERS, DEMANDS).solve()
    assert plan.totals.total.to_dict() == pytest.approx({"before": 30 * MBIT, "after": 80 * MBIT})
    assert list(plan.providers.name) == ["video", "cloud"]
    assert plan.providers.after.tolist() == pytest.approx([40 * MBIT, 40 * MBIT])
    links = plan.links.set_index(["from", "to"])
    assert links.after["north", "core"] == pytest.approx(30 * MBIT)
    assert plan.flows.groupby("entry").after.sum()["east"] == pytest.approx(20 * MBIT)
    assert plan.paths.rate.sum() == pytest.approx(80 * MBIT)
    assert plan.paths.path[0][-1] == "metro"
    assert (plan.aggregates, plan.left_out, plan.notes) == (2, 0, [])
    assert "8e+07 after" in repr(plan)


def test_files_and_values_give_the_same_plan(tmp_path: Path) -> None:
    demands = tmp_path / "demands.csv"
    demands.write_text(DEMANDS.to_csv(index=False, float_format="%.0f"))
    topology = tmp_path / "isp.json"
    made = graph()
    networkx.set_node_attributes(made, {name: name for name in made}, "label")
    topology.write_text(json.dumps(networkx.node_link_data(made, edges="links")))
    files = Network(topology, str(EXAMPLE / "providers.toml"), demands)
    text = (EXAMPLE / "providers.toml").read_text()
    for table in (DEMANDS, pyarrow.table(DEMANDS), DEMANDS.to_dict("records")):
        values = Network(graph(), text, table)
        for scope in ("all", "partial", "intra"):
            first, second = files.solve(scope=scope).data, values.solve(scope=scope).data
            assert {**first, "network": ""} == {**second, "network": ""}


def test_options_change_the_plan() -> None:
    network = Network(graph(), PROVIDERS, DEMANDS)
    assert network.solve(scope="intra").totals.total["after"] == pytest.approx(30 * MBIT)
    assert len(network.solve(sub_flows=1).paths) == 2, "each aggregate has one path"
    for options, what in [
        ({"scope": "some"}, "scope: give"),
        ({"fairness": "fair"}, "fairness: give"),
        ({"factor": 1.0}, "factor: give"),
        ({"steps": 0}, "steps: give"),
        ({"paths": 0}, "paths: give"),
        ({"aggregates": 0}, "aggregates: give"),
        ({"sub_flows": 0}, "sub_flows: give"),
    ]:
        with pytest.raises(ValueError, match=what):
            network.solve(**options)


def test_a_gravity_model_takes_the_place_of_demands() -> None:
    plan = Network(graph(), PROVIDERS, gravity="60 Mbit/s").solve()
    assert plan.data["demand"] == pytest.approx(60 * MBIT, abs=10)
    with pytest.raises(TypeError, match="either demands, or gravity"):
        Network(graph(), PROVIDERS)
    with pytest.raises(ValueError, match="gravity: "):
        Network(graph(), PROVIDERS, gravity="much")


def test_hints_are_a_frame_and_stay_in_force(tmp_path: Path) -> None:
    without = Network(graph(), PROVIDERS, DEMANDS).hints(PREFIXES)
    assert len(without) == 0 and "no BGP session" in without.neighbours.notes[0][0]
    providers = [{**provider, "accepts": {"api": True}} for provider in PROVIDERS]
    network = Network(graph(), {"asn": 64500, "provider": providers}, DEMANDS)
    hints = network.hints(pandas.DataFrame(PREFIXES))
    frame = hints.to_pandas()
    assert set(frame.state) == {"new"} and set(frame.entry) == {"north", "east"}
    assert frame.before[0] == {"west": 1.0} and len(hints) == len(frame)
    assert hints.neighbours.hints.sum() == len(frame)
    before, after = hints.outcome.totals.total
    assert (before, after) == pytest.approx((30 * MBIT, hints.data["after"]))

    stored = tmp_path / "hints.json"
    stored.write_text(hints.text)
    for last in (hints, stored):
        assert set(network.hints(PREFIXES, last=last).to_pandas().state) == {"kept"}
    assert len(network.hints(PREFIXES, gain=1.0, release=0.9).to_pandas()) > 0, "no plan without"
    with pytest.raises(ValueError, match="release < gain"):
        network.hints(PREFIXES, gain=0.001, release=0.01)


def test_no_hints_are_an_empty_frame() -> None:
    small = DEMANDS.assign(demand=MBIT)
    hints = Network(graph(), PROVIDERS, small).hints(PREFIXES)
    assert len(hints) == 0 and list(hints.to_pandas().columns)[:2] == ["neighbour", "prefix"]


def test_attributes_that_are_not_used_are_ignored() -> None:
    made = graph()
    networkx.set_node_attributes(made, networkx.spring_layout(made, seed=1), "pos")
    networkx.set_node_attributes(made, {"core": object(), "west": float("nan")}, "note")
    networkx.set_edge_attributes(made, float("inf"), "weight")
    networkx.set_edge_attributes(made, {("west", "core"): numpy.float32(30 * MBIT)}, "capacity")
    networkx.set_edge_attributes(made, {("north", "core"): Decimal(30_000_000)}, "capacity")
    networkx.set_node_attributes(made, {"core": numpy.bool_(False)}, "serves")
    plan = Network(made, PROVIDERS, DEMANDS).solve()
    assert plan.totals.total["after"] == pytest.approx(80 * MBIT)


@pytest.mark.parametrize(
    "capacity, shown",
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (numpy.float64("-inf"), "-Infinity"),
        (numpy.array([1.0, 2.0]), "[1. 2.]"),
        ("fast", "fast"),
    ],
)
def test_a_capacity_that_is_none_names_its_link(capacity: object, shown: str) -> None:
    made = graph()
    made.edges["east", "core"]["capacity"] = capacity
    with pytest.raises(forebay.PlanError) as caught:
        Network(made, PROVIDERS, DEMANDS)
    error = caught.value
    assert (error.file, error.line) == ("the graph", None)
    assert error.message.startswith("the link from east to core: ") and shown in error.message


def test_paths_may_be_bytes_and_files_compressed(tmp_path: Path) -> None:
    text = json.dumps(networkx.node_link_data(graph(), edges="links"))
    topology = tmp_path / "isp.json.gz"
    topology.write_bytes(gzip.compress(text.encode()))
    demands = tmp_path / "demands.csv"
    demands.write_text("\ufeff" + DEMANDS.to_csv(index=False), encoding="utf-16-le")
    providers = os.fsencode(EXAMPLE / "providers.toml")
    plan = Network(bytes(topology), providers, os.fsencode(demands)).solve()
    assert plan.totals.total["after"] == pytest.approx(80 * MBIT)


def test_a_network_can_be_pickled(tmp_path: Path) -> None:
    topology = tmp_path / "isp.json"
    topology.write_text(json.dumps(networkx.node_link_data(graph(), edges="links")))
    network = Network(topology, PROVIDERS, DEMANDS)
    topology.unlink()
    again = pickle.loads(pickle.dumps(network))
    assert again.solve().data == network.solve().data
    plan = pickle.loads(pickle.dumps(network.solve()))
    assert plan.links.equals(network.solve().links)


def test_errors_have_their_place(tmp_path: Path) -> None:
    wrong = DEMANDS.assign(entry=["west", "nowhere"])
    with pytest.raises(forebay.PlanError, match="nowhere") as caught:
        Network(graph(), PROVIDERS, wrong)
    assert (caught.value.file, caught.value.line) == ("demands.json", 2)
    with pytest.raises(forebay.PlanError, match="has no `demand`"):
        Network(graph(), PROVIDERS, DEMANDS.drop(columns="demand"))
    with pytest.raises(forebay.PlanError) as caught:
        Network(graph(), [{**PROVIDERS[0], "weigth": 2}], DEMANDS)
    assert caught.value.file == "providers.toml" and "weigth" in str(caught.value)
    with pytest.raises(forebay.PlanError, match="missing.gml"):
        Network(tmp_path / "missing.gml", PROVIDERS, DEMANDS)
    with pytest.raises(TypeError, match="topology"):
        Network({"nodes": []}, PROVIDERS, DEMANDS)
    network = Network(graph(), PROVIDERS, DEMANDS)
    with pytest.raises(forebay.PlanError, match="not a prefix") as caught:
        network.hints([{"prefix": "198.18.0/24", "router": "metro"}])
    assert caught.value.line == 2, "after the line with the names of the columns"
    with pytest.raises(forebay.PlanError, match="version"):
        (tmp_path / "other.json").write_text(json.dumps({"version": 99}))
        network.hints(PREFIXES, last=tmp_path / "other.json")
    with pytest.raises(forebay.PlanError, match="a comma"):
        network.hints([{"prefix": "198.18.0.0/24,", "router": "metro"}])
    with pytest.raises(forebay.PlanError, match="longer than 64000000 bytes"):
        Network(graph(), "#" * 64_000_000 + "\n", DEMANDS)
    assert issubclass(forebay.PlanError, forebay.FileError)
