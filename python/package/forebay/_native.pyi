from collections.abc import Callable, Mapping

__version__: str

class Table:
    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class Runs:
    def __len__(self) -> int: ...
    def table(self, name: str) -> Table: ...
    def summaries(self) -> list[str]: ...

class Network:
    def __new__(
        cls,
        topology: tuple[str, str | None],
        providers: tuple[str, str | None],
        demands: tuple[str, str | None] | None,
        gravity: str | None,
        capacity: str | None,
    ) -> Network: ...
    def solve(self, options: Mapping[str, object]) -> tuple[str, int, int]: ...
    def hints(
        self,
        prefixes: tuple[str, str | None],
        last: tuple[str, str | None] | None,
        options: Mapping[str, object],
        gain: float,
        release: float,
    ) -> tuple[str, str]: ...

def run(
    file: str,
    text: str,
    pairs: list[tuple[str, str]],
    seed: int,
    arms: list[str] | None,
    progress: Callable[[float], object] | None,
) -> Runs: ...
def load(path: str) -> Runs: ...
def parse_axis(text: str) -> list[tuple[str, str]]: ...
def parse_setting(text: str) -> tuple[str, str]: ...
def set_keys(file: str, text: str, pairs: list[tuple[str, str]]) -> str: ...
def describe(
    file: str, text: str, pairs: list[tuple[str, str]]
) -> tuple[str, str, list[str], list[int], int, list[str]]: ...
def grid_errors(
    file: str,
    text: str,
    pairs: list[tuple[str, str]],
    axes: list[list[list[tuple[str, str]]]],
    checked: Callable[[int], object] | None,
) -> list[tuple[str, int | None, str, str]]: ...
