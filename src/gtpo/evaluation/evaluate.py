"""An evaluation: models × problem sets, each pair with a file of samples of its own, and what can be said of them."""

import dataclasses
import gc
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gtpo
from gtpo.errors import ConfigError, require
from gtpo.evaluation.grading import Progress
from gtpo.evaluation.metrics import Difference, Measurement, compare, measure, require_distinct
from gtpo.evaluation.samples import (
    FORMAT,
    Sample,
    append_samples,
    only_writer,
    read_samples,
    start_or_resume,
    writable_folder,
)
from gtpo.evaluation.sampling import (
    GPU_MEMORY,
    Engine,
    SamplingSettings,
    encode_prompt,
    load_engine,
    row_seed,
)
from gtpo.models import find_model
from gtpo.problems import SYSTEM_PROMPT, Problem, load_problems, to_messages
from gtpo.problems.loading import is_file_name

BATCH_SIZES = {"transformers": 64, "vllm": 1024}
"""Samples made at once unless told: vLLM batches by itself and wants much to choose from."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What was measured, in the order of models and problem sets, and the differences to the first model."""

    measurements: list[Measurement]
    differences: list[Difference]

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(measured.model for measured in self.measurements))

    @property
    def problem_sets(self) -> list[str]:
        return list(dict.fromkeys(measured.problems for measured in self.measurements))

    def to_json(self) -> dict[str, Any]:
        """A JSON document: rates are fractions, entropies nats, and how it was sampled stands beside the numbers."""
        results: list[dict[str, Any]] = [
            {
                "model": measured.model,
                "problems": measured.header["problems"],
                "num_problems": measured.num_problems,
                "settings": measured.header["settings"],
                "engine": measured.header["engine"],
                "metrics": {name: dataclasses.asdict(found) for name, found in measured.estimates.items()},
            }
            for measured in self.measurements
        ]
        for result in results:
            result["metrics"].setdefault("mean_entropy", None)  # vLLM does not give it
        differences = [dataclasses.asdict(difference) for difference in self.differences]
        return {"gtpo": gtpo.__version__, "level": 0.95, "results": results, "differences": differences}


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


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
    """Sample each model on each problem set into `out`, going on where an earlier call stopped, and measure.

    The files are `out/<model>/<problem set>.jsonl`; `from_files` measures them again without a model. `columns` maps
    our column names to those of the problem sets that are files.
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
        raise ConfigError(
            "columns name those of a .jsonl or .parquet file, and no problem set is one: leave them out."
        )
    asked = {
        problem_set_name(name): load_problems(
            name, data_dir=data_dir, limit=limit, columns=columns if is_file_name(name) else None
        )
        for name in problem_sets
    }
    writable_folder(out)
    paths: list[Path] = []
    for model in models:
        loaded = load_engine(engine, model, gpu_memory=gpu_memory)
        for name, problems in asked.items():
            path = out / _slug(model) / f"{_slug(name)}.jsonl"
            sample_problems(loaded, model, name, problems, settings, path, batch_size=batch_size, progress=progress)
            paths.append(path)
        del loaded
        gc.collect()  # vLLM gives the card back when nothing refers to it any more
    return from_files(paths, ks=ks, progress=progress)


def from_files(
    paths: Sequence[Path], *, ks: Sequence[int] | None = None, progress: Progress = no_progress
) -> Evaluation:
    """Measure files of samples: metrics, intervals and differences without sampling anything."""
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
    """Append to `path` every sample that it does not have yet, batch by batch."""
    if not problems:
        raise ConfigError(
            f"The problem set {name!r} is empty. Look into its file, or raise the limit on its problems."
        )
    system_prompt = settings.system_prompt or ""
    prompts = [
        encode_prompt(engine.tokenizer, to_messages(problem, system_prompt=system_prompt)) for problem in problems
    ]
    settings = settings.fitted(max(map(len, prompts)), engine.context_length)
    header = {
        "gtpo_samples": FORMAT,
        "model": model,
        "engine": engine.description,
        "problems": {"name": name, "count": len(problems), "sha256": _digest(problems)},
        "settings": dataclasses.asdict(settings),
    }
    total = len(problems) * settings.num_samples
    what = f"{model} on {name}"
    with only_writer(path):
        num_done = start_or_resume(path, header, batch_size, lambda count: _digest(problems[:count]))
        for start in range(num_done, total, batch_size):
            progress(what, start, total)
            rows = [divmod(row, settings.num_samples) for row in range(start, min(start + batch_size, total))]
            completions = engine.sample(
                [prompts[problem] for problem, _ in rows], [row_seed(settings.seed, *row) for row in rows], settings
            )
            append_samples(
                path,
                [
                    Sample(*row, gold=problems[row[0]].answer, **dataclasses.asdict(completion))
                    for row, completion in zip(rows, completions, strict=True)
                ],
            )
        progress(what, total, total)


def problem_set_name(name: str) -> str:
    """What a problem set is called in tables and files: its name, or that of its file."""
    return Path(name).stem if is_file_name(name) else name


def _model_name(model: str) -> str:
    """What a model is called in tables and files: as it was given, but "lab" for the folder of the shipped one."""
    if Path(model).is_dir():
        from gtpo.lab.model import lab_model_dir

        if Path(model).resolve() == lab_model_dir().resolve():
            return "lab"
    return model.rstrip("/") or model


def _require_distinct_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise ConfigError(f"Two of the {what}s would both be called {name!r}. Leave one out, or rename it.")


def _slug(name: str) -> str:
    """A name as one folder: `org/model-7B` becomes `org--model-7B`."""
    parts = [re.sub(r"[^\w.+=-]", "-", part) for part in name.split("/")]
    return "--".join(part for part in parts if part.strip(".")) or "model"


def _digest(problems: Sequence[Problem]) -> str:
    content = json.dumps([[problem.question, problem.answer] for problem in problems])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
