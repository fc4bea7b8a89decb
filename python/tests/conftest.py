"""What the tests share: a short scenario and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

import forebay

#: Two arms over one path, one second long.
SHORT = """\
name = "short"
title = "Two flows over a short path"
duration = "1 s"

[path] # one bottleneck
rate = "12 Mbit/s"
rtt = "20 ms"
queue = { kind = "fifo", limit = "1 bdp" }

[[traffic]]
name = "web"
kind = "requests"
load = "2 Mbit/s"
connections = 10
sizes = "web"

[[traffic]]
name = "bulk"
kind = "bulk"
flows = 1
congestion = "cubic"

[[arm]]
name = "today"
sendbox = "forward"

[[arm]]
name = "boxed"
sendbox = { policy = "sfq", limit = "500 packets" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The short scenario as a file."""
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


@pytest.fixture
def scenario(file: Path) -> forebay.Scenario:
    """The short scenario."""
    return forebay.Scenario(file)
