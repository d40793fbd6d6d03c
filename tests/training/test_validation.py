"""Validation while training: it changes nothing that is trained, survives kills, and keeps the best checkpoint."""

import json
import re
import shutil
import sys
import types

import pytest
from safetensors.torch import load_file
from transformers import TrainerControl, TrainerState

from gtpo.cli.main import main
from gtpo.errors import ConfigError
from gtpo.evaluation.sampling import SampledText
from gtpo.training import validation
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.run_folder import RunFolder
from gtpo.training.validation import HeldOutCallback, check_sampler
from tests.cli.launching import SMALL, numbers
from tests.reading import read_metrics

STEPS = [*SMALL, "--seed", "5", "--max_steps", "3", "--save_steps", "2", "--save_total_limit", "1"]
DRAWING = "tests.training.own_rewards:drawing"
WATCHED = [*STEPS, "--held_out_every", "1", "--held_out_samples", "2", "--grader", DRAWING]
POINTS = {1: 0.5, 2: 0.75, 3: 0.75}
"""What is made of the measured pass@1, which a few steps hardly move."""


@pytest.fixture(scope="module")
def measured():
    """Replace the measured pass@1 by POINTS; the sampling stays."""
    metrics = HeldOutCallback._metrics

    def planned(self, step, parts):
        return {**metrics(self, step, parts), "held_out/pass@1": POINTS.get(step, 0.0)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldOutCallback, "_metrics", planned)
        yield


@pytest.fixture(scope="module")
def watched(tmp_path_factory, measured):
    """A run with validation; tests only read it."""
    run = tmp_path_factory.mktemp("watched") / "run"
    assert main(["train", "--output_dir", str(run), *WATCHED]) == 0
    return run


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(first, second):
    return all(first[name].equal(second[name]) for name in first | second)


def trained(run):
    return [{name: row[name] for name in row if not name.startswith("held_out/")} for row in numbers(run)]


def points(run):
    return {row["step"]: row["held_out/pass@1"] for row in read_metrics(run) if "held_out/pass@1" in row}


def test_a_run_trains_the_same_weights_with_and_without_validation(watched, tmp_path):
    run = tmp_path / "run"
    assert main(["train", "--output_dir", str(run), *STEPS]) == 0
    assert same(weights(run / "model"), weights(watched / "model"))
    assert trained(run) == trained(watched)
    assert not (run / "best").exists()


def test_points_are_logged_and_the_earlier_of_two_best_checkpoints_is_kept(watched, capsys):
    assert points(watched) == POINTS
    row = next(row for row in read_metrics(watched) if row["step"] == 2)
    assert {"held_out/pass@2", "held_out/format", "held_out/seconds", "reward"} <= row.keys()
    assert sorted(path.name for path in watched.glob("checkpoint-*")) == ["checkpoint-3"]
    assert json.loads((watched / "best/trainer_state.json").read_text())["global_step"] == 2
    assert not same(weights(watched / "best"), weights(watched / "model"))
    best = json.loads((watched / "summary.json").read_text())["best"]
    assert (best["step"], best["pass@1"], best["grader"]) == (2, 0.75, DRAWING)
    from gtpo.cli.training_view import closing_table

    options = make_plan(None, parse_overrides([])).options
    assert f"best checkpoint: {watched / 'best'}, step 2, pass@1 75.0%" in closing_table(RunFolder(watched), options)


def test_a_run_that_dies_in_a_validation_is_resumed_without_loss(watched, tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    sample = HeldOutCallback._sample

    def die(self, *arguments):
        if self.trainer.state.global_step == 3:
            raise RuntimeError("killed")
        return sample(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(HeldOutCallback, "_sample", die)
        with pytest.raises(RuntimeError, match="killed"):
            main(["train", "--output_dir", str(run), *WATCHED, "--held_out_problems", "4"])
    assert points(run) == {1: 0.5, 2: 0.75}
    shutil.rmtree(run / "best")  # as if the kill had come before it was kept
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(HeldOutCallback, "_sample", lambda self, *rest: asked.append(1) or sample(self, *rest))
        assert main(["train", "--resume", str(run)]) == 0
    assert len(asked) == 1
    assert trained(run) == trained(watched)
    assert points(run) == POINTS
    assert same(weights(run / "best"), weights(watched / "best"))


def begun(run, step):
    """A callback that begins to resume the run at this step, and what it knows of the best checkpoint."""
    callback = HeldOutCallback(None, make_plan(None, parse_overrides(["--held_out_every", "1"])), None, RunFolder(run))
    callback._begin(TrainerState(global_step=step))
    return callback.best, json.loads((run / "summary.json").read_text())["best"]


def test_a_kill_between_the_best_checkpoint_and_the_summary_loses_neither(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best/held_out.json").write_text('{"step": 2, "pass@1": 0.5, "num_problems": 4, "grader": "answer"}')
    (tmp_path / "summary.json").write_text('{"seconds": 1, "best": {"step": 1, "pass@1": 0.25, "folder": "best"}}')
    expected = {"step": 2, "pass@1": 0.5, "num_problems": 4, "grader": "answer", "folder": "best"}
    assert begun(tmp_path, 2) == ((2, 0.5), expected)
    assert json.loads((tmp_path / "summary.json").read_text())["seconds"] == 1
    (tmp_path / "best").rename(tmp_path / "best.former")  # a kill while a better checkpoint took its place
    assert begun(tmp_path, 2) == ((2, 0.5), expected)
    assert (tmp_path / "best").is_dir()


def test_the_last_step_is_measured_and_can_be_the_best(tmp_path, monkeypatch):
    plan = make_plan(None, parse_overrides(["--held_out_every", "3"]))
    callback = HeldOutCallback(None, plan, None, RunFolder(tmp_path))
    monkeypatch.setattr(callback, "measure", lambda step: {"held_out/pass@1": step / 10})
    saved = {}
    for step in range(1, 5):
        control = TrainerControl()
        callback.on_step_end(None, TrainerState(global_step=step, max_steps=4), control)
        saved[step] = control.should_log and control.should_save
    assert saved == {1: False, 2: False, 3: True, 4: True}


def test_all_checkpoints_of_a_run_are_evaluated_over_steps(watched, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", str(watched), "--all-checkpoints", "--limit", "4", "--samples", "2"]) == 0
    results = next(tmp_path.rglob("results.json"))
    changed = results.read_text().replace(f"{watched}/checkpoint-", f"{watched}/checkpoint-9")
    results.write_text(changed)  # as if the run had other checkpoints then
    assert main(["eval", str(watched), "--all-checkpoints", "--limit", "4", "--samples", "2"]) == 0
    table = capsys.readouterr().out
    (out,) = (tmp_path / "runs/eval").iterdir()
    results = {result["step"]: result for result in json.loads((out / "results.json").read_text())["results"]}
    assert {step: result["model"] for step, result in results.items()} == {
        0: "lab",
        2: str(watched / "best"),
        3: str(watched / "checkpoint-3"),
    }
    for step, result in results.items():
        assert re.search(rf"│ +{step} │ +{100 * result['metrics']['pass@1']['value']:.1f} \[", table)
    assert (out / "curves.svg").read_text().count("pass@2") == 1


class Echo:
    """An engine whose completions are their seeds."""

    tokenizer = types.SimpleNamespace(chat_template=None)
    context_length = None

    def __init__(self):
        self.description = {"engine": "transformers", "weights": "none", "dtype": "none"}

    def sample(self, prompts, seeds, settings):
        return [SampledText(f"{prompt} {seed}", 1, False, None) for prompt, seed in zip(prompts, seeds, strict=True)]


@pytest.mark.parametrize("size", [2, 3])
def test_processes_share_the_problems_and_agree_on_the_result(size, tmp_path, monkeypatch):
    monkeypatch.setattr("gtpo.evaluation.evaluate.encode_prompt", lambda tokenizer, messages: [len(str(messages))])
    plan = make_plan(None, parse_overrides(["--held_out_every", "1", "--held_out_problems", "7"]))
    callback = HeldOutCallback(None, plan, Echo.tokenizer, RunFolder(tmp_path))
    alone = [callback._sample(Echo(), 0, 1)]
    shares = [callback._sample(Echo(), index, size) for index in range(size)]
    assert max(len(share) for share, _ in shares) <= -(-7 // size)
    callback._metrics(1, alone)
    written = (tmp_path / "held_out/step-1/lab.jsonl").read_text()
    assert len(written.splitlines()) == 1 + 7
    results = []
    monkeypatch.setattr(validation, "gather_object", lambda outcome: shares)
    monkeypatch.setattr(validation, "broadcast_object_list", lambda result: results.append(result[0]))
    monkeypatch.setattr(callback, "_sampler", lambda step: pytest.MonkeyPatch.context())
    monkeypatch.setattr(callback, "_sample", lambda *arguments: None)
    callback.trainer = types.SimpleNamespace(args=types.SimpleNamespace(process_index=0, world_size=size))
    callback.measure(1)
    assert (tmp_path / "held_out/step-1/lab.jsonl").read_text() == written
    assert len(results) == 1


class Colocated:
    """Stands in for TRL's VLLMGeneration and its LLM; records what is asked of them."""

    def __init__(self, sleeps):
        self.enable_sleep_mode, self.llm, self.asked = sleeps, self, []
        self.llm_engine = types.SimpleNamespace(model_config=types.SimpleNamespace(max_model_len=64, dtype="bfloat16"))

    def sync_weights(self):
        self.asked.append("sync")

    def wake_up(self, tags):
        self.asked += tags

    def sleep(self, level):
        self.asked.append("sleep")

    def generate(self, inputs, params, use_tqdm):
        self.asked.append("generate")
        text = types.SimpleNamespace(text="", token_ids=[1, 2], finish_reason="stop")
        return [types.SimpleNamespace(outputs=[text]) for _ in inputs]


@pytest.mark.parametrize(
    ("sleeps", "asked", "loaded"),
    [(False, ["sync", "generate"], 4), (True, ["sync", "kv_cache", "generate", "sleep"], -1)],
)
def test_the_colocated_vllm_samples_with_the_current_weights(sleeps, asked, loaded, tmp_path, monkeypatch):
    monkeypatch.setattr("gtpo.evaluation.evaluate.encode_prompt", lambda tokenizer, messages: [1])
    monkeypatch.setitem(sys.modules, "vllm", types.SimpleNamespace(SamplingParams=types.SimpleNamespace))
    plan = make_plan(None, parse_overrides(["--held_out_every", "1", "--held_out_tokens", "8"]))
    generation = Colocated(sleeps)
    arguments = types.SimpleNamespace(process_index=0, world_size=1)
    trainer = types.SimpleNamespace(use_vllm=True, vllm_generation=generation, args=arguments)
    tokenizer = types.SimpleNamespace(decode=lambda ids, **_: f"<answer>{ids}</answer>")
    values = HeldOutCallback(trainer, plan, tokenizer, RunFolder(tmp_path)).measure(4)
    assert values.keys() >= {"held_out/pass@1", "held_out/format"}
    assert generation.asked == asked
    assert trainer._last_loaded_step == loaded  # what TRL's generation compares with the step


REFUSED = {
    "a file without a test split": (["--problems", "mine.jsonl"], "Set --held_out"),
    "no problems": (["--held_out_problems", "0"], "Set --held_out"),
    "a vLLM server": (["--use_vllm", "true", "--vllm_mode", "server"], "--vllm_mode colocate"),
    "tensor parallelism": (["--use_vllm", "true", "--vllm_tensor_parallel_size", "2"], "Set it to 1"),
}


@pytest.mark.parametrize(("words", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_validation_that_cannot_work_is_refused_before_any_work(words, remedy):
    with pytest.raises(ConfigError, match=remedy):
        check_sampler(make_plan(None, parse_overrides(["--held_out_every", "2", *words])))


def test_weights_that_are_split_over_processes_need_vllm(monkeypatch):
    plan = make_plan(None, parse_overrides(["--held_out_every", "2"]))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ConfigError, match="--use_vllm true"):
        check_sampler(plan)
