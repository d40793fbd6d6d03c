"""The sample file: JSON Lines, with a header line that records the request, then one line per sample, in order.

Samples are appended as they are made. Grades, metrics, tables and figures are computed from these files alone, so an
evaluation can be interrupted and resumed, and its metrics can be recomputed without a model.
"""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from gtpo.errors import ConfigError, DataError
from gtpo.files import locked, parse_json, write_atomic, writing

FORMAT = 1

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
    temperature: Annotated[float, msgspec.Meta(ge=0)]
    top_p: float
    max_new_tokens: PositiveInt
    seed: int
    system_prompt: NotRequired[str | None]


class SampleHeader(TypedDict):
    """The first line of a sample file."""

    gtpo_samples: int
    model: str
    engine: dict[str, str]
    problems: ProblemsHeader
    settings: SettingsHeader


@dataclasses.dataclass(frozen=True)
class Sample:
    """One line: the `sample`-th completion of the `problem`-th problem, and the gold answer to grade it against."""

    problem: int
    sample: int
    gold: str
    text: str
    num_tokens: Annotated[int, msgspec.Meta(ge=0)]
    truncated: bool
    entropy: float | None


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
        hint = f"{path}/*.jsonl or {path}/*/*.jsonl" if path.is_dir() else "a file that `gtpo eval` wrote"
        raise DataError(f"Cannot read {path}: {error.strerror}. Pass {hint}.") from error
    *lines, torn = content.split(b"\n")
    if torn:
        logger.warning("%s: dropped an unfinished last line of %d bytes", path, len(torn))
    if not lines:
        raise DataError(f"{path} has no header line. Delete it, or pass a sample file that `gtpo eval` wrote.")
    header = _parse_header(path, lines[0])
    samples: list[Sample] = []
    for index, line in enumerate(lines[1:]):
        sample = _parse_sample(path, index + 2, line)
        problem, number = divmod(index, header["settings"]["num_samples"])
        if (sample.problem, sample.sample) != (problem, number):
            raise DataError(
                f"{path}, line {index + 2}: expected sample {number} of problem {problem}, got sample {sample.sample} "
                f"of problem {sample.problem}. Lines are missing, or two evaluations wrote at the same time. Delete "
                "this line and all later ones; the same command then samples them again."
            )
        samples.append(sample)
    return SampleFile(path, header, samples)


def start_or_resume(
    path: Path, header: SampleHeader, batch_size: int, digest: Callable[[int], str] | None = None
) -> int:
    """Prepare the file for appending and return the number of samples that it keeps.

    An incomplete batch is dropped and sampled again, so the samples do not depend on where the interruption fell. A
    file with other settings is refused. A file about the first of the requested problems is extended; `digest(n)` is
    the digest of the first n problems.
    """
    writable_folder(path.parent)
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
    lines = b"".join(_line(dataclasses.asdict(sample)) for sample in samples)
    with writing(path, "Free some disk space; the same command then resumes."), path.open("ab") as file:
        file.write(lines)


def only_writer(path: Path) -> contextlib.AbstractContextManager[None]:
    """A lock that refuses a second process which would sample into the same file."""
    writable_folder(path.parent)
    return locked(
        path.with_suffix(".lock"),
        f"Another evaluation is writing {path}. Wait for it, or choose another folder with --out.",
    )


def writable_folder(path: Path) -> None:
    """Create the folder; ConfigError if it cannot be created or written to."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise ConfigError(f"Cannot write {path}: the folder is read-only. Choose another place with --out.")


def _line(row: Mapping[str, Any]) -> bytes:
    """One line of pure ASCII, so control characters and lone surrogates of a completion survive."""
    return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"


def _parse_header(path: Path, line: bytes) -> SampleHeader:
    try:
        row = parse_json(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or row.get("gtpo_samples") != FORMAT:
        raise DataError(f"{path} does not start with the header of a sample file. Was it written by `gtpo eval`?")
    try:
        return msgspec.convert(row, SampleHeader)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{path} has a damaged header: {error}. Fix its first line, or delete the file and sample again."
        ) from error


def _parse_sample(path: Path, number: int, line: bytes) -> Sample:
    try:
        return msgspec.convert(parse_json(line), Sample)
    except (ValueError, msgspec.ValidationError) as error:
        raise DataError(
            f"{path}, line {number} is damaged ({str(error)[:120]}). "
            "Delete this line and all later ones; the same command then samples them again."
        ) from error


def _require_same_request(file: SampleFile, header: SampleHeader, digest: Callable[[int], str] | None) -> None:
    """Refuse a file that was sampled with other settings, or from problems that are not the first of these."""
    old, new = _flat(file.header), _flat(header)
    num_old = old["problems.count"]
    if digest is not None and num_old < new["problems.count"] and digest(num_old) == old["problems.sha256"]:
        old |= _flat({"problems": header["problems"]})
    differences = _differences(old, new)
    if not differences:
        return
    advice = "Choose another folder with --out, repeat the old settings, or delete the file."
    if any("max_new_tokens" in difference for difference in differences):
        advice += " The default of max_new_tokens depends on the longest prompt: pass --max-new-tokens."
    raise ConfigError(f"{file.path} was sampled with other settings ({'; '.join(differences)}). {advice}")


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    differences: list[str] = []
    if "problems.count" in names:
        differences.append(
            f"--limit: the file is for {old['problems.count']} problems, not for {new['problems.count']}"
        )
        names = [name for name in names if name not in ("problems.count", "problems.sha256")]
    differences += [f"{name} was {old.get(name)!r:.60}, is {new.get(name)!r:.60}" for name in names]
    return differences


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their dotted names.

    >>> _flat({"model": "lab", "settings": {"seed": 0}})
    {'model': 'lab', 'settings.seed': 0}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
