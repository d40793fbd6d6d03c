"""What `gtpo train` prints: a summary at the start, one live line, and a table at the end."""

import logging
import math
import shlex
import sys
from typing import Any

from transformers import TrainerCallback

from gtpo.training.config.options import RunOptions
from gtpo.training.config.plan import Plan
from gtpo.training.held_out import held_out_set
from gtpo.training.run_folder import RunFolder

LN2 = math.log(2)
logger = logging.getLogger(__name__)


def opening(plan: Plan, run: RunFolder) -> str:
    """The summary at the start."""
    options, config = plan.options, plan.config
    steps = f"{config.max_steps} steps" if config.max_steps > 0 else f"{config.num_train_epochs:g} epochs"
    if options.method != "sft":
        prompts = config.generation_batch_size // config.num_generations
        steps += f" of {prompts} prompts × {config.num_generations} completions"
    files = ["metrics.jsonl", *(["groups.jsonl"] if options.method == "gtpo" else [])]
    lines = {
        "model": "the lab's, 1 M parameters" if options.model == "lab" else options.model,
        "problems": "the lab's arithmetic" if options.problems == "lab" else options.problems,
        "method": _method(options.method, config),
        "steps": f"{steps}, learning rate {config.learning_rate:g}, seed {config.seed}",
        "held out": _held_out(options),
        "written to": f"{run.path}/  ({', '.join(files)}, checkpoints, model/, summary.json)",
    }
    return "".join(f"{name:>10}  {text}\n" for name, text in lines.items()) + "\n"


def _method(name: str, config: Any) -> str:
    if name == "sft":
        return "SFT on the published solutions"
    if name == "grpo":
        return f"GRPO, β = {config.beta:g}"
    weights = f"λ = {config.conflict_positive_weight:g} / {config.conflict_negative_weight:g}"
    shared = {"none": "no conflict weights", "both": weights}
    conflicts = shared.get(config.conflict_edges, f"{weights} ({config.conflict_edges} only)")
    filtered = {"off": "no filter", "auto": f"filter at {config.entropy_threshold:.3g} nats"}
    entropy = filtered.get(config.entropy_filter, f"{filtered['auto']} ({config.entropy_filter})")
    return f"GTPO (arXiv:2508.03772), {conflicts}, {entropy}, γ = {config.entropy_penalty:g}"


def _held_out(options: RunOptions) -> str:
    problems = held_out_set(options)
    if problems is None:
        return "nothing" if options.held_out_problems == 0 else "nothing: a file has no test split, set --held_out"
    sampled = f"at most {options.held_out_problems} problems × {options.held_out_samples}"
    return f"{problems}, {sampled}, temperature {options.held_out_temperature:g}, before and after"


class TrainingView(TrainerCallback):
    """One live line: reward, accuracy, format, entropy compared with ln 2, kept, conflict, and the time left."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> "TrainingView":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        from tqdm import tqdm

        if state.is_world_process_zero:
            self._bar = tqdm(
                total=state.max_steps,
                initial=state.global_step,
                file=sys.stderr,
                mininterval=0.1 if sys.stderr.isatty() else 10.0,
                unit="step",
                bar_format="{n_fmt}/{total_fmt} {elapsed}<{remaining} {postfix}",
                dynamic_ncols=True,
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self._bar is not None and logs and "train_runtime" not in logs:
            logger.info("step %d  %s", state.global_step, line(logs))
            self._bar.set_postfix_str(line(logs), refresh=False)
            self._bar.update(state.global_step - self._bar.n)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.__exit__()


def line(logs: dict[str, Any]) -> str:
    """The most important metrics of a logging step.

    >>> line({"reward": 12.5, "accuracy": 0.4, "gtpo/entropy_mean": 0.41, "gtpo/frac_kept": 0.9})
    'reward 12.5  accuracy 40%  entropy 0.41 < ln 2  kept 90%'
    """
    parts: list[str] = []
    if logs.get("reward") is not None:
        parts.append(f"reward {logs['reward']:.1f}")
    elif logs.get("loss") is not None:
        parts.append(f"loss {logs['loss']:.3f}")
    parts += [f"{name} {logs[name]:.0%}" for name in ("accuracy", "format") if logs.get(name) is not None]
    entropy = logs.get("gtpo/entropy_mean", logs.get("entropy"))  # ⟨H⟩: what the filter compares with ln 2
    if entropy is not None:
        parts.append(f"entropy {entropy:.2f} {'<' if entropy < LN2 else '>'} ln 2")
    shares = {"kept": "gtpo/frac_kept", "conflict": "gtpo/frac_conflict"}
    parts += [f"{name} {logs[key]:.0%}" for name, key in shares.items() if logs.get(key) is not None]
    return "  ".join(parts)


def closing_table(run: RunFolder) -> str:
    """The evaluations before and after, and what to do next."""
    summary = run.summary()
    before, after = summary.get("before"), summary.get("after")
    steps, most = summary["steps"], summary.get("max_steps", summary["steps"])
    lines = [f"\n{steps} steps in {summary['seconds']:.0f} s"]
    if steps < most:
        lines += [f"stopped before step {most} because it was collapsing: `gtpo health {run.path}` explains why"]
    if before and after:
        sampled = (
            f"{after['num_problems']} held-out problems × {after['num_samples']}, temperature {after['temperature']:g}"
        )
        lines += [f"\n{'':>10}  {'before':>8}  {'after':>8}     ({sampled})"]
        lines += [f"{name:>10}  {before[name]:>8.1%}  {after[name]:>8.1%}" for name in ("accuracy", "format")]
        if "entropy" in before and "entropy" in after:
            lines += [f"{'entropy':>10}  {before['entropy']:>8.2f}  {after['entropy']:>8.2f}     (ln 2 = 0.69)"]
    hints = _next(run)
    width = max(map(len, hints)) + 3
    lines += ["\nNext:", *(f"  {command:<{width}}{what}" for command, what in hints.items())]
    return "\n".join(lines) + "\n"


def _next(run: RunFolder) -> dict[str, str]:
    config = run.config()
    problems = config.get("held_out") or config.get("problems", "lab")
    options = {"problems": problems, "data-dir": config.get("data_dir"), "columns": config.get("columns")}
    options = {name: value for name, value in options.items() if value not in (None, "lab")}
    arguments = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in options.items())
    folder = shlex.quote(str(run.path))
    hints = {f"gtpo report {folder}": "curves", f"gtpo eval {folder}{arguments}": "pass@k and maj@k"}
    if run.groups.is_file():
        hints = {f"gtpo inspect {folder}": "what the update did to every token", **hints}
    other = "gtpo" if config.get("method") == "grpo" else "grpo"
    return {
        **hints,
        f"gtpo compare {folder} --vs RUN": f"compare with another run, for example of --method {other}",
    }
