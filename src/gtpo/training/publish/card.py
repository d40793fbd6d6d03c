"""The model card of a run: what was trained, how, and what was measured. It is the README.md in RUN/model.

Names and options come from files and command lines: the front matter is written by a YAML library, and every value
stands in a code span. Paths of this machine are shortened to their last part.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from gtpo.errors import DataError
from gtpo.files import write_atomic
from gtpo.models import ADAPTER_CONFIG, adapter_settings, find_model
from gtpo.problems.sets import PROBLEM_SETS
from gtpo.runs.run import load_run
from gtpo.text import printable
from gtpo.training.held_out import interval
from gtpo.training.prepare import Prepared
from gtpo.training.run_folder import RunFolder, versions
from gtpo.training.summary import kept_rate, method_in_words

TASK = "reinforcement-learning"
CITATION = "GTPO: Stabilizing Group Relative Policy Optimization via Gradient and Entropy Control, arXiv:2508.03772"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def write_card(prepared: Prepared, run: RunFolder) -> None:
    """Write the card into the folder of the final model, and remove what TRL leaves: pickled options, other files."""
    (run.model / "training_args.bin").unlink(missing_ok=True)
    (run.path / "README.md").unlink(missing_ok=True)  # its own card, without numbers
    shutil.rmtree(run.model / "ref", ignore_errors=True)  # the start of an adapter that was trained further
    write_atomic(run.model / "README.md", model_card(prepared, run))


def model_card(prepared: Prepared, run: RunFolder) -> str:
    """The card as Markdown with YAML front matter."""
    options = prepared.plan.options
    is_gtpo = options.method == "gtpo" and prepared.plan.config.credit == "gtpo"
    base = find_model(prepared.model).base or options.model
    metadata: dict[str, Any] = {
        "library_name": "peft" if prepared.is_adapter else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["sft", "trl"] if options.method == "sft" else ["gtpo" if is_gtpo else "grpo", "trl", TASK],
    }
    if base != "lab" and not Path(base).exists() and _HUB_ID.fullmatch(base):
        metadata |= {"base_model": base, "base_model_relation": "adapter" if prepared.is_adapter else "finetune"}
    if options.problems in PROBLEM_SETS:
        metadata["datasets"] = [PROBLEM_SETS[options.problems].hub]
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    parts = [f"---\n{front}---", f"# {_name(run.path.absolute().name)}", _introduction(prepared, base)]
    parts += [*_measured(run.summary()), _training(prepared, run)]
    if options.system_prompt:
        parts.append(f"## System prompt\n\n{_block(options.system_prompt)}")
    if is_gtpo:
        parts.append(f"## Method\n\n{CITATION}")
    return "\n\n".join(parts) + "\n"


def _introduction(prepared: Prepared, base: str) -> str:
    what = "A LoRA adapter for" if prepared.is_adapter else "Trained from"
    options = prepared.plan.options
    start = f", trained further from {_code(_last(options.model))}" if base != options.model else ""
    problems = _code(_last(options.problems))
    return f"{what} {_code(_last(base))}{start}. It was trained on the problems {problems} with gtpo."


def _measured(summary: dict[str, Any]) -> list[str]:
    """The table of held-out numbers before and after training; nothing if nothing was measured."""
    before, after = summary.get("before"), summary.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    sampled = f"{after['num_problems']} problems × {after['num_samples']}, temperature {after['temperature']:g}"
    rows = [f"| {name} | {interval(before, name)} | {interval(after, name)} |" for name in ("accuracy", "format")]
    table = "\n".join(["| | before | after |", "| --- | ---: | ---: |", *rows])
    note = f"On held-out problems ({_code(after['problems'])}, {sampled}), with 95 % intervals over problems."
    grader = after.get("grader", "answer")
    graded = "" if grader == "answer" else f", graded by {_code(grader)}"
    return [f"## Results\n\n{table}\n\n{note} Accuracy is pass@1{graded}."]


def _training(prepared: Prepared, run: RunFolder) -> str:
    options, config, summary = prepared.plan.options, prepared.plan.config, run.summary()
    rows = {
        "method": _code(method_in_words(options.method, config)),
        "problems": f"{_code(_last(options.problems))}, {len(prepared.problems)} to train on",
        "steps": f"{summary['steps']} of {summary['max_steps']}",
        "learning rate": f"{kept_rate(run) or config.learning_rate:g}, {_code(str(config.lr_scheduler_type.value))}",
        "seed": str(config.seed),
    }
    if (run.model / ADAPTER_CONFIG).is_file():  # an adapter that was trained further has its own
        lora = adapter_settings(run.model)
        rows["LoRA"] = f"rank {lora['r']}, α {lora['lora_alpha']}"
    if options.method != "sft":
        weights = config.reward_weights or [1.0] * len(options.rewards)
        rewards = [f"{_code(name)} × {weight:g}" for name, weight in zip(options.rewards, weights, strict=True)]
        prompts = config.generation_batch_size // config.num_generations
        sampled = f"{config.num_generations} completions of at most {config.max_completion_length} tokens"
        rows |= {
            "rewards": ", ".join(rewards),
            "sampled": f"{prompts} prompts × {sampled}, temperature {config.temperature:g}",
            "health": _code(_verdict(run)),
        }
    rows["versions"] = ", ".join(f"{name} {_code(version)}" for name, version in versions().items())
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows.items())])
    return f"## Training\n\n{table}"


def _verdict(run: RunFolder) -> str:
    """How the run ended, by `gtpo health`."""
    try:
        verdict = load_run(run.path).verdict
    except DataError:  # nothing was logged
        return "unknown"
    return f"{verdict.name}: {verdict.reason}" if verdict.findings else verdict.name


def _last(name: str) -> str:
    """A name without the folders of this machine; a hub id as it is."""
    return Path(name).name if Path(name).is_absolute() or Path(name).exists() else name


def _name(text: str) -> str:
    """A heading without characters that mean something in Markdown."""
    return re.sub(r"[^\w .,+=-]", "-", printable(text)) or "model"


def _code(value: object) -> str:
    """A value as a code span in a cell of a table.

    >>> _code("a|b`c")
    "`a\\\\|b'c`"
    """
    text = printable(str(value)).replace("`", "'").replace("|", "\\|")[:300]
    return f"`{text or ' '}`"


def _block(text: str) -> str:
    """A text as a code block, which its own backticks cannot close."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    lines = "\n".join(map(printable, text.splitlines()))
    return f"{fence}\n{lines}\n{fence}"
