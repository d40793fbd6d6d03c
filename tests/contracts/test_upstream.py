"""The code of docs/upstream.md does what the page says, with the version of TRL that is installed."""

import functools
import importlib.util
import re
import sys
from pathlib import Path

import pandas
import pytest
import torch
from datasets import Dataset

from tests.trl.checked import parity_reward, prompts, settings

PAGE = (Path(__file__).parents[2] / "docs/upstream.md").read_text()
SECTIONS = {int(text[0]): text for text in PAGE.split("\n## ")[1:]}
TRL = Path(importlib.util.find_spec("trl").submodule_search_locations[0])
TINY = "trl-internal-testing/tiny-Qwen2ForCausalLM-2.5"


def code(number, language):
    (block,) = re.findall(rf"```{language}\n(.*?)```", SECTIONS[number], re.DOTALL)
    return block


def patched_source(number):
    """The file of TRL that the diff of a section names, after the diff. Each hunk must fit in exactly one place."""
    header, *hunks = code(number, "diff").split("@@\n")
    source = (TRL / re.search(r"--- a/trl/(.*)", header)[1]).read_text()
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source


def patched_trainer(number, tmp_path, monkeypatch):
    """GRPOTrainer after the diff of a section, which is a copy of TRL's module."""
    path = tmp_path / f"patched_{number}.py"
    path.write_text(patched_source(number))
    spec = importlib.util.spec_from_file_location(f"trl.trainer.{path.stem}", path)  # for its relative imports
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module.GRPOTrainer


def run(trainer_class, model, folder, dataset=None, resume=None, **options):
    from trl import GRPOConfig

    of_gtpo = ("entropy_threshold", "initial_entropy")
    options = {name: value for name, value in settings(folder, **options).items() if name not in of_gtpo}
    config = GRPOConfig(**options, bf16=False, use_cpu=True)
    trainer = trainer_class(model, parity_reward, config, prompts() if dataset is None else dataset)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def weights(trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("number", [2, 4, 6])
def test_the_diff_fits_this_version_of_trl_and_is_valid_python(number):
    compile(patched_source(number), "patched", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("has_branch", [True, False])
def test_the_test_for_trl_passes_and_fails_without_the_branch(has_branch, tiny_model, tmp_path, monkeypatch):
    from trl.trainer import grpo_trainer

    from trl import GRPOConfig

    class TrlTestCase:
        tmp_dir = str(tmp_path)

    source = code(1, "python").replace(TINY, tiny_model).replace("from .testing_utils import TrlTestCase\n", "")
    names = {"TrlTestCase": TrlTestCase}
    exec(compile(source, "test_grpo_trainer.py", "exec"), names)
    names["load_dataset"] = lambda *_, **__: prompts()
    names["GRPOConfig"] = functools.partial(GRPOConfig, bf16=False, use_cpu=True)
    test = names["TestTokenAdvantages"]()
    (mark,) = test.test_advantages_per_token.pytestmark
    loss_types = mark.args[1]
    assert len(loss_types) == 7
    if has_branch:
        for loss_type in loss_types:
            test.test_advantages_per_token(loss_type)
        return
    compute_loss = grpo_trainer.GRPOTrainer._compute_loss

    def without_branch(self, model, inputs):
        return compute_loss(self, model, {**inputs, "advantages": inputs["advantages"].unsqueeze(1)})

    monkeypatch.setattr(grpo_trainer.GRPOTrainer, "_compute_loss", without_branch)
    with pytest.raises((AssertionError, RuntimeError)):
        test.test_advantages_per_token("grpo")


@pytest.mark.slow
def test_cut_micro_batches_have_the_gradients_of_padded_ones_in_fewer_columns(tiny_model, tmp_path, monkeypatch):
    from trl import GRPOTrainer

    class Lengths:
        """Mixin: completions of 2 to 6 tokens, and the number of columns of each micro-batch."""

        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            length = torch.arange(len(batch["completion_mask"])).unsqueeze(1) % 5 + 2
            batch["completion_mask"] = (torch.arange(batch["completion_mask"].shape[1]) < length).long()
            return batch

        def _compute_loss(self, model, inputs):
            self.columns = [*getattr(self, "columns", []), inputs["completion_ids"].shape[1]]
            return super()._compute_loss(model, inputs)

    options = {"gradient_accumulation_steps": 8, "per_device_train_batch_size": 2, "max_steps": 2}
    bases = (GRPOTrainer, patched_trainer(4, tmp_path, monkeypatch))
    stock, cut = (run(type("Counted", (Lengths, base), {}), tiny_model, tmp_path, **options) for base in bases)
    assert set(stock.columns) == {6}
    assert sum(cut.columns) < sum(stock.columns)
    torch.testing.assert_close(weights(cut), weights(stock))
    assert [log["grad_norm"] for log in cut.state.log_history[:2]] == pytest.approx(
        [log["grad_norm"] for log in stock.state.log_history[:2]], rel=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "num_prompts"),
    [({}, 4), ({"steps_per_generation": 4, "per_device_train_batch_size": 4}, 16)],
    ids=["third epoch", "middle of a generation batch"],
)
def test_a_run_resumes_exactly_and_that_of_trl_does_not(options, num_prompts, tiny_model, tmp_path):
    from trl import GRPOTrainer

    names = {}
    exec(compile(code(5, "python"), "resuming.py", "exec"), names)
    dataset = Dataset.from_dict({"prompt": [f"say w{i} :" for i in range(num_prompts)]})
    saving = {"save_strategy": "steps", "save_steps": 5, "max_steps": 8, **options}
    differs = {}
    for trainer_class in (names["ResumingGRPOTrainer"], GRPOTrainer):
        folder = tmp_path / trainer_class.__name__
        unbroken = run(trainer_class, tiny_model, folder, dataset, **saving)
        checkpoint = str(folder / "checkpoint-5")
        resumed = run(trainer_class, tiny_model, folder, dataset, checkpoint, **saving)
        differs[trainer_class.__name__] = not weights(resumed).equal(weights(unbroken))
    assert differs == {"ResumingGRPOTrainer": False, "GRPOTrainer": True}


@pytest.mark.slow
def test_completions_are_logged_once(tiny_model, tmp_path, monkeypatch):
    from trl import GRPOTrainer

    options = {"num_iterations": 4, "max_steps": 4, "logging_steps": 1, "log_completions": True}
    bases = {"stock": GRPOTrainer, "patched": patched_trainer(6, tmp_path, monkeypatch)}
    written = {name: [] for name in bases}
    for name, base in bases.items():
        note = written[name].append
        monkeypatch.setattr(pandas.DataFrame, "to_parquet", lambda frame, path, note=note: note(len(frame)))
        run(base, tiny_model, tmp_path / name, **options)
    assert written == {"stock": [8] * 5, "patched": [8]}
