"""Network experiments: scenarios, a simulator with the queues and control loops of Forebay's boxes,
sweeps over many runs on Dask, and the planner of interconnects.

>>> import forebay
>>> scenario = forebay.Scenario("experiments/demo.toml")
>>> result = forebay.run(scenario, seed=1)
>>> frame = result.queues.to_pandas()
"""

from . import plan
from ._errors import FileError, GridError, PlanError, RunError, ScenarioError, SweepError
from ._harm import harm
from ._native import __version__
from ._result import TABLES, Result, Table, load, run
from ._scenario import Scenario
from ._sweep import Failure, Progress, Sweep, sweep

__all__ = [
    "TABLES",
    "Failure",
    "FileError",
    "GridError",
    "PlanError",
    "Progress",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "SweepError",
    "Table",
    "__version__",
    "harm",
    "load",
    "plan",
    "run",
    "sweep",
]
