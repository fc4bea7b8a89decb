"""The plans of sweeps, which find all errors before the first run."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy
import pytest

import forebay
from forebay._plan import Plan


def errors(scenario: forebay.Scenario, grid: dict, **more: object) -> list[str]:
    with pytest.raises(forebay.GridError) as caught:
        Plan(scenario, grid, more.pop("seeds", [1]), **more)  # type: ignore[arg-type]
    return caught.value.errors


def test_a_plan_is_the_product_of_axes_arms_and_seeds(scenario: forebay.Scenario) -> None:
    grid = {
        "path.rate": ["12 Mbit/s", "24 Mbit/s"],
        ("path.rtt", "traffic.bulk.flows"): [("20 ms", 1), ("50 ms", 2), ("50 ms", 3)],
        "ecn": [True, False],
    }
    plan = Plan(scenario, grid, range(2, 4))
    tasks = list(plan)
    assert len(plan) == len(tasks) == 2 * 3 * 2 * 2 * 2
    expected = itertools.product(
        ["12 Mbit/s", "24 Mbit/s"],
        [("20 ms", 1), ("50 ms", 2), ("50 ms", 3)],
        [True, False],
        ["today", "boxed"],
        [2, 3],
    )
    for task, (rate, (rtt, flows), ecn, arm, seed) in zip(tasks, expected, strict=True):
        point = {"path.rate": rate, "path.rtt": rtt, "traffic.bulk.flows": flows, "ecn": ecn}
        assert (task.point, task.arm, task.seed) == (point, arm, seed)
    names = {(task.arm, task.name) for task in tasks}
    assert len(names) == len(tasks), "no two runs have the same file"
    assert tasks[0].name == (
        "path.rate=12%20Mbit%2Fs,path.rtt=20%20ms,traffic.bulk.flows=1,ecn=true,seed=2.parquet"
    )
    kinds = {
        "path.rate": "string",
        "path.rtt": "string",
        "traffic.bulk.flows": "int64",
        "ecn": "bool",
    }
    assert plan.columns() == kinds


def test_long_names_stay_different(scenario: forebay.Scenario) -> None:
    plan = Plan(scenario, {"title": ["x" * 300 + "a", "x" * 300 + "b"]}, [1], ["today"])
    names = {task.name for task in plan}
    assert len(names) == 2 and all(len(name) < 250 for name in names)


def test_all_errors_come_at_once(scenario: forebay.Scenario, file: Path) -> None:
    found = errors(
        scenario.set("sites", "one"),
        {
            "path.rat": ["1 Mbit/s"],
            "path.rtt": [],
            "traffic.bulk.flows": [1, "two"],
            "traffic.web.load": "1 Mbit/s",
            "seeds": [[1], [2]],
            ("ecn", "cooldown"): [(True,)],
            "warmup": ["1 s", None],
            "duration": ["1 s", "1 s"],
        },
        seeds=[1, 1],
    )
    starts = [
        "path.rtt: the axis is empty",
        "traffic.web.load: give a list of values, not '1 Mbit/s'",
        "seeds: seeds are no axis",
        "ecn, cooldown: (True,) must have 2 values",
        "warmup: a scenario has no values of type NoneType",
        "duration: a value stands twice",
        "seeds: give at least one, and none twice",
        f"{file}:1: sites: invalid type: string",
        f"{file}:5: path.rat: unknown field `rat`",
        f"{file}:20: traffic.flows: invalid type: string",
    ]
    assert len(found) == len(starts), found
    for line, start in zip(found, starts, strict=True):
        assert line.startswith(start), line


def test_a_point_that_the_scenario_refuses_is_named(scenario: forebay.Scenario) -> None:
    grid = {
        "path.rate": ["12 Mbit/s", "6 Mbit/s"],
        "traffic.web.load": ["2 Mbit/s", "8 Mbit/s"],
    }
    found = errors(scenario, grid)
    assert len(found) == 1
    assert 'at path.rate="6 Mbit/s", traffic.web.load="8 Mbit/s"' in found[0]


def test_arms_and_seeds_are_checked(scenario: forebay.Scenario) -> None:
    assert "there is no arm 'x': give one of today, boxed" in errors(scenario, {}, arms=["x"])[0]
    assert errors(scenario, {}, arms=[]) == ["arms: give at least one, and none twice"]
    for seeds in ([-1], [1.5], [True], [2**63]):
        assert errors(scenario, {}, seeds=seeds) == [
            "seeds: must be whole numbers from 0 to 2**63 - 1"
        ]
    gridded = forebay.Scenario(scenario.text + "[grid]\nflows = [1, 2]\n").set(
        "traffic.bulk.ecn", "not_ect"
    )
    text = gridded.text.replace("flows = 1\n", "")
    assert "its own [grid] makes 2 cells" in errors(forebay.Scenario(text), {})[0]


def test_values_of_numpy_are_values(scenario: forebay.Scenario) -> None:
    grid = {"traffic.bulk.flows": numpy.arange(1, 4)}
    assert [task.point["traffic.bulk.flows"] for task in Plan(scenario, grid, [1], ["today"])] == [
        1,
        2,
        3,
    ]


def test_a_plan_of_any_size_is_small(scenario: forebay.Scenario) -> None:
    checked: list[tuple[int, int]] = []
    grid = {"traffic.bulk.flows": range(1, 41), "traffic.web.connections": range(1, 26)}
    plan = Plan(scenario, grid, range(1_000_000), checked=lambda *count: checked.append(count))
    assert len(plan) == 1000 * 2 * 1_000_000
    last = plan.task(len(plan) - 1)
    assert (last.point["traffic.bulk.flows"], last.arm, last.seed) == (40, "boxed", 999_999)
    assert checked[0] == (0, 1000) and checked[-1] == (768, 1000)
