"""One arm of the real model: training, and its evaluation.

    python -m experiments.qwen.arm qwen gtpo 1 --out runs/real --data-dir DIR

grades samples that were copied from another machine, and needs no GPU.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.lab.arms import ARMS
from experiments.lab.jobs import write_result
from experiments.lab.run_job import commit, provenance, read_curve
from experiments.qwen.completion_style import common_beginning, copied_share, is_whole, takes_whole
from experiments.qwen.specs import SPECS, ArmRun, EvaluationTask, arm_options
from gtpo.errors import ConfigError, require
from gtpo.evaluation.evaluate import BATCH_SIZES, no_progress, sample_problems
from gtpo.evaluation.metrics import measure
from gtpo.evaluation.samples import Sample, read_samples
from gtpo.evaluation.sampling import Engine, SamplingSettings
from gtpo.problems import SYSTEM_PROMPT, load_problems
from gtpo.rewards.answers import extract_answer

if TYPE_CHECKING:
    from gtpo.training.config.plan import Plan

BATCHES = {**BATCH_SIZES, "vllm": 16384}


def plan_arm(run: ArmRun, model: str, data_dir: str | None, steps: int | None = None) -> "Plan":
    """What `gtpo train` would do for this arm."""
    from gtpo.training.config.plan import make_plan
    from gtpo.training.config.recipe import Setting

    spec = SPECS[run.spec]
    arm = arm_options(spec, run.arm)
    options: dict[str, Any] = {**spec.options, "model": model, "seed": run.seed}
    options |= {} if arm["method"] == "sft" else spec.rl_options
    options |= {**arm, "data_dir": data_dir, "output_dir": str(run.work)}
    options |= {} if steps is None else {"max_steps": steps}
    return make_plan(spec.recipe, {name: Setting(value, "experiment") for name, value in options.items()})


def check_arm(run: ArmRun, model: str, data_dir: str | None) -> None:
    """Raise GTPOError for problems, options or a model that cannot be used, before an engine starts."""
    from gtpo.training.prepare import prepare

    spec = SPECS[run.spec]
    if spec.engine == "vllm" and Path(model).is_dir() and not any(Path(model).glob("*.safetensors")):
        raise ConfigError(f"{model} has no *.safetensors. Pass the folder of a model as --model.")
    for task in spec.tasks:
        load_problems(task.problems, data_dir=data_dir, limit=task.limit)
    if ARMS[run.arm].method != "none":
        prepare(plan_arm(run, model, data_dir))


def train_arm(run: ArmRun, model: str, data_dir: str | None, steps: int | None = None) -> int:
    """Train as `gtpo train` does, and write the curve. What an earlier attempt left is of other weights, and goes."""
    from gtpo.training.prepare import prepare
    from gtpo.training.run_folder import RunFolder
    from gtpo.training.session import train

    run.remove()
    plan = plan_arm(run, model, data_dir, steps)
    method = arm_options(SPECS[run.spec], run.arm)["method"]
    description = {"method": method, "model": model, "problems": plan.options.problems, "seed": run.seed}
    folder = RunFolder.create(run.work, plan.settings, description)
    if not train(prepare(plan), folder):
        return 130
    summary = folder.summary()
    about = {"arm": run.arm, "seed": run.seed, **provenance(), "seconds": summary["seconds"]}
    write_result(run.curve, {**about, "steps": summary["steps"], "curve": read_curve(run.work)})
    return 0


def evaluate_arm(run: ArmRun, engine: Engine, data_dir: str | None) -> int:
    """Sample every task that has no result yet, then grade all of them. Only sampling needs the GPU."""
    for task in run.tasks:
        if not run.result(task).is_file():
            _sample(engine, run, task, data_dir, BATCHES[SPECS[run.spec].engine])
    return grade_arm(run, data_dir)


def grade_arm(run: ArmRun, data_dir: str | None) -> int:
    """Grade the samples of every task that has no result yet, and write each metric of each problem."""
    for task in run.tasks:
        if run.samples(task).is_file() and not run.result(task).is_file():
            file = read_samples(run.samples(task))
            num_samples = file.num_samples * file.header["problems"]["count"]
            require(len(file.samples) == num_samples, f"samples of {task.name}", len(file.samples), f"{num_samples}")
            measured = measure(file, None, no_progress)
            engine = {**measured.header["engine"], "weights": run.name}  # instead of a temporary folder
            problems = load_problems(task.problems, data_dir=data_dir, limit=task.limit)
            questions = [problem.question for problem in problems]
            columns = {**measured.values, **_style(file.samples, questions, file.num_samples)}
            values = {name: [float(f"{value:.4g}") for value in column] for name, column in columns.items()}
            about = {"arm": run.arm, "seed": run.seed, "commit": commit()}
            header = {**measured.header, "engine": engine}
            write_result(run.result(task), {**about, "header": header, "values": values})
    return 0


def _style(samples: Sequence[Sample], questions: Sequence[str], num_samples: int) -> dict[str, list[float]]:
    """What the completions of each problem look like, and how similar they are if there are several."""
    starts = range(0, len(samples), num_samples)
    groups = [[sample.text for sample in samples[start : start + num_samples]] for start in starts]
    answers = [[answer for text in group if (answer := extract_answer(text)) is not None] for group in groups]
    style = {
        "takes_whole": [float(is_taken) for is_taken in takes_whole([samples[start].gold for start in starts])],
        "answered": [len(given) / num_samples for given in answers],
        "answered_whole": [sum(map(is_whole, given)) / num_samples for given in answers],
    }
    if num_samples > 1:
        style["common_beginning"] = [common_beginning(group) for group in groups]
        style["copied"] = [
            statistics.fmean(copied_share(text, question) for text in group)
            for group, question in zip(groups, questions, strict=True)
        ]
    return style


def _sample(engine: Engine, run: ArmRun, task: EvaluationTask, data_dir: str | None, batch_size: int) -> None:
    settings = SamplingSettings(
        task.num_samples, task.temperature, max_new_tokens=task.max_new_tokens, system_prompt=SYSTEM_PROMPT
    )
    problems = load_problems(task.problems, data_dir=data_dir, limit=task.limit)
    path = run.samples(task)
    path.parent.mkdir(parents=True, exist_ok=True)
    sample_problems(
        engine, run.arm, task.problems, problems, settings, path, batch_size=batch_size, progress=no_progress
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.qwen.arm", description="Grade the samples of an arm.")
    parser.add_argument("spec", choices=tuple(SPECS))
    parser.add_argument("arm", choices=tuple(ARMS))
    parser.add_argument("seed", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-dir", default=None)
    options = parser.parse_args(arguments)
    return grade_arm(ArmRun(options.out, options.spec, options.arm, options.seed), options.data_dir)


if __name__ == "__main__":
    sys.exit(main())
