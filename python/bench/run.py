"""Runs a scenario file once, as `forebay lab run FILE --engine sim --jobs 1 --json OUT` does.

Usage: run.py FILE OUT [KEY=VALUE ...]. The two commands do the same work, so their times compare a
run from Python with one from the binary.
"""

import json
import sys
from pathlib import Path

import forebay

file, out, *settings = sys.argv[1:]
scenario = forebay.Scenario(file).with_(**dict(setting.split("=", 1) for setting in settings))
result = forebay.run(scenario)
Path(out).write_text(json.dumps(result.summaries, indent=2) + "\n")
