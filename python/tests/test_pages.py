"""Tables of results pages are made from the datasets of sweeps."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

import forebay

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "bench"))

import pages  # noqa: E402

PAGE = "# Results\n\n<!-- l4s -->\nold\n<!-- end of l4s -->\n\nThe end.\n"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small part of the L4S grid: two links and two mixes, for half a second."""
    text = tomllib.loads((ROOT / "experiments" / "l4s" / "fig5.toml").read_text())
    del text["grid"]
    scenario = forebay.Scenario({**text, "warmup": "500 ms", "duration": "500 ms"})
    flows = ("traffic.l4s.flows", "traffic.classic.flows")
    grid = {"path.rate": ["4 Mbit/s"], "path.rtt": ["100 ms", "20 ms"], flows: [(1, 1), (2, 1)]}
    out = tmp_path_factory.mktemp("pages") / "l4s"
    forebay.sweep(scenario, grid, [1], out=out, client=1, progress=False)
    return out


def test_a_part_has_the_figures_of_the_dataset(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    arguments = [str(file), f"l4s={dataset}"]
    assert pages.main([*arguments, "--check"]) == 1
    assert pages.main(arguments) == 0
    text = file.read_text()
    assert text.startswith("# Results\n") and text.endswith("\nThe end.\n") and "old" not in text
    assert "pages.py PAGE l4s=OUT" in text and "4 rows" in text
    frame = pages.runs(dataset)
    ratio = frame["goodput_mbps.l4s"] / frame["traffic.l4s.flows"] / frame["goodput_mbps.classic"]
    near, far = (ratio[frame["path.rtt"] == rtt].median() for rtt in ("20 ms", "100 ms"))
    table = f"| | 20 ms | 100 ms |\n|---|---|---|\n| 4 Mbit/s | {near:.2f} | {far:.2f} |\n"
    assert table in text
    assert pages.main([*arguments, "--check"]) == 0
    file.write_text(text.replace(f"{near:.2f}", "9.99"))
    assert pages.main([*arguments, "--check"]) == 1


def test_what_cannot_be_made_is_refused(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("no part\n")
    with pytest.raises(SystemExit, match="needs one line <!-- l4s -->"):
        pages.main([str(file), f"l4s={dataset}"])
    with pytest.raises(SystemExit, match="give NAME=OUT"):
        pages.main([str(file), "other=x"])
    run = next((dataset / "runs").rglob("*.parquet"))
    content = run.read_bytes()
    run.unlink()
    try:
        with pytest.raises(SystemExit, match="3 of 4 runs"):
            pages.main([str(file), f"l4s={dataset}"])
    finally:
        run.write_bytes(content)
