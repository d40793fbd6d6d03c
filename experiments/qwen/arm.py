"""One arm of the real model, in a process of its own: `train` or `evaluate`. Started by experiments.qwen.pair.

`grade`, by hand, grades samples that were brought from elsewhere.
"""

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from experiments.lab.arms import ARMS
from experiments.lab.job import provenance, read_curve
from experiments.lab.jobs import write_result
from experiments.present.completions import common_beginning, copied_share, is_whole, takes_whole
from experiments.qwen.pair import SPECS, Asked, Place, arm_options
from gtpo.errors import require
from gtpo.evaluation.evaluate import BATCH_SIZES, no_progress, sample_problems
from gtpo.evaluation.metrics import measure
from gtpo.evaluation.samples import Sample, read_samples
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.problems import SYSTEM_PROMPT, load_problems
from gtpo.rewards.answers import extract_answer

VLLM_BATCH = 16384


class StopTogether(TrainerCallback):
    """Ends the training after the step that a file names, should there be one; the model is saved all the same."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.path.is_file() and state.global_step >= int(self.path.read_text() or 0) > 0:
            control.should_training_stop = True


def train_arm(place: Place, model: str, data_dir: str | None, steps: int | None = None) -> int:
    """Train by the recipe, as `gtpo train` does, and keep the curve."""
    from gtpo.training.config.plan import make_plan
    from gtpo.training.config.recipe import Setting
    from gtpo.training.prepare import prepare
    from gtpo.training.run_folder import RunFolder
    from gtpo.training.session import train

    spec, arm = SPECS[place.spec], arm_options(place.arm)
    shutil.rmtree(place.work, ignore_errors=True)
    options: dict[str, Any] = {**spec.options, "model": model, "seed": place.seed}
    options |= {} if arm["method"] == "sft" else spec.rl_options
    options |= {**arm, "data_dir": data_dir, "output_dir": str(place.work)}
    options |= {} if steps is None else {"max_steps": steps}
    plan = make_plan(spec.recipe, {name: Setting(value, "experiment") for name, value in options.items()})
    description = {"method": arm["method"], "model": model, "problems": plan.options.problems, "seed": place.seed}
    run = RunFolder.create(place.work, plan.settings, description)
    if not train(prepare(plan), run, [StopTogether(place.stop_at)]):
        return 130
    summary = run.summary()
    about = {"arm": place.arm, "seed": place.seed, **provenance(), "seconds": summary["seconds"]}
    write_result(place.curve, {**about, "steps": summary["steps"], "curve": read_curve(place.work)})
    return 0


def evaluate_arm(place: Place, model: str, data_dir: str | None) -> int:
    """Sample every set that has no result yet, then grade: the card is needed for the first part alone."""
    spec = SPECS[place.spec]
    if place.is_evaluated:
        return 0
    source = model if ARMS[place.arm].method == "none" else str(place.work / "model")
    engine = _engine(spec.engine, source, spec.engine_options)
    batch_size = VLLM_BATCH if spec.engine == "vllm" else BATCH_SIZES[spec.engine]
    for asked in spec.evaluations:
        if not place.evaluation(asked).is_file():
            _sample(engine, place, asked, data_dir, batch_size)
    return grade_arm(place, data_dir)


def grade_arm(place: Place, data_dir: str | None) -> int:
    """Grade what was sampled; of every metric the value of each problem is kept."""
    for asked in SPECS[place.spec].evaluations:
        if place.samples(asked).is_file() and not place.evaluation(asked).is_file():
            file = read_samples(place.samples(asked))
            num_samples = file.num_samples * file.header["problems"]["count"]
            require(len(file.samples) == num_samples, f"samples of {asked.name}", len(file.samples), f"{num_samples}")
            measured = measure(file, None, no_progress)
            engine = {**measured.header["engine"], "weights": place.name}  # not the folder that they lay in
            questions = [one.question for one in load_problems(asked.problems, data_dir=data_dir, limit=asked.limit)]
            columns = {**measured.values, **_seen(file.samples, questions, file.num_samples)}
            values = {name: [float(f"{value:.4g}") for value in column] for name, column in columns.items()}
            about = {"arm": place.arm, "seed": place.seed, "header": {**measured.header, "engine": engine}}
            write_result(place.evaluation(asked), {**about, "values": values})
    return 0


def _seen(samples: Sequence[Sample], questions: Sequence[str], num_samples: int) -> dict[str, list[float]]:
    """What the completions of each problem look like; how alike they are where there is more than one."""
    starts = range(0, len(samples), num_samples)
    groups = [[one.text for one in samples[start : start + num_samples]] for start in starts]
    answers = [[answer for text in group if (answer := extract_answer(text)) is not None] for group in groups]
    found = {
        "takes_whole": [float(is_taken) for is_taken in takes_whole([samples[start].gold for start in starts])],
        "answered": [len(given) / num_samples for given in answers],
        "answered_whole": [sum(map(is_whole, given)) / num_samples for given in answers],
    }
    if num_samples > 1:
        found["common_beginning"] = [common_beginning(group) for group in groups]
        found["copied"] = [
            statistics.fmean(copied_share(text, question) for text in group)
            for group, question in zip(groups, questions, strict=True)
        ]
    return found


def _sample(engine: Any, place: Place, asked: Asked, data_dir: str | None, batch_size: int) -> None:
    settings = SamplingSettings(
        asked.num_samples, asked.temperature, max_new_tokens=asked.max_new_tokens, system_prompt=SYSTEM_PROMPT
    )
    problems = load_problems(asked.problems, data_dir=data_dir, limit=asked.limit)
    path = place.samples(asked)
    path.parent.mkdir(parents=True, exist_ok=True)
    sample_problems(
        engine, place.arm, asked.problems, problems, settings, path, batch_size=batch_size, progress=no_progress
    )


def _engine(name: str, model: str, options: Any) -> Any:
    if name == "vllm":
        from gtpo.evaluation.engines.vllm import VLLMEngine

        return VLLMEngine(model, **options)
    from gtpo.evaluation.engines import load_engine

    return load_engine(name, model)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.qwen.arm", description="One arm of the real model.")
    parser.add_argument("what", choices=("train", "evaluate", "grade"), help="grade: what was sampled, without a card")
    parser.add_argument("spec", choices=tuple(SPECS))
    parser.add_argument("arm", choices=tuple(ARMS))
    parser.add_argument("seed", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default=None)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--steps", type=int, default=None)
    options = parser.parse_args(arguments)
    place = Place(options.out, options.spec, options.arm, options.seed)
    if options.what == "grade":
        return grade_arm(place, options.data_dir)
    model = options.model or SPECS[options.spec].model
    if options.what == "train":
        return train_arm(place, model, options.data_dir, options.steps)
    return evaluate_arm(place, model, options.data_dir)


if __name__ == "__main__":
    sys.exit(main())
