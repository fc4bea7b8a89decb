"""The files of a sweep: one Parquet file for each run and table, and what describes the sweep."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import SweepError

if TYPE_CHECKING:
    import pyarrow

    from ._sweep import Task

#: The last bytes of every complete Parquet file.
MAGIC = b"PAR1"


class Dataset:
    """The directory of a sweep.

    ``runs`` and the other tables are directories of Parquet files, divided by arm. A file is
    written under another name and renamed when it is complete, so every file is a finished run, and
    a run that was done twice is one file.
    """

    def __init__(
        self, out: str | bytes | os.PathLike[str] | os.PathLike[bytes], tables: Iterable[str]
    ) -> None:
        self.out = Path(os.fsdecode(out))
        # A run counts as finished by its file in `runs`, which is written last.
        self.tables = (*tables, "runs")

    def open(self, description: str, files: dict[str, str]) -> None:
        """Makes the directory with these files, or checks that it has the same sweep."""
        file = self.out / "sweep.json"
        self.out.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            if any(self.out.iterdir()):
                raise SweepError(f"{self.out} has other files and no sweep: give another directory")
            for name, content in files.items():
                self._write(self.out / name, content.encode())
            self._write(file, description.encode())
            return
        before, now = json.loads(file.read_text()), json.loads(description)
        other = [key for key in now if before.get(key) != now[key]]
        if other:
            raise SweepError(
                f"{self.out} has a sweep that differs in {', '.join(other)}: give another directory"
            )

    def finished(self, arm: str) -> set[str]:
        """Returns the names of the files of an arm's finished runs, and removes incomplete ones."""
        for table in self.tables:
            self._directory(table, arm).mkdir(parents=True, exist_ok=True)
        names = set()
        with os.scandir(self._directory("runs", arm)) as entries:
            for entry in entries:
                if entry.name.endswith(".parquet") and _is_complete(entry.path):
                    names.add(entry.name)
                else:
                    os.unlink(entry.path)
        return names

    def add(self, task: Task, files: dict[str, bytes]) -> None:
        """Stores a finished run."""
        for table in self.tables:
            self._write(self._directory(table, task.arm) / task.name, files[table])

    def read(self, table: str) -> pyarrow.Table:
        """Reads a table of all finished runs, in the order of the files' names."""
        import pyarrow.dataset as ds

        if table not in self.tables:
            raise KeyError(f"the sweep has no table {table!r}: it has {', '.join(self.tables)}")
        read: pyarrow.Table = ds.dataset(
            self.out / table, format="parquet", partitioning="hive"
        ).to_table()
        return read

    def _directory(self, table: str, arm: str) -> Path:
        return self.out / table / f"arm={arm}"

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        # Readers of datasets leave out names that begin with a dot.
        partial = path.with_name(f".{path.name}")
        partial.write_bytes(content)
        partial.replace(path)


def _is_complete(path: str) -> bool:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 2 * len(MAGIC):
            return False
        file.seek(-len(MAGIC), os.SEEK_END)
        return file.read() == MAGIC


class Failures:
    """The runs of a sweep that failed, in ``failed.jsonl``."""

    def __init__(self, out: Path) -> None:
        self._path = out / "failed.jsonl"
        self._path.unlink(missing_ok=True)
        self.count = 0

    def add(self, failure: dict[str, Any]) -> None:
        """Adds a failed run to the file."""
        self.count += 1
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(failure) + "\n")
