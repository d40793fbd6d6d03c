"""A named problem set: its place on the hub, the meaning of its columns, and its file names in a local folder."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gtpo.errors import DataError, require_choice
from gtpo.problems.problem import Problem
from gtpo.problems.rows import Row, is_solution, make_problem, read_rows

DATA_VARIABLE = "GTPO_DATA"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProblemSet:
    """What this package knows about a problem set of the hub.

    `splits` maps our split names to those of the hub. `files` maps them to the file names of a local copy, best first.
    `read_row(row, place, split)` turns a row of the hub into a Problem. It raises DataError for a broken row and
    returns None for a row that was published without an answer. Local copies have the columns question, answer,
    solution, source and level, or those of the hub. `subject_of(source)` derives the subject from the source.
    """

    name: str
    hub: str
    read_row: Callable[[Row, str, str], Problem | None]
    splits: Mapping[str, str]
    files: Mapping[str, tuple[str, ...]]
    configs: tuple[str | None, ...] = (None,)
    subject_of: Callable[[str], str | None] | None = None

    def load(self, split: str, data_dir: str | Path | None = None, limit: int | None = None) -> list[Problem]:
        """The first `limit` problems of a split, from the folder in `data_dir` or GTPO_DATA, else from the hub.

        Problems from the hub are distinct, and problems of the test split are removed from the train split.
        """
        require_choice(f"split of {self.name}", split, tuple(self.splits))
        if folder := data_dir or os.environ.get(DATA_VARIABLE):
            return list(self._from_folder(Path(folder).expanduser(), split))[:limit]
        return self._distinct_from_hub(split)[:limit]

    def _distinct_from_hub(self, split: str) -> list[Problem]:
        problems = list(self._from_hub(split))
        seen = set[str]()
        if split == "train" and "test" in self.splits:
            seen = {problem.question for problem in self._from_hub("test") if problem is not None}
        kept: list[Problem] = []
        for problem in problems:
            if problem is not None and problem.question not in seen:
                seen.add(problem.question)
                kept.append(problem)
        if len(kept) < len(problems):
            num_dropped = len(problems) - len(kept)
            logger.warning(
                "Dropped %d rows of %s: without an answer, repeated, or also in the test split.", num_dropped, self.hub
            )
        return kept

    def _from_folder(self, folder: Path, split: str) -> Iterator[Problem]:
        path = next((folder / name for name in self.files[split] if (folder / name).is_file()), None)
        if path is None:
            raise DataError(
                f"The folder {folder} has no {' or '.join(self.files[split])} for {self.name} ({split}). Put the file "
                f"there, or unset data_dir and {DATA_VARIABLE} to load {self.hub} from the hub."
            )
        for place, row in read_rows(path):
            problem = self._read_local(row, place, split)
            if problem is None:
                continue
            subject = problem.subject or (self.subject_of(problem.source) if self.subject_of else None)
            yield replace(problem, subject=subject)

    def _read_local(self, row: Row, place: str, split: str) -> Problem | None:
        """A row with our columns or with those of the hub. An answer with a complete solution is as on the hub."""
        has_ours = "question" in row and "answer" in row
        if has_ours and not is_solution(row["answer"]):
            return make_problem(row, place, f"{self.name}/{split}")
        try:
            return self.read_row(row, place, split)
        except DataError as error:
            if has_ours:
                raise
            raise DataError(f"{error} A row has the columns question and answer, or those of {self.hub}.") from error

    def _from_hub(self, split: str) -> Iterator[Problem | None]:
        for config in self.configs:
            for number, row in enumerate(_hub_rows(self.hub, config, self.splits[split])):
                place = f"{self.hub}{f' ({config})' if config else ''}, split {self.splits[split]}, row {number}"
                yield self.read_row(row, place, split)


def _hub_rows(hub: str, config: str | None, split: str) -> Iterator[Row]:
    import datasets

    try:
        rows = datasets.load_dataset(hub, config, split=split)
    except Exception as error:
        raise DataError(
            f"Could not load {hub} from the hub ({type(error).__name__}: {error}). Check the connection, or set "
            f"data_dir or {DATA_VARIABLE} to a folder with a copy."
        ) from error
    yield from rows  # pyright: ignore[reportReturnType]
