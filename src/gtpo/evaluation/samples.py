"""The sample file: JSON Lines, with a header line that records the request, then one line per sample, in order.

Samples are appended as they come. Grades, metrics, tables and figures are computed from these files alone, so an
evaluation can be interrupted and resumed, and its metrics can be recomputed without a model.
"""

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from gtpo.errors import ConfigError, DataError
from gtpo.files import parse_json, write_atomic, writing

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]

logger = logging.getLogger(__name__)


class ProblemsHeader(TypedDict):
    """The problem set."""

    name: str
    count: PositiveInt
    sha256: str


class SettingsHeader(TypedDict):
    """The `SamplingSettings`, with every default resolved."""

    num_samples: PositiveInt
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)]
    max_new_tokens: PositiveInt
    seed: int
    system_prompt: NotRequired[str | None]


class SampleHeader(TypedDict):
    """The first line of a sample file."""

    gtpo_samples: Literal[1]
    model: str
    engine: dict[str, str]
    problems: ProblemsHeader
    settings: SettingsHeader


@dataclasses.dataclass(frozen=True)
class Sample:
    """One line: the `sample`-th completion of the `problem`-th problem, and the gold answer to grade it against.

    The gold answer is "" if the problem has none. The first sample of a problem also holds the question, and the other
    columns of the user's own data. They are None in the other samples, and in files of earlier versions.
    """

    problem: int
    sample: int
    gold: str
    text: str
    num_tokens: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    truncated: bool
    entropy: float | None
    question: str | None = None
    columns: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class SampleFile:
    """The content of a sample file."""

    path: Path
    header: SampleHeader
    samples: list[Sample]

    @property
    def num_samples(self) -> int:
        """The number of samples per problem, from the header."""
        return self.header["settings"]["num_samples"]


def read_samples(path: Path) -> SampleFile:
    """Read a sample file. An unfinished last line, left by an interruption, is dropped with a warning."""
    try:
        content = path.read_bytes()
    except OSError as error:
        remedy = "Pass sample files, as in runs/eval/*/*/*.jsonl."
        raise DataError(f"Cannot read {path}: {error.strerror}. {remedy}") from error
    *lines, torn = content.split(b"\n")
    if torn:
        logger.warning("%s: dropped an unfinished last line of %d bytes", path, len(torn))
    try:
        header = msgspec.convert(parse_json(lines[0] if lines else b""), SampleHeader)
    except (ValueError, msgspec.ValidationError) as error:
        raise DataError(
            f"{path} does not start with the header of a sample file: {error}. Pass a file that `gtpo eval` wrote."
        ) from error
    samples: list[Sample] = []
    for index, line in enumerate(lines[1:]):
        try:
            sample = msgspec.convert(parse_json(line), Sample)
            if (sample.problem, sample.sample) != divmod(index, header["settings"]["num_samples"]):
                raise ValueError(f"sample {sample.sample} of problem {sample.problem} is out of order")
        except (ValueError, msgspec.ValidationError) as error:
            raise DataError(
                f"{path}, line {index + 2} is damaged ({str(error)[:120]}). "
                "Delete this line and all later ones; the same command then samples them again."
            ) from error
        samples.append(sample)
    return SampleFile(path, header, samples)


def start_or_resume(path: Path, header: SampleHeader, batch_size: int, digest: Callable[[int], str]) -> int:
    """Prepare the file for appending and return the number of samples that it keeps.

    An incomplete batch is dropped and sampled again, so the samples do not depend on where the interruption fell. A
    file with other settings is refused. A file about the first of the requested problems is extended; `digest(n)` is
    the digest of the first n problems.
    """
    with writing(path):
        content = path.read_bytes() if path.exists() else b""
        if b"\n" not in content:
            path.write_bytes(_line(header))
            return 0
    file = read_samples(path)
    _require_same_request(file, header, digest)
    num_kept = len(file.samples)
    if num_kept < header["problems"]["count"] * file.num_samples:
        num_kept -= num_kept % batch_size
    lines = content.split(b"\n")[1 : num_kept + 1]
    kept = _line(header) + b"".join(line + b"\n" for line in lines)
    if kept != content:
        with writing(path):
            write_atomic(path, kept)
    return num_kept


def append_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Append a batch in a single write."""
    lines = b"".join(map(_sample_line, samples))
    with writing(path, "Free some disk space; the same command then resumes."), path.open("ab") as file:
        file.write(lines)


def _sample_line(sample: Sample) -> bytes:
    row = dataclasses.asdict(sample)
    if sample.columns is None:
        del row["columns"]  # most files have none
    return _line(row)


def _line(row: Mapping[str, Any]) -> bytes:
    """One line of pure ASCII, so control characters and lone surrogates of a completion survive."""
    return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"


def _require_same_request(file: SampleFile, header: SampleHeader, digest: Callable[[int], str]) -> None:
    """Refuse a file that was sampled with other settings, or from problems that are not the first of these."""
    old, new = _flat(file.header), _flat(header)
    num_old = old["problems.count"]
    if num_old < new["problems.count"] and digest(num_old) == old["problems.sha256"]:
        old |= _flat({"problems": header["problems"]})
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if names:
        differences = [f"{name} was {old.get(name)!r:.60}, is {new.get(name)!r:.60}" for name in names]
        raise ConfigError(
            f"{file.path} was sampled with other settings ({'; '.join(differences)}). Repeat the old settings, delete "
            "the file, or choose another folder with --out. --limit sets problems.count; the default of "
            "--max-new-tokens depends on the longest prompt."
        )


def _flat(header: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a header by their dotted names.

    >>> _flat({"model": "lab", "settings": {"seed": 0}})
    {'model': 'lab', 'settings.seed': 0}
    """
    flat: dict[str, Any] = {}
    for name, value in header.items():
        flat |= {f"{name}.{key}": entry for key, entry in value.items()} if isinstance(value, dict) else {name: value}
    return flat
