"""Runs a scenario file once, as `forebay lab run FILE --engine sim --jobs 1 --json FILE` does.

The two commands do the same work, so their times compare a run from Python with one from the binary.
"""

import json
import sys
from pathlib import Path

import forebay

scenario, out = sys.argv[1:]
result = forebay.run(forebay.Scenario(scenario))
Path(out).write_text(json.dumps(result.summaries, indent=2) + "\n")
