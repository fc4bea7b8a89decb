"""Stored runs as tables and as Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import forebay
from forebay import export

#: A stored run of the format's version 1, by hand: a request, and two packets at the bottleneck.
STORED = """\
{"run":{"version":1,"arm":"a","seed":SEED,"labels":{"load":"10%"},"start":0,"end":20000000,\
"rate":96000000,"base_rtt":50000000,"bundle_source":null,"records":{"requests":1,"progress":0,\
"round_trips":0,"ticks":0,"hops":1,"faults":0,"bottleneck":2,"sendbox":0}}}
{"hop":{"hop":"link","received":2,"sent":2,"policy_drops":0,"local":0,"queued":0,"lost":0}}
{"request":{"id":0,"connection":0,"size":100,"start":5000000,"end":null}}
{"bottleneck":[[1000000,500000,1514,0,0],[900,0,60,2,1]]}
"""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A directory with two runs, one of them in a subdirectory as of ``--grid``."""
    directory = tmp_path / "runs"
    (directory / "load=10%").mkdir(parents=True)
    (directory / "a-1.jsonl").write_text(STORED.replace("SEED", "1"))
    (directory / "load=10%" / "a-2.jsonl").write_text(STORED.replace("SEED", "2"))
    return directory


def test_a_stored_run_has_the_tables_of_a_result(stored: Path) -> None:
    result = forebay.load(stored / "a-1.jsonl")
    packets = result.packets.to_arrow().to_pydict()
    assert packets["time_s"] == [0.001, 0.0010009]
    assert packets["delay_ms"] == [0.5, 0.0]
    assert packets["size_bytes"] == [1514, 60]
    assert packets["dropped"] == [False, True]
    assert packets["traffic"] == [None, None]
    assert result.requests.to_arrow()["start_s"].to_pylist() == [0.005]
    assert len(result.senders) == 0
    assert result.summaries[0]["seed"] == 1


def test_every_table_becomes_parquet(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    assert export.main([str(stored), "--out", str(out)]) == 0
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    runs = ["a-1.parquet", "load=10%,a-2.parquet"]
    assert names == {
        f"{table}/{run}" for table in ["requests", "queues", "packets", "hops"] for run in runs
    }
    assert pq.read_table(out / "packets").num_rows == 4
    table = pq.read_table(out / "packets" / runs[1])
    own = forebay.load(stored / "load=10%" / "a-2.jsonl").packets.to_arrow()
    first = ["arm", "seed", "path_rate_mbps", "path_rtt_ms", "load"]
    assert table.column_names == first + [c for c in own.column_names if c not in ("arm", "cell")]
    assert table["delay_ms"].to_pylist() == own["delay_ms"].to_pylist()
    assert [table[name].to_pylist() for name in first] == [
        ["a", "a"],
        [2, 2],
        [96.0, 96.0],
        [50.0, 50.0],
        ["10%", "10%"],
    ]


def test_only_the_wanted_tables_of_one_file(stored: Path, tmp_path: Path) -> None:
    written = export.export([stored / "a-1.jsonl"], tmp_path / "t", ["hops"])
    assert written == [tmp_path / "t" / "hops" / "a-1.parquet"]
    with pytest.raises(ValueError, match="there is no table 'x'"):
        export.export([stored], tmp_path / "t", ["x"])


def test_errors_name_file_and_line(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stored / "a-1.jsonl"
    file.write_text(file.read_text()[:-30])
    out = tmp_path / "tables"
    assert export.main([str(file), "--out", str(out)]) == 2
    assert "a-1.jsonl, line 4: " in capsys.readouterr().err
    assert export.main([str(stored / "none.jsonl"), "--out", str(out)]) == 2
    assert "none.jsonl: No such file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert export.main([str(tmp_path / "empty"), "--out", str(out)]) == 2
    assert "no stored runs" in capsys.readouterr().err
    with pytest.raises(ValueError, match="have the same name"):
        (tmp_path / "empty" / "a-2.jsonl").write_text(STORED)
        export.export([stored / "load=10%" / "a-2.jsonl", tmp_path / "empty"], out)
    assert not out.exists()
