"""`gtpo train`: train a model by a recipe, or the lab without one."""

import argparse
import contextlib
import dataclasses
import errno
import gc
import logging
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from gtpo.errors import ConfigError, DataError, require_choice
from gtpo.training.config.options import METHODS, RunOptions
from gtpo.training.config.recipe import COMMAND_LINE, Setting, Settings, parse_overrides

logger = logging.getLogger(__name__)

_EPILOG = """\
examples:
  gtpo train                                   the lab: a tiny model, about two minutes on two idle CPU cores
  gtpo train --method grpo                     the same with plain GRPO
  gtpo train --model ORG/NAME --problems gsm8k a model of your own, with TRL's defaults
  gtpo train recipes/qwen2.5-1.5b-gsm8k/config.yaml --learning_rate 1e-6 --num_generations 16
  gtpo train recipes/qwen2.5-1.5b-gsm8k/config.yaml --dry-run
  gtpo train --resume runs/lab-lab-gtpo-seed42

Every option of TRL and transformers is taken under its own name; some that one often wants:
  --output_dir --seed --max_steps --num_train_epochs --learning_rate --per_device_train_batch_size
  --gradient_accumulation_steps --num_generations --max_completion_length --temperature --beta
  --use_peft --lora_r --lora_alpha --load_in_4bit --use_vllm --save_steps --report_to
and of GTPO: --conflict_edges --conflict_match --conflict_positive_weight --conflict_negative_weight
  --entropy_filter --entropy_threshold --entropy_penalty --entropy_penalty_center --record_every
  --trim_batches
`gtpo train --help-all` explains each of them.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "train",
        help="train a model: GTPO, GRPO or SFT",
        description="Train a model by a recipe, or a tiny one that comes with the package.",
        usage="gtpo train [RECIPE] [--option value …]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to train")
    for field in dataclasses.fields(RunOptions):
        default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
        shown = "" if default is None else f" (default: {default})"
        several = "+" if field.name == "rewards" else None
        what.add_argument(f"--{field.name}", metavar="…", nargs=several, help=field.metadata["help"] + shown)
    how = parser.add_argument_group("how")
    how.add_argument("--dry-run", action="store_true", help="check everything, print the plan, train nothing")
    how.add_argument("--resume", type=Path, metavar="RUN", help="continue a run from its last complete checkpoint")
    how.add_argument("--help-all", action="store_true", help="every option of GTPO, TRL and transformers")
    parser.set_defaults(takes_rest=True)
    return parser


def run(args: argparse.Namespace) -> int:
    rest: list[str] = list(args.rest)
    recipe = Path(rest.pop(0)) if rest and not rest[0].startswith("-") else None
    overrides = {**parse_overrides(rest), **_own_overrides(args)}
    if args.help_all:
        return _help_all(overrides)
    if args.resume is not None:
        if recipe is not None or overrides or args.dry_run:
            raise ConfigError("--resume takes no recipe and no options: a run keeps the settings it began with.")
        code = _resume(args.resume)
    else:
        code = _start(recipe, overrides, args.dry_run)
    _leave_other_processes()
    return code


def _own_overrides(args: argparse.Namespace) -> Settings:
    given = {field.name: getattr(args, field.name) for field in dataclasses.fields(RunOptions)}
    return {name: Setting(value, COMMAND_LINE) for name, value in given.items() if value is not None}


def _start(recipe: Path | None, overrides: Settings, is_dry: bool) -> int:
    from accelerate import PartialState

    from gtpo.training.config.plan import make_plan
    from gtpo.training.run_folder import RunFolder

    _quiet()
    plan = make_plan(recipe, overrides)
    if is_dry:
        from gtpo.training.dry_run import describe
        from gtpo.training.run_folder import require_writable

        require_writable(Path(plan.config.output_dir))
        if plan.config.process_index == 0:
            sys.stdout.write(describe(plan))
        return 0
    options = plan.options
    description = {
        "method": options.method, "model": options.model, "problems": options.problems, "seed": plan.config.seed,
    }  # fmt: skip
    processes = PartialState()
    if processes.is_main_process:
        RunFolder.create(plan.config.output_dir, plan.settings, description)
    processes.wait_for_everyone()
    run_folder = RunFolder.open(plan.config.output_dir)
    with _alone(plan, run_folder):
        try:
            return _train(plan, run_folder)
        except Exception:
            if processes.is_main_process:
                run_folder.discard_if_nothing_was_trained()
            raise


def _resume(path: Path) -> int:
    from gtpo.training.config.plan import plan_from
    from gtpo.training.run_folder import RunFolder

    _quiet()
    run_folder = RunFolder.open(path)
    if "after" in run_folder.summary():
        sys.stderr.write(f"{path} is finished; there is nothing to resume.\n")
        return 0
    settings = {name: Setting(value, f"{path}/config.yaml") for name, value in run_folder.config().items()}
    settings["output_dir"] = Setting(str(path), COMMAND_LINE)
    try:
        plan = plan_from(settings)
        with _alone(plan, run_folder):
            return _train(plan, run_folder)
    except (ConfigError, DataError) as error:
        folder = run_folder.started_elsewhere()
        if folder is None or not _misses_a_path(run_folder, folder, str(error)):
            raise
        raise type(error)(f"{error} The run was started in {folder}: if a path is missed, resume there.") from error


def _misses_a_path(run_folder: Any, folder: str, message: str) -> bool:
    """Is something that the settings name found from the folder that the run was started in, and not from here?"""
    config = run_folder.config()
    named = [config.get(name) for name in ("model", "problems", "held_out", "data_dir")]
    paths = [Path(name) for name in named if isinstance(name, str)]
    return "No module named" in message or any(not one.exists() and (Path(folder) / one).exists() for one in paths)


def _alone(plan: Any, run_folder: Any) -> contextlib.AbstractContextManager[None]:
    """The main process keeps other runs out of the folder."""
    return run_folder.only_trainer() if plan.config.process_index == 0 else contextlib.nullcontext()


def _train(plan: Any, run_folder: Any) -> int:
    from safetensors import SafetensorError

    from gtpo.cli.console import ProgressBar
    from gtpo.cli.training_view import TrainingView, closing_table, opening
    from gtpo.training.session import train

    is_main = plan.config.process_index == 0
    if is_main:
        sys.stderr.write(opening(plan, run_folder))
    log = logging.FileHandler(run_folder.log, encoding="utf-8")
    log.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.getLogger().addHandler(log)
    logging.getLogger("gtpo.cli").setLevel(logging.INFO)
    if is_main:
        logger.info("\n%s", opening(plan, run_folder))
    resume = f"gtpo train --resume {shlex.quote(str(run_folder.path))}"
    try:
        with ProgressBar() as bar, TrainingView() as view:
            is_finished = train(plan, run_folder, [view], bar)
    except (OSError, RuntimeError, SafetensorError) as error:
        if not _is_about_room(error, run_folder.path):
            raise
        remedy = f"go on: {resume}" if run_folder.has_begun() else "give the command again"
        raise DataError(f"No space left on the disk of {run_folder.path}. Make room, then {remedy}") from error
    except KeyboardInterrupt:
        is_finished = False
    finally:
        logging.getLogger().removeHandler(log)
        log.close()
    if not is_finished:
        if is_main:
            sys.stderr.write(f"\nInterrupted. Go on with:\n  {resume}\n")
        return 130
    if is_main:
        sys.stdout.write(closing_table(run_folder))
    return 0


def _is_about_room(error: Exception, path: Path) -> bool:
    """Is the disk full? Each library has its own error for it, and torch's does not say so."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    return "No space left" in str(error) or shutil.disk_usage(path).free < 2**20


def _leave_other_processes() -> None:
    """Gloo's threads, still at work while Python ends, abort a finished run; what holds them is freed first."""
    from accelerate import PartialState

    processes = PartialState()
    if processes.backend == "gloo":
        gc.collect()
        processes.destroy_process_group()


def _help_all(overrides: Settings) -> int:
    from gtpo.training.config.parser import parser_for

    method = overrides["method"].value if "method" in overrides else "gtpo"
    require_choice("method", method, METHODS)
    ours = [f"  --{field.name:<22}{field.metadata['help']}" for field in dataclasses.fields(RunOptions)]
    theirs = parser_for(method).format_help()
    sys.stdout.write(
        "\n".join(["options of gtpo train:", *ours, "", f"options of {method}, TRL and transformers:", theirs])
    )
    return 0


def _quiet() -> None:
    """Loading bars and advice of the libraries below do not help the reader of our own lines."""
    import warnings

    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|accelerate)\.")
