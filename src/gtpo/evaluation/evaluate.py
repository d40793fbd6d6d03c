"""An evaluation: models × problem sets, each pair with its own sample file, and the metrics of these files."""

import dataclasses
import errno
import functools
import gc
import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import gtpo
from gtpo.errors import ConfigError, require, require_choice
from gtpo.evaluation.engines import load_engine
from gtpo.evaluation.estimators import require_k
from gtpo.evaluation.graders import ANSWER, find_grader
from gtpo.evaluation.metrics import Difference, Measurement, compare, measure, require_distinct
from gtpo.evaluation.samples import Sample, SampleHeader, SettingsHeader, append_samples, read_samples, start_or_resume
from gtpo.evaluation.sampling import ENGINES, GPU_MEMORY, Engine, SamplingSettings, row_seed
from gtpo.evaluation.votes import Progress
from gtpo.files import locked, writing
from gtpo.models import find_model
from gtpo.problems import Problem, load_problems, to_messages
from gtpo.problems.loading import is_own, short_name
from gtpo.problems.problem import encode_prompt

logger = logging.getLogger(__name__)

BATCH_SIZES = {"transformers": 64, "vllm": 1024}
"""Samples per call by default. vLLM schedules its own batches and needs many requests at once."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The measurements, in the order of models and problem sets, and the differences from the first model."""

    measurements: list[Measurement]
    differences: list[Difference]

    def to_json(self) -> dict[str, Any]:
        """A JSON document: rates are fractions, entropies are in nats, and the sampling settings are included."""
        results: list[dict[str, Any]] = []
        for measured in self.measurements:
            metrics = {name: dataclasses.asdict(estimate) for name, estimate in measured.estimates.items()}
            results.append(
                {
                    "model": measured.model,
                    "problems": measured.header["problems"],
                    "num_problems": measured.num_problems,
                    "settings": measured.header["settings"],
                    "engine": measured.header["engine"],
                    "grader": measured.grader,
                    "metrics": {**metrics, "mean_entropy": metrics.get("mean_entropy")},  # vLLM returns no entropy
                }
            )
        differences = [dataclasses.asdict(difference) for difference in self.differences]
        return {"gtpo": gtpo.__version__, "level": 0.95, "results": results, "differences": differences}


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


def evaluate(
    models: Sequence[str],
    problem_sets: Sequence[str],
    settings: SamplingSettings,
    out: Path,
    *,
    ks: Sequence[int] | None = None,
    engine: str = "transformers",
    data_dir: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
    grader: str = ANSWER,
    batch_size: int | None = None,
    gpu_memory: float = GPU_MEMORY,
    trust_remote_code: bool = False,
    progress: Progress = no_progress,
) -> Evaluation:
    """Sample each model on each problem set into `out`, resuming where an earlier call stopped, and measure.

    The sample files are `out/<model>/<problem set>.jsonl`; `from_files` measures them again without a model. `columns`
    maps our column names to those of the user's own problem sets. `grader` is a name of `gtpo.evaluation.graders` or
    `package.module:function`. `trust_remote_code` lets models run their code.
    """
    require_choice("engine", engine, ENGINES)
    batch_size = BATCH_SIZES[engine] if batch_size is None else batch_size
    require(batch_size >= 1, "batch_size", batch_size, "at least 1")
    require(len(problem_sets) >= 1, "problems", ",".join(problem_sets), "at least one problem set")
    for k in ks or []:
        require_k(settings.num_samples, k)
    models = [model_name(model) for model in models]
    set_names = list(map(short_name, problem_sets))
    require_distinct([(slug(model), slug(name)) for model in models for name in set_names])
    paths = {(model, name): out / slug(model) / f"{slug(name)}.jsonl" for model in models for name in set_names}
    if columns and not any(map(is_own, problem_sets)):
        raise ConfigError("columns only apply to data of your own, and all problem sets are built-in. Omit them.")
    needs_answer = find_grader(grader).needs_answer
    loaded_sets = [
        load_problems(
            name, data_dir=data_dir, limit=limit, columns=columns if is_own(name) else None, needs_answer=needs_answer
        )
        for name in problem_sets
    ]
    with writing(out):
        for path in paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(path.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    for model in models:
        loaded = load_engine(engine, model, gpu_memory=gpu_memory, trust_remote_code=trust_remote_code)
        for name, problems in zip(set_names, loaded_sets, strict=True):
            path = paths[model, name]
            sample_problems(loaded, model, name, problems, settings, path, batch_size=batch_size, progress=progress)
        del loaded
        gc.collect()  # vLLM releases the GPU when nothing refers to the engine
    return from_files(list(paths.values()), ks=ks, grader=grader, progress=progress)


def from_files(
    paths: Sequence[Path], *, ks: Sequence[int] | None = None, grader: str = ANSWER, progress: Progress = no_progress
) -> Evaluation:
    """Measure sample files: metrics, intervals and differences, without a model."""
    files = [read_samples(path) for path in paths]
    require_distinct([(file.header["model"], file.header["problems"]["name"]) for file in files])
    measurements = [measure(file, ks, progress, grader) for file in files]
    return Evaluation(measurements, compare(measurements))


def sample_problems(
    engine: Engine,
    model: str,
    name: str,
    problems: Sequence[Problem],
    settings: SamplingSettings,
    path: Path,
    *,
    batch_size: int,
    progress: Progress,
) -> None:
    """Append every missing sample to `path`, batch by batch. A second process that samples into it is refused."""
    request = make_request(engine, model, name, problems, settings)
    total = len(problems) * request.settings.num_samples
    task = f"{model} on {name}"
    refusal = f"Another evaluation is writing {path}. Wait for it, or choose another folder with --out."
    with locked(path.with_suffix(".lock"), refusal):
        num_done = start_or_resume(path, request.header, batch_size, lambda count: _digest(problems[:count]))
        for start in range(num_done, total, batch_size):
            progress(task, start, total)
            append_samples(path, request.sample(engine, range(start, min(start + batch_size, total))))
        progress(task, total, total)


@dataclasses.dataclass(frozen=True)
class Request:
    """What is sampled: problems, their encoded prompts, and settings that fit the model's context."""

    problems: Sequence[Problem]
    prompts: list[list[int]]
    settings: SamplingSettings
    header: SampleHeader

    def sample(self, engine: Engine, numbers: Sequence[int]) -> list[Sample]:
        """The samples with these numbers, which count the samples of all problems."""
        rows = [divmod(number, self.settings.num_samples) for number in numbers]
        seeds = [row_seed(self.settings.seed, problem, sample) for problem, sample in rows]
        texts = engine.sample([self.prompts[problem] for problem, _ in rows], seeds, self.settings)
        return [
            Sample(
                problem,
                sample,
                self.problems[problem].answer,
                **dataclasses.asdict(text),
                question=None if sample else self.problems[problem].question,
                columns=None if sample else _json_columns(self.problems[problem]),
            )
            for (problem, sample), text in zip(rows, texts, strict=True)
        ]


def make_request(
    engine: Engine, model: str, name: str, problems: Sequence[Problem], settings: SamplingSettings
) -> Request:
    """Encode the prompts of the problem set `name`, and describe the request in the header of a sample file."""
    if not problems:
        raise ConfigError(f"The problem set {name!r} is empty. Check its file, or raise the limit on its problems.")
    prompts = [encode_prompt(engine.tokenizer, to_messages(problem, settings.system_prompt)) for problem in problems]
    settings = settings.fitted(max(map(len, prompts)), engine.context_length)
    header: SampleHeader = {
        "gtpo_samples": 1,
        "model": model,
        "engine": engine.description,
        "problems": {"name": name, "count": len(problems), "sha256": _digest(problems)},
        "settings": cast("SettingsHeader", dataclasses.asdict(settings)),
    }
    return Request(problems, prompts, settings, header)


def _json_columns(problem: Problem) -> dict[str, Any] | None:
    """The other columns of a problem that fit into JSON, for graders of the user; None if there are none."""
    columns: dict[str, Any] = {}
    for name, value in problem.others.items():
        try:
            json.dumps(value, allow_nan=False)
            columns[name] = value
        except (TypeError, ValueError, RecursionError):
            _warn_of_column(name)
    return columns or None


@functools.cache
def _warn_of_column(name: str) -> None:
    """Once per column, not for every row."""
    logger.warning("The column %r has values that do not reach graders: they do not fit into JSON.", name)


def model_name(model: str) -> str:
    """The name of a model in tables and files: as given, but "lab" for the folder of the shipped model."""
    location = Path(find_model(model).location)
    is_lab = location.resolve() == Path(find_model("lab").location).resolve()
    return "lab" if is_lab else model.rstrip("/")


def slug(name: str) -> str:
    """A name as a single folder name: `org/model-7B` becomes `org--model-7B`."""
    parts = [re.sub(r"[^\w.+=-]", "-", part) for part in name.split("/")]
    return "--".join(part for part in parts if part.strip(".")) or "model"


def _digest(problems: Sequence[Problem]) -> str:
    """Identifies the prompts, their gold answers, and the other columns that graders get."""
    rows: list[list[Any]] = [[problem.question, problem.answer] for problem in problems]
    for row, problem in zip(rows, problems, strict=True):
        if problem.prompt is not None or problem.system_prompt is not None:
            row += [problem.prompt, problem.system_prompt]
        if (columns := _json_columns(problem)) is not None:
            row.append(columns)
    content = json.dumps(rows)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
