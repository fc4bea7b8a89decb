"""Scenarios: where they come from, their settings, and their errors."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path

import numpy
import pytest
from conftest import SHORT

import forebay
from forebay import _toml


def test_a_file_a_text_and_a_mapping_give_the_same_runs(file: Path) -> None:
    scenarios = [file, str(file), SHORT, tomllib.loads(SHORT)]
    results = [forebay.run(forebay.Scenario(source), arms=["boxed"]) for source in scenarios]
    assert all(result.summaries == results[0].summaries for result in results)


def test_any_key_can_be_set(scenario: forebay.Scenario) -> None:
    changed = scenario.with_(**{"path.rate": "24 Mbit/s", "traffic.bulk.flows": numpy.int64(3)})
    changed = changed.set("arm.boxed.sendbox.policy", "fifo").set("path.jitter.width", "1 ms")
    data = tomllib.loads(changed.text)
    assert data["path"]["rate"] == "24 Mbit/s"
    assert data["path"]["jitter"] == {"width": "1 ms"}
    assert data["traffic"][1]["flows"] == 3
    assert data["arm"][1]["sendbox"]["policy"] == "fifo"
    assert tomllib.loads(scenario.text) == tomllib.loads(SHORT), "the first one is as it was"
    assert "# one bottleneck" in changed.text


def test_what_a_scenario_tells_of_itself(scenario: forebay.Scenario) -> None:
    assert (scenario.name, scenario.title) == ("short", "Two flows over a short path")
    assert (scenario.arms, scenario.traffics) == (["today", "boxed"], ["web", "bulk"])
    assert (scenario.seeds, scenario.cells) == ([1], 1)
    assert pickle.loads(pickle.dumps(scenario)) == scenario


def test_errors_name_file_line_and_key(scenario: forebay.Scenario, file: Path) -> None:
    with pytest.raises(forebay.ScenarioError) as caught:
        scenario.set("traffic.bulk.flows", "many").check()
    error = caught.value
    assert (error.file, error.line, error.key) == (str(file), 20, "traffic.flows")
    assert str(error).startswith(f"{file}:20: traffic.flows: invalid type: string")
    assert str(error).endswith('(set by traffic.bulk.flows="many")')
    again = pickle.loads(pickle.dumps(error))
    assert (again.line, str(again)) == (20, str(error))
    with pytest.raises(forebay.ScenarioError, match="did you mean `bulk`"):
        scenario.set("traffic.bulc.flows", 1)
    with pytest.raises(forebay.ScenarioError, match="did you mean `rate`"):
        forebay.run(scenario.set("path.rat", "1 Mbit/s"))
    with pytest.raises(forebay.ScenarioError, match=r"^scenario.toml:1: "):
        forebay.Scenario("[path\n")
    with pytest.raises(FileNotFoundError):
        forebay.Scenario("nowhere.toml")
    with pytest.raises(TypeError, match="no values of type NoneType"):
        scenario.set("path.rate", None)


@pytest.mark.parametrize(
    "value",
    [
        True,
        -3,
        0.25,
        1e300,
        "plain",
        'quotes " and \\ and \x7f\t\n',
        "ünïcödé 😀",
        [1, [2, "x"]],
        {"a": 1, "b c": {"d": []}},
        {},
    ],
)
def test_values_come_back_from_toml(value: object) -> None:
    assert _toml.value(_toml.literal(value)) == value
    assert tomllib.loads(
        _toml.document({"key": value, "t": {"k": value}, "l": [{"k": value}]})
    ) == {
        "key": value,
        "t": {"k": value},
        "l": [{"k": value}],
    }
