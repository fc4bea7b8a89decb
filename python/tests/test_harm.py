"""The harm map on real workers: it is the same as in one process, and goes on after an end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import forebay
from forebay import _native

#: Paths with low rates, which are quick.
FAMILIES = ("thin", "plain")
SHORT = {"cells": 30, "seeds": 1, "confirm": 1, "families": FAMILIES}


def test_a_map_on_workers_is_that_of_one_process(tmp_path: Path) -> None:
    told: list[forebay.Progress] = []

    def stop(progress: forebay.Progress) -> None:
        if progress.done == 1:
            raise KeyboardInterrupt

    out = tmp_path / "map"
    with pytest.raises(KeyboardInterrupt):
        forebay.harm(**SHORT, out=out, client=1, progress=stop)
    assert not (out / "harm.md").exists()
    result = forebay.harm(**SHORT, out=out, client=2, progress=told.append)
    numbers = _native.harm_cells(1, 30, list(FAMILIES))
    assert (result.total, result.finished_before, result.failed) == (len(numbers), 1, 0)
    assert told[-1].done == len(numbers)

    alone = tmp_path / "alone"
    cells = [_native.harm_cell(1, n, (1, 1), True, str(alone / "cells")) for n in numbers]
    command = "forebay lab harm --seeds 1 --confirm 1 --seed 1 --cells 30 --family thin,plain"
    _native.harm_write(cells[::-1], str(alone), command)
    for name in ("harm.md", "harm.svg", "harm.json"):
        assert (out / name).read_bytes() == (alone / name).read_bytes(), name

    frame = result.to_pandas()
    whole = json.loads((out / "harm.json").read_text())
    assert sorted(frame.path) == numbers == [cell["number"] for cell in whole["cells"]]
    assert frame.worse.sum() == whole["worse"]
    row, cell = frame.set_index("path").loc[numbers[0]], whole["cells"][0]
    assert row["forebay.goodput_mbps"] == cell["forebay"]["goodput_mbps"]
    with pytest.raises(forebay.SweepError, match="differs in seeds"):
        forebay.harm(**{**SHORT, "seeds": 2}, out=out, client=1, progress=False)


def test_the_command_and_what_it_says_of_wrong_options(tmp_path: Path) -> None:
    def command(*words: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "forebay.harm", "--workers", 1, "--out", tmp_path / "map"]
        return subprocess.run([*map(str, line), *words], capture_output=True, text=True)

    for words, said in [
        (["--family", "thing"], "thing"),
        (["--cells", "0"], "cells: give at least 1"),
        (["--cells", "1", "--family", "thin"], "no path has this family"),
    ]:
        done = command(*words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "map").exists()
    done = command("--cells", "1", "--seeds", "1", "--confirm", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 of 1 paths are worse with Forebay than without a box: ")
