"""An evaluation: models × problem sets, each pair with its own sample file, and the metrics of these files."""

import dataclasses
import gc
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import gtpo
from gtpo.errors import ConfigError, require
from gtpo.evaluation.engines import load_engine
from gtpo.evaluation.metrics import Difference, Measurement, compare, measure, require_distinct
from gtpo.evaluation.samples import (
    FORMAT,
    Sample,
    SampleHeader,
    SettingsHeader,
    append_samples,
    only_writer,
    read_samples,
    start_or_resume,
    writable_folder,
)
from gtpo.evaluation.sampling import GPU_MEMORY, Engine, SamplingSettings, row_seed
from gtpo.evaluation.votes import Progress
from gtpo.models import find_model
from gtpo.problems import SYSTEM_PROMPT, Problem, load_problems, to_messages
from gtpo.problems.loading import is_file_name
from gtpo.problems.problem import encode_prompt

BATCH_SIZES = {"transformers": 64, "vllm": 1024}
"""Samples per call by default. vLLM schedules its own batches and needs many requests at once."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The measurements, in the order of models and problem sets, and the differences from the first model."""

    measurements: list[Measurement]
    differences: list[Difference]

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(measured.model for measured in self.measurements))

    @property
    def problem_sets(self) -> list[str]:
        return list(dict.fromkeys(measured.problems for measured in self.measurements))

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
    batch_size: int | None = None,
    gpu_memory: float = GPU_MEMORY,
    progress: Progress = no_progress,
) -> Evaluation:
    """Sample each model on each problem set into `out`, resuming where an earlier call stopped, and measure.

    The sample files are `out/<model>/<problem set>.jsonl`; `from_files` measures them again without a model. `columns`
    maps our column names to those of the problem sets that are files.
    """
    batch_size = BATCH_SIZES.get(engine, 1) if batch_size is None else batch_size
    models = [_model_name(model) for model in models]
    require(batch_size >= 1, "batch_size", batch_size, "at least 1")
    require(limit is None or limit >= 1, "limit", limit, "at least 1")
    require(len(problem_sets) >= 1, "problems", ",".join(problem_sets), "at least one problem set")
    for k in ks or []:
        require(1 <= k <= settings.num_samples, "k", k, f"from 1 to the number of samples ({settings.num_samples})")
    _require_distinct_names("model", [_slug(model) for model in models])
    _require_distinct_names("problem set", [problem_set_name(name) for name in problem_sets])
    if settings.system_prompt is None:
        settings = dataclasses.replace(settings, system_prompt=SYSTEM_PROMPT)
    for model in models:
        find_model(model)
    if columns and not any(map(is_file_name, problem_sets)):
        raise ConfigError("columns only apply to .jsonl and .parquet files, and no problem set is one. Omit them.")
    problems_by_name: dict[str, list[Problem]] = {}
    for name in problem_sets:
        file_columns = columns if is_file_name(name) else None
        problems = load_problems(name, data_dir=data_dir, limit=limit, columns=file_columns)
        problems_by_name[problem_set_name(name)] = problems
    writable_folder(out)
    paths: list[Path] = []
    for model in models:
        loaded = load_engine(engine, model, gpu_memory=gpu_memory)
        for name, problems in problems_by_name.items():
            path = out / _slug(model) / f"{_slug(name)}.jsonl"
            sample_problems(loaded, model, name, problems, settings, path, batch_size=batch_size, progress=progress)
            paths.append(path)
        del loaded
        gc.collect()  # vLLM releases the GPU when nothing refers to the engine
    return from_files(paths, ks=ks, progress=progress)


def from_files(
    paths: Sequence[Path], *, ks: Sequence[int] | None = None, progress: Progress = no_progress
) -> Evaluation:
    """Measure sample files: metrics, intervals and differences, without a model."""
    files = [read_samples(path) for path in paths]
    require_distinct(files)
    measurements = [measure(file, ks, progress) for file in files]
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
    """Append every missing sample to `path`, batch by batch."""
    if not problems:
        raise ConfigError(f"The problem set {name!r} is empty. Check its file, or raise the limit on its problems.")
    prompts = [encode_prompt(engine.tokenizer, to_messages(problem, settings.system_prompt)) for problem in problems]
    settings = settings.fitted(max(map(len, prompts)), engine.context_length)
    header: SampleHeader = {
        "gtpo_samples": FORMAT,
        "model": model,
        "engine": engine.description,
        "problems": {"name": name, "count": len(problems), "sha256": _digest(problems)},
        "settings": cast("SettingsHeader", dataclasses.asdict(settings)),
    }
    total = len(problems) * settings.num_samples
    task = f"{model} on {name}"
    with only_writer(path):
        num_done = start_or_resume(path, header, batch_size, lambda count: _digest(problems[:count]))
        for start in range(num_done, total, batch_size):
            progress(task, start, total)
            rows = [divmod(row, settings.num_samples) for row in range(start, min(start + batch_size, total))]
            batch = [prompts[problem] for problem, _ in rows]
            seeds = [row_seed(settings.seed, problem, sample) for problem, sample in rows]
            texts = engine.sample(batch, seeds, settings)
            samples: list[Sample] = []
            for (problem, sample), text in zip(rows, texts, strict=True):
                samples.append(Sample(problem, sample, problems[problem].answer, **dataclasses.asdict(text)))
            append_samples(path, samples)
        progress(task, total, total)


def problem_set_name(name: str) -> str:
    """The name of a problem set in tables and files: a file counts by its stem."""
    return Path(name).stem if is_file_name(name) else name


def _model_name(model: str) -> str:
    """The name of a model in tables and files: as given, but "lab" for the folder of the shipped model."""
    if Path(model).is_dir():
        from gtpo.lab.model import lab_model_dir

        if Path(model).resolve() == lab_model_dir().resolve():
            return "lab"
    return model.rstrip("/") or model


def _require_distinct_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise ConfigError(f"Two of the {what}s have the same name {name!r}. Omit or rename one of them.")


def _slug(name: str) -> str:
    """A name as a single folder name: `org/model-7B` becomes `org--model-7B`."""
    parts = [re.sub(r"[^\w.+=-]", "-", part) for part in name.split("/")]
    return "--".join(part for part in parts if part.strip(".")) or "model"


def _digest(problems: Sequence[Problem]) -> str:
    """Identifies the questions and their gold answers."""
    content = json.dumps([[problem.question, problem.answer] for problem in problems])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
