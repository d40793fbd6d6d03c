"""The groups that a viewer shows: those that a run recorded, or those built from completions.

The records of a run are decoded one at a time, because a recording can be larger than the memory. Unusable records are
skipped and reported.
"""

import itertools
import re
import textwrap
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import msgspec

from gtpo.errors import DataError
from gtpo.files import is_integer, parse_json
from gtpo.records import GROUPS_FILE, READABLE, SCHEMA, GroupRecord, group_from_row

NO_TEXTS = "The texts were not recorded (texts=False): tokens are shown by their position."
NO_SCORES = (
    "Entropies and log-probabilities were not recorded. They are left out if the model is sharded over processes or "
    "takes images."
)
TORN = "not a complete JSON line (was the run killed here?)"
DAMAGED = f"not schema 1 to {SCHEMA}, or fields are missing or inconsistent"
BYTES_PER_TOKEN = 60
"""Of a record, about. A line of a recording is not decoded to find out how many tokens it has."""

_FIRST_FIELD = re.compile(rb'\{"step": ?(-?\d{1,15}),')
_decoder = msgspec.json.Decoder(GroupRecord)


class Place(NamedTuple):
    """Where a group is: `number` counts the groups of its step from 1, `start` is an index or a position in a file."""

    step: int
    number: int
    start: int
    num_bytes: int
    num_tokens: int  # about


class Groups(ABC):
    """Groups in the order of their steps, and one note for each kind of record that was skipped."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = places

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """What a reader should know about the groups. Complete when all groups have been read."""

    @abstractmethod
    def numbered(self) -> Iterator[tuple[int, GroupRecord]]:
        """Each group with its number in its step."""

    @abstractmethod
    def only(self, places: Sequence[Place]) -> Self:
        """Only the groups at these places."""

    def __iter__(self) -> Iterator[GroupRecord]:
        return (group for _, group in self.numbered())

    def __len__(self) -> int:
        return len(self.places)

    @property
    def steps(self) -> list[int]:
        return sorted({place.step for place in self.places})

    def at_step(self, step: int) -> Self:
        """Only the groups of one step."""
        places = [place for place in self.places if place.step == step]
        if not places:
            steps = textwrap.shorten(", ".join(map(str, self.steps)), 200, placeholder=" …")
            raise DataError(f"Step {step} was not recorded. Recorded steps: {steps}.")
        return self.only(places)

    def blocks(self, max_tokens: int) -> "list[Self]":
        """Divided into consecutive blocks of about `max_tokens` tokens; a larger group is a block of its own."""
        blocks: list[list[Place]] = []
        room = 0
        for place in self.places:
            if not blocks or room < place.num_tokens:
                blocks.append([])
                room = max_tokens
            blocks[-1].append(place)
            room -= place.num_tokens
        return [self.only(places) for places in blocks]


class LoadedGroups(Groups):
    """Groups in memory."""

    def __init__(
        self, groups: Sequence[GroupRecord], notes: Iterable[str], places: Sequence[Place] | None = None
    ) -> None:
        self._all, self._notes = groups, list(notes)
        super().__init__(_numbered(groups) if places is None else places)

    @property
    def groups(self) -> list[GroupRecord]:
        return [self._all[place.start] for place in self.places]

    @property
    def notes(self) -> list[str]:
        return self._notes

    def numbered(self) -> Iterator[tuple[int, GroupRecord]]:
        return ((place.number, self._all[place.start]) for place in self.places)

    def only(self, places: Sequence[Place]) -> "LoadedGroups":
        return LoadedGroups(self._all, self._notes, places)


class RecordedGroups(Groups):
    """The groups in a groups.jsonl. `skipped` has the reason for each line that is not shown, by its position."""

    def __init__(self, path: Path, places: Sequence[Place], skipped: dict[int, str]) -> None:
        super().__init__(places)
        self.path, self.skipped = path, skipped
        self.has_texts = self.has_scores = False
        self.num_read = 0

    @property
    def notes(self) -> list[str]:
        counts = Counter(self.skipped.values())
        notes = [f"{count} of the records in {self.path.name} skipped: {reason}." for reason, count in counts.items()]
        if self.num_read and not self.has_texts:
            notes.append(NO_TEXTS)
        if self.num_read and not self.has_scores:
            notes.append(NO_SCORES)
        return notes

    def numbered(self) -> Iterator[tuple[int, GroupRecord]]:
        with self.path.open("rb") as file:
            for place in self.places:
                file.seek(place.start)
                try:
                    group = _decode(file.read(place.num_bytes))
                except (DataError, ValueError) as error:
                    self.skipped[place.start] = DAMAGED if isinstance(error, DataError) else TORN
                    continue
                self.num_read += 1
                for completion in group.completions:
                    self.has_texts |= completion.pieces is not None
                    self.has_scores |= completion.token_entropy is not None or completion.token_logp is not None
                yield place.number, group

    def only(self, places: Sequence[Place]) -> "RecordedGroups":
        return RecordedGroups(self.path, places, self.skipped)  # one dict: what is skipped once is known to all

    def add_findings(self, block: "RecordedGroups") -> None:
        """Take over what reading a block found out."""
        self.skipped.update(block.skipped)
        self.has_texts |= block.has_texts
        self.has_scores |= block.has_scores
        self.num_read += block.num_read


def load_groups(run: Path | str) -> RecordedGroups:
    """The groups of a run's folder or of a groups.jsonl, without torn lines, other schemas and damaged records."""
    path = _groups_file(Path(run))
    places: list[Place] = []
    skipped: dict[int, str] = {}
    numbers: Counter[int] = Counter()
    with path.open("rb") as file:
        for start, num_bytes in _lines(file):
            try:
                step = _step(file, start, num_bytes)
            except (DataError, ValueError) as error:
                skipped[start] = DAMAGED if isinstance(error, DataError) else TORN
            else:
                numbers[step] += 1
                places.append(Place(step, numbers[step], start, num_bytes, num_bytes // BYTES_PER_TOKEN))
    groups = RecordedGroups(path, sorted(places, key=lambda place: place.step), skipped)
    if next(iter(groups), None) is None:
        notes = " ".join(groups.notes) or "The run has not recorded any yet."
        raise DataError(f"{path} has no groups to show. {notes}")
    return groups.only(groups.places)


def _numbered(groups: Sequence[GroupRecord]) -> list[Place]:
    numbers: Counter[int] = Counter()
    places: list[Place] = []
    for index, group in enumerate(groups):
        numbers[group.step] += 1
        num_tokens = sum(completion.num_tokens for completion in group.completions)
        places.append(Place(group.step, numbers[group.step], index, 0, num_tokens))
    return places


def _lines(file: BinaryIO) -> list[tuple[int, int]]:
    """Where each line starts, and its size. Lines have megabytes: reading them one by one takes much longer."""
    ends = [0]
    position = 0
    while chunk := file.read(2**22):
        end = 0
        while end := chunk.find(b"\n", end) + 1:
            ends.append(position + end)
        position += len(chunk)
    if ends[-1] != position:  # the last line is torn
        ends.append(position)
    return [(start, end - start) for start, end in itertools.pairwise(ends) if end - start > 1]


def _step(file: BinaryIO, start: int, num_bytes: int) -> int:
    """The step of a record, which is its first field. A line that begins otherwise is parsed."""
    file.seek(start)
    if match := _FIRST_FIELD.match(file.read(min(32, num_bytes))):
        return int(match[1])
    file.seek(start)
    row = parse_json(file.read(num_bytes))
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    if not is_integer(row.get("step")) or row.get("schema") not in READABLE:
        raise DataError("There is no step, or the schema is another one.")
    return row["step"]


def _decode(line: bytes) -> GroupRecord:
    """The group of a line. DataError if the record is damaged, another ValueError if it is not JSON."""
    try:
        group = _decoder.decode(line)
    except (ValueError, RecursionError):  # also what msgspec refuses and Python accepts, such as NaN
        row = parse_json(line)
        if not isinstance(row, dict):
            raise ValueError("not a JSON object") from None
        return group_from_row(row)
    if group.schema not in READABLE:
        raise DataError(f"schema {group.schema}")
    return group


def _groups_file(run: Path) -> Path:
    path = run / GROUPS_FILE if run.is_dir() else run
    if path.is_file():
        return path
    runs = sorted(str(file.parent) for file in run.glob(f"*/{GROUPS_FILE}"))
    hint = "Pass the folder of a run of `gtpo train`, or of a trainer with gtpo.watch(trainer) and record_groups > 0."
    hint += " For completions of another GRPO run, use gtpo inspect --completions FILE."
    if any(run.glob("completions/*.parquet")) or any(run.glob("*.parquet")):
        hint = f"But there are completions that TRL logged. Try: gtpo inspect --completions {run}"
    elif runs:
        hint = f"But there are runs: {', '.join(runs[:5])}."
    raise DataError(f"{path} does not exist. {hint}")
