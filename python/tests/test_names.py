"""What the package exports stays what it is, whatever modules of it are imported."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

EVERY_MODULE = """
import importlib, pkgutil
import forebay
before = {name: getattr(forebay, name) for name in forebay.__all__}
modules = [module.name for module in pkgutil.iter_modules(forebay.__path__)]
assert {"harm", "sweep", "plan", "export"} <= set(modules), modules
for module in modules:
    importlib.import_module(f"forebay.{module}")
after = {name: getattr(forebay, name) for name in forebay.__all__}
changed = [name for name in before if before[name] is not after[name]]
assert not changed, changed
"""

IMPORTED_BY_NAME = """
import forebay.harm
import forebay.sweep as sweep
from forebay import harm
assert callable(forebay.harm) and harm is forebay.harm
assert callable(sweep) and sweep is forebay.sweep
"""


def python(program: str) -> None:
    """Runs a program in a process of its own, which has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_import_of_a_module_replaces_no_function() -> None:
    python(EVERY_MODULE)


def test_functions_can_be_imported_by_their_names() -> None:
    python(IMPORTED_BY_NAME)


FOUND_BY_IMPORTLIB = """
import importlib.util
import forebay.harm, forebay.sweep
for name in ("harm", "sweep"):
    assert importlib.util.find_spec(f"forebay.{name}").name == f"forebay.{name}"
"""


def test_importlib_finds_the_modules() -> None:
    python(FOUND_BY_IMPORTLIB)


def test_the_commands_of_the_package_can_be_loaded() -> None:
    commands = [
        point
        for point in importlib.metadata.entry_points(group="console_scripts")
        if point.name in ("forebay-harm", "forebay-sweep")
    ]
    assert len(commands) == 2
    for point in commands:
        with pytest.raises(SystemExit) as end:
            point.load()(["--help"])
        assert end.value.code == 0
