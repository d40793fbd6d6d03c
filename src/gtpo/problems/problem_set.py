"""A named problem set: its place on the hub, the meaning of its columns, and its file names in a local folder."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gtpo.errors import DataError, require_choice
from gtpo.problems.problem import Problem
from gtpo.problems.rows import Row, make_problem, read_problems, read_rows

DATA_VARIABLE = "GTPO_DATA"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProblemSet:
    """What this package knows about a problem set of the hub.

    `files` maps each split to the file names of a local copy, best first. `columns` and `splits` map our names to
    those of the hub, where they differ. A local copy has the columns of the hub, or ours. `finish` turns a problem as
    it was published into one with a final answer, which is "" if the row has none.
    """

    name: str
    hub: str
    files: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    splits: Mapping[str, str] = field(default_factory=dict[str, str])
    configs: tuple[str | None, ...] = (None,)
    finish: Callable[[Problem], Problem] = lambda problem: problem

    def load(self, split: str, data_dir: str | Path | None = None, limit: int | None = None) -> list[Problem]:
        """The first `limit` problems of a split, from the folder in `data_dir` or GTPO_DATA, else from the hub.

        Problems from the hub are distinct, and problems of the test split are removed from the train split.
        """
        require_choice(f"split of {self.name}", split, tuple(self.files))
        if folder := data_dir or os.environ.get(DATA_VARIABLE):
            rows = read_rows(self._find_file(Path(folder).expanduser(), split))
            return [problem for problem in self._read_all(rows, split) if problem.answer][:limit]
        problems = self._read_all(self._hub_rows(split), split)
        asked = set[str]()
        if split == "train" and "test" in self.files:
            asked = {problem.question for problem in self._read_all(self._hub_rows("test"), "test")}
        kept: dict[str, Problem] = {}
        for problem in problems:
            if problem.answer and problem.question not in asked:
                kept.setdefault(problem.question, problem)
        if num_dropped := len(problems) - len(kept):
            reason = "without an answer, repeated, or also in the test split"
            logger.warning("Dropped %d rows of %s: %s.", num_dropped, self.hub, reason)
        return list(kept.values())[:limit]

    def _read_all(self, rows: Iterator[tuple[str, Row]], split: str) -> list[Problem]:
        def read(row: Row) -> Problem:
            is_published = self.columns.get("question", "question") in row and "source" not in row
            problem = make_problem(row, f"{self.name}/{split}", self.columns if is_published else None)
            if not problem.source.startswith(f"{self.name}/"):
                problem = replace(problem, source=f"{self.name}/{problem.source}")
            return self.finish(problem)

        return read_problems(rows, read)

    def _find_file(self, folder: Path, split: str) -> Path:
        for name in self.files[split]:
            if (folder / name).is_file():
                return folder / name
        raise DataError(
            f"The folder {folder} has no {' or '.join(self.files[split])} for {self.name} ({split}). Put the file "
            f"there, or unset data_dir and {DATA_VARIABLE} to load {self.hub} from the hub."
        )

    def _hub_rows(self, split: str) -> Iterator[tuple[str, Row]]:
        import datasets

        split = self.splits.get(split, split)
        for config in self.configs:
            try:
                rows = datasets.load_dataset(self.hub, config, split=split)
            except Exception as error:
                raise DataError(
                    f"Could not load {self.hub} from the hub ({type(error).__name__}: {error}). Check the connection, "
                    f"or set data_dir or {DATA_VARIABLE} to a folder with a copy."
                ) from error
            for number, row in enumerate(rows):
                yield f"{self.hub} ({config or 'default'}), split {split}, row {number}", row  # pyright: ignore[reportReturnType]
