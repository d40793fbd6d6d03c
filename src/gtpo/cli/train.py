"""`gtpo train`: train a model by a recipe, or the lab without one.

torch and TRL are imported only after the options have been checked, so that a typo is reported at once.
"""

import argparse
import contextlib
import dataclasses
import errno
import gc
import logging
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo.cli.console import PrintableFormatter, hide_loading_bars
from gtpo.errors import ConfigError, DataError, require, require_choice
from gtpo.text import printable
from gtpo.training.config.options import METHODS, NAMES, RunOptions
from gtpo.training.config.recipe import COMMAND_LINE, Setting, Settings, parse_overrides
from gtpo.training.config.settings import read_settings, settings_of_run
from gtpo.training.run_folder import RunFolder
from gtpo.training.trust import notices, remember, require_trusted, started_here

if TYPE_CHECKING:
    from gtpo.training.config.plan import Plan
    from gtpo.training.prepare import Prepared

logger = logging.getLogger(__name__)

HELP = "train a model: GTPO, GRPO or SFT"
DESCRIPTION = "Train a model by a recipe, or the tiny model that comes with the package."
EPILOG = """\
examples:
  gtpo train                                   the lab: a tiny model, about two minutes on two idle CPU cores
  gtpo train --method grpo                     the same with plain GRPO
  gtpo train --model ORG/NAME --problems gsm8k a model of your own, with TRL's defaults
  gtpo train recipes/qwen2.5-1.5b-gsm8k/config.yaml --learning_rate 1e-6 --num_generations 16
  gtpo train recipes/qwen2.5-1.5b-gsm8k/config.yaml --dry-run
  gtpo train --resume runs/lab-lab-gtpo-seed42                  after an interruption
  gtpo train --resume runs/lab-lab-gtpo-seed42 --max_steps 160  a finished run, to more steps

Every option of TRL and transformers works under its own name. The most common:
  --output_dir --seed --max_steps --num_train_epochs --learning_rate --per_device_train_batch_size
  --gradient_accumulation_steps --num_generations --max_completion_length --temperature --beta
  --use_peft --lora_r --lora_alpha --load_in_4bit --use_vllm --save_steps --report_to --push_to_hub
and of GTPO: --credit --credit_parameters --conflict_edges --conflict_match
  --conflict_positive_weight --conflict_negative_weight --entropy_filter --entropy_threshold
  --entropy_penalty --entropy_penalty_center --entropy_penalty_relative --record_every --trim_batches
`gtpo train --help-all` explains each of them.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "gtpo train [RECIPE] [--option value …]"
    what = parser.add_argument_group("what to train")
    for field in dataclasses.fields(RunOptions):
        default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
        suffix = "" if default is None or field.name == "system_prompt" else f" (default: {default})"
        nargs = "+" if field.name == "rewards" else None
        what.add_argument(f"--{field.name}", metavar="…", nargs=nargs, help=field.metadata["help"] + suffix)
    parser.add_argument("--dry-run", action="store_true", help="check everything and print the plan, without training")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue a run from its last complete checkpoint")
    trust_help = "with --resume: let a run that was not started here run code and send data"
    parser.add_argument("--trust-run", action="store_true", help=trust_help)
    parser.add_argument("--help-all", action="store_true", help="list every option of GTPO, TRL and transformers")
    parser.set_defaults(takes_rest=True)


def run(args: argparse.Namespace) -> int:
    rest: list[str] = list(args.rest)
    recipe = Path(rest.pop(0)) if rest and not rest[0].startswith("-") else None
    own = {name: getattr(args, name) for name in NAMES if getattr(args, name) is not None}
    overrides = {**parse_overrides(rest), **{name: Setting(value, COMMAND_LINE) for name, value in own.items()}}
    _let_threads_sleep()
    if args.help_all:
        return _help_all(args)
    if args.resume is None and args.trust_run:
        raise ConfigError("--trust-run only applies to --resume RUN.")
    if args.resume is None:
        code = _run(read_settings(recipe, overrides), is_dry=args.dry_run)
    elif recipe is not None or overrides.keys() - {"max_steps"}:
        raise ConfigError("--resume takes no recipe and no options but --max_steps: a run keeps its settings.")
    else:
        code = _resume(args.resume, overrides, trusts_run=args.trust_run, is_dry=args.dry_run)
    _leave_process_group()
    return code


def _resume(folder: Path, overrides: Settings, *, trusts_run: bool, is_dry: bool) -> int:
    """Continue a run, to more steps than it had if `max_steps` is among the overrides."""
    run_folder = RunFolder.open(folder)
    settings = {**settings_of_run(folder), **overrides}
    if overrides:
        steps = str(overrides["max_steps"].value)
        require(steps.isascii() and steps.isdecimal(), "max_steps", steps, "a number of steps")
        run_folder.require_longer(int(steps))
    elif run_folder.is_finished():
        longer = "To train further, add --max_steps N, the total number of steps"
        sys.stderr.write(f"{folder} is finished; there is nothing to resume. {longer}.\n")
        return 0
    require_trusted(folder, settings, trusts_run=trusts_run)
    return _run(settings, resumed=run_folder, is_longer=bool(overrides), is_dry=is_dry)


def _run(
    settings: Settings, *, resumed: RunFolder | None = None, is_longer: bool = False, is_dry: bool = False
) -> int:
    """Prepare and train, in a new folder or in that of the `resumed` run, which may get more steps (`is_longer`)."""
    from accelerate import PartialState

    from gtpo.training.config.plan import plan_from
    from gtpo.training.prepare import prepare
    from gtpo.training.publish.hub import hub_target, warn_of_local_base
    from gtpo.training.summary import dry_run

    _quiet()
    plan = plan_from(settings)
    run_folder = RunFolder(plan.config.output_dir)
    processes = PartialState()
    is_main, is_new = processes.is_main_process, resumed is None
    if is_main and is_new:
        run_folder.require_new(may_be_taken=is_dry)
    if is_main:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in notices(settings)))
    target = hub_target(plan) if is_main else None
    if is_dry:
        if is_main:
            sys.stdout.write(dry_run(prepare(plan), resumed))
        return 0
    with processes.main_process_first():
        prepared = prepare(plan)
    if target is not None:
        target.create()
        warn_of_local_base(prepared)
    if is_main:
        _write_config(run_folder, plan, settings, is_new=is_new, is_longer=is_longer)
    processes.wait_for_everyone()
    with run_folder.only_trainer() if is_main else contextlib.nullcontext():
        try:
            code = _train(prepared, run_folder, is_main, is_new)
        except Exception:
            if is_main and is_new and not run_folder.has_begun():
                shutil.rmtree(run_folder.path, ignore_errors=True)  # the corrected command finds its folder free
            raise
    if target is not None and code == 0:
        sys.stdout.write(f"\nUploaded to {target.upload(run_folder.model)}\n")
    return code


def _write_config(run_folder: RunFolder, plan: "Plan", settings: Settings, *, is_new: bool, is_longer: bool) -> None:
    """Create the folder of a new run, or write the new number of steps into the one of a longer run."""
    if is_new:
        names = {name: getattr(plan.options, name) for name in ("method", "model", "problems")}
        RunFolder.create(run_folder.path, plan.settings, {**names, "seed": plan.config.seed})
        remember(run_folder.path, settings)
    elif is_longer:
        is_known = started_here(run_folder.path)
        with run_folder.only_trainer():
            run_folder.extend(plan.settings)
        if is_known:
            remember(run_folder.path, settings)


def _train(prepared: "Prepared", run_folder: RunFolder, is_main: bool, is_new: bool) -> int:
    from gtpo.cli.console import ProgressBar
    from gtpo.cli.training_view import TrainingView, closing_table
    from gtpo.training.session import train
    from gtpo.training.summary import summary

    resume = f"gtpo train --resume {shlex.quote(str(run_folder.path))}"
    with _log_to(run_folder.log):
        if is_main:
            opening = summary(prepared, None if is_new else run_folder)
            sys.stderr.write(f"{opening}\n")
            logger.info("\n%s", opening)
        try:
            with ProgressBar() as bar, contextlib.closing(TrainingView()) as view:
                is_finished = train(prepared, run_folder, [view], bar)
        except KeyboardInterrupt:
            is_finished = False
        except Exception as error:
            if not _is_disk_full(error):
                raise
            remedy = f"continue with: {resume}" if run_folder.has_begun() else "run the command again"
            raise DataError(f"The disk of {run_folder.path} is full. Free some space, then {remedy}") from error
    if is_main and is_finished:
        sys.stdout.write(closing_table(run_folder, prepared.plan.options))
    elif is_main:
        sys.stderr.write(f"\nInterrupted. Continue with:\n  {resume}\n")
    return 0 if is_finished else 130


@contextlib.contextmanager
def _log_to(path: Path) -> Generator[None]:
    """Append what is logged to the file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(PrintableFormatter("%(asctime)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("gtpo.cli").setLevel(logging.INFO)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _is_disk_full(error: Exception) -> bool:
    """Whether the disk is full. Libraries wrap the system's error in their own."""
    return getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)


def _leave_process_group() -> None:
    """Stop gloo's threads: if they still run while Python exits, they abort a finished process."""
    from accelerate import PartialState

    processes = PartialState()
    if processes.backend == "gloo":
        gc.collect()  # frees what refers to the process group
        processes.destroy_process_group()


def _help_all(args: argparse.Namespace) -> int:
    method = args.method or "gtpo"
    require_choice("method", method, METHODS)
    from gtpo.training.config.plan import parser_for

    sys.stdout.write(args.parser.format_help())
    sys.stdout.write(f"\noptions of {method}, TRL and transformers:\n{parser_for(method).format_help()}")
    return 0


def _let_threads_sleep() -> None:
    """Let torch's OpenMP threads sleep after a short wait, unless the environment says otherwise.

    Must run before torch is imported. A spinning thread occupies a core that the thread it waits for may need: where
    another process uses one of two cores, two threads would be slower than one. The results do not change.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def _quiet() -> None:
    """Turn off the loading bars and warnings of the libraries underneath."""
    import datasets
    import transformers

    transformers.utils.logging.set_verbosity_error()
    hide_loading_bars()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|accelerate)\.")
