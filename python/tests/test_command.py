"""The command line of sweeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def sweep(*args: object) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    command = [sys.executable, "-m", "forebay.sweep", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_sweep_from_the_shell(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = [
        file,
        "--out",
        out,
        "--workers",
        1,
        "--seeds",
        "1-2",
        "--arm",
        "boxed",
        "--set",
        "ecn=true",
    ]
    done = sweep(*args, "--grid", "path.rate=12 Mbit/s,24 Mbit/s")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"4 runs finished, 0 were finished before, 0 failed: {out}\n"
    assert len(list(out.rglob("*.parquet"))) == 4
    grid = json.loads((out / "sweep.json").read_text())["grid"]
    assert grid == [
        {
            "keys": ["path.rate"],
            "values": [[["path.rate", '"12 Mbit/s"']], [["path.rate", '"24 Mbit/s"']]],
        }
    ]


def test_errors_come_at_once_with_status_2(file: Path, tmp_path: Path) -> None:
    done = sweep(file, "--out", tmp_path / "out", "--grid", "path.rat=1,2", "--grid", "ecn=maybe")
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["path.rat"] * 2 + ["ecn"]
    assert sweep("nowhere.toml", "--out", tmp_path / "out").returncode == 2
