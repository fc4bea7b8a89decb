#!/usr/bin/env python3
"""Solves the problems that `forebay plan bench --programs DIR` wrote with OR-tools' GLOP, and
compares the optima.

The exit status is 1 if an optimum differs by more than a millionth. Needs `ortools`.
"""

import json
import pathlib
import sys

from ortools.linear_solver import pywraplp

NEAR = 1e-6


def most(problem: dict) -> float:
    """The multi-commodity flow (3.1), in the problem's units."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    resources = {}
    for number, resource in enumerate(problem["resources"]):
        if resource["capacity"] is not None:
            resources[number] = solver.Constraint(-solver.infinity(), resource["capacity"])
    objective = solver.Objective()
    objective.SetMaximization()
    for flow in problem["flows"]:
        row = solver.Constraint(0.0, flow["demand"])
        for choice in problem["choices"][flow["first"] : flow["last"]]:
            rate = solver.NumVar(0.0, solver.infinity(), "")
            objective.SetCoefficient(rate, 1.0)
            row.SetCoefficient(rate, 1.0)
            for resource in problem["uses"][choice["first"] : choice["last"]]:
                if resource in resources:
                    resources[resource].SetCoefficient(rate, 1.0)
    status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL:
        sys.exit(f"GLOP ended with status {status}")
    return objective.Value()


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit("usage: compare.py DIR")
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.json"), key=lambda f: int(f.stem))
    if not files:
        sys.exit(f"{sys.argv[1]} has no programs: run `forebay plan bench --programs {sys.argv[1]}` first")
    good = True
    print(f"{'network':20} {'flows':>6} {'ways':>7} {'HiGHS':>16} {'GLOP':>16} {'difference':>11}")
    for file in files:
        program = json.loads(file.read_text())
        ours, theirs = program["most"], most(program["problem"])
        difference = abs(ours - theirs) / theirs
        good &= difference <= NEAR
        flows, ways = len(program["problem"]["flows"]), len(program["problem"]["choices"])
        print(f"{program['case'][:20]:20} {flows:6} {ways:7} {ours:16.9f} {theirs:16.9f} {difference:11.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
