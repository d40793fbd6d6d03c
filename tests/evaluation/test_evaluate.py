"""An evaluation gives the same samples however often it is interrupted, and the same metrics from its files."""

import json
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gtpo.errors import ConfigError
from gtpo.evaluation.evaluate import _warn_of_column, evaluate, from_files, no_progress, sample_problems
from gtpo.evaluation.samples import read_samples
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.problems import SYSTEM_PROMPT, Problem
from tests.evaluation.answering import save_answering_model
from tests.evaluation.parrot import Parrot, save_problems, save_samples

GOLDS = ["1", "2", "0", "3", "1", "1", "5"]
DYING_SCRIPT = """
import os, sys
from pathlib import Path
from tests.evaluation.parrot import save_samples

def dying(texts):
    yield from texts[:8]
    os._exit(9)

save_samples(Path(sys.argv[1]), sys.argv[2], dying(sys.argv[3:]))
"""
FORMAT_1 = r"""{"gtpo_samples": 1, "model": "m", "engine": {"engine": "parrot", "weights": "none", "dtype": "none"}, \
"problems": {"name": "toy", "count": 1, "sha256": "f9777d6b75d37589"}, "settings": {"num_samples": 2, \
"temperature": 0.9, "top_p": 1.0, "max_new_tokens": 1500, "seed": 0, "system_prompt": "Be brief."}}
{"problem": 0, "sample": 0, "gold": "4", "text": "<answer>4</answer>", "num_tokens": 1, "truncated": false, \
"entropy": 0.5}
{"problem": 0, "sample": 1, "gold": "4", "text": "\ud800", "num_tokens": 1, "truncated": false, "entropy": 0.5}
""".replace("\\\n", "")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [save_answering_model(folder / "a"), save_answering_model(folder / "b", seed=1)]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return save_problems(tmp_path_factory.mktemp("problems") / "toy.jsonl", GOLDS)


@pytest.fixture(scope="module")
def complete(models, toy, tmp_path_factory):
    """The folder of an evaluation of both models that was not interrupted, and its result."""
    out = tmp_path_factory.mktemp("complete")
    return out, ask(models, toy, out)


def ask(models, toy, out, **options):
    settings = SamplingSettings(num_samples=8, seed=options.pop("seed", 0))
    return evaluate(models, [toy], settings, out, **{"batch_size": 5} | options)


def sample_file(out, number=0):
    return sorted(out.glob("*/*.jsonl"))[number]


def texts(out):
    return [json.loads(line)["text"] for line in sample_file(out).read_bytes().splitlines()[1:]]


class Interrupt:
    """Progress that raises KeyboardInterrupt at its n-th call."""

    def __init__(self, n):
        self.calls, self.n = [], n

    def __call__(self, task, done, total):
        self.calls.append((done, total))
        if len(self.calls) == self.n:
            raise KeyboardInterrupt


@pytest.mark.parametrize("num_batches", [0, 4, 11])
def test_an_interrupted_evaluation_ends_with_the_same_bytes(models, toy, complete, tmp_path, num_batches):
    with pytest.raises(KeyboardInterrupt):
        ask(models[:1], toy, tmp_path, progress=Interrupt(num_batches + 1))
    path = sample_file(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"problem": 0, "sam')
    resumed = Interrupt(None)
    result = ask(models[:1], toy, tmp_path, progress=resumed)
    assert resumed.calls[0] == (5 * num_batches, 56)
    assert path.read_bytes() == sample_file(complete[0]).read_bytes()
    assert result.to_json()["results"] == complete[1].to_json()["results"][:1]


def test_a_killed_process_leaves_a_file_that_is_resumed_to_the_same_bytes(toy, tmp_path):
    answers = [f"<answer>{number}</answer>" for number in range(14)]
    killed = tmp_path / "killed.jsonl"
    command = [sys.executable, "-c", DYING_SCRIPT, str(killed), toy, *answers]
    assert subprocess.run(command, timeout=120, cwd=Path(__file__).parents[2]).returncode == 9
    assert killed.read_bytes().count(b"\n") == 1 + 8
    save_samples(killed, toy, answers[8:])
    assert killed.read_bytes() == save_samples(tmp_path / "complete.jsonl", toy, answers).read_bytes()


def test_a_file_of_format_1_is_resumed_without_sampling_again(tmp_path):
    """The file was written by the first version. Its header pins the digest of the problems and all settings."""
    path = tmp_path / "toy.jsonl"
    path.write_text(FORMAT_1)
    settings = SamplingSettings(num_samples=2, system_prompt="Be brief.")
    problems = [Problem("2 + 2?", "4", "any source")]
    sample_problems(Parrot([]), "m", "toy", problems, settings, path, batch_size=4, progress=no_progress)
    assert path.read_text() == FORMAT_1
    assert [sample.text for sample in read_samples(path).samples] == ["<answer>4</answer>", "\ud800"]


def test_the_first_sample_of_a_problem_holds_its_question(toy, tmp_path):
    path = save_samples(tmp_path / "samples.jsonl", toy, ["<answer>1</answer>"] * 14)
    assert [sample.question for sample in read_samples(path).samples[:4]] == ["w0 w0", None, "w1 w0", None]


def with_column(value, path, texts):
    problems = [Problem("2 + 2?", "4", "mine", others={"tests": value})]
    settings = SamplingSettings(num_samples=2)
    sample_problems(Parrot(texts), "m", "toy", problems, settings, path, batch_size=4, progress=no_progress)
    return read_samples(path).samples


def test_samples_with_another_column_for_the_grader_are_refused(tmp_path):
    path = tmp_path / "toy.jsonl"
    assert with_column(["f(1) == 2"], path, ["a", "b"])[0].columns == {"tests": ["f(1) == 2"]}
    assert len(with_column(["f(1) == 2"], path, [])) == 2
    with pytest.raises(ConfigError, match=r"problems\.sha256 was"):
        with_column(["f(1) == 3"], path, [])


@pytest.mark.parametrize("value", [date(2026, 1, 1), b"x", float("nan")], ids=["date", "bytes", "nan"])
def test_a_column_that_does_not_fit_into_json_gets_one_warning(value, tmp_path, caplog):
    _warn_of_column.cache_clear()
    assert with_column(value, tmp_path / "toy.jsonl", ["a", "b"])[0].columns is None
    assert caplog.text.count("The column 'tests' has values that do not reach graders") == 1


def test_a_larger_limit_adds_the_missing_samples(models, toy, tmp_path):
    ask(models[:1], toy, tmp_path / "grown", limit=3)
    progress = Interrupt(None)
    grown = ask(models[:1], toy, tmp_path / "grown", limit=6, progress=progress)
    assert progress.calls[0] == (20, 48)
    complete = ask(models[:1], toy, tmp_path / "complete", limit=6)
    assert sample_file(tmp_path / "grown").read_bytes() == sample_file(tmp_path / "complete").read_bytes()
    assert grown.to_json() == complete.to_json()
    with pytest.raises(ConfigError, match=r"problems\.count was 6, is 2"):
        ask(models[:1], toy, tmp_path / "grown", limit=2)


def test_the_same_request_samples_nothing_again_even_with_a_trailing_slash(models, toy, complete):
    out, first = complete
    before = sample_file(out).read_bytes()
    progress = Interrupt(None)
    again = ask([f"{model}/" for model in models], toy, out, progress=progress)
    assert progress.calls[0] == (56, 56)
    assert sample_file(out).read_bytes() == before
    assert again.to_json() == first.to_json()


def test_metrics_from_files_equal_those_after_sampling(complete):
    out, sampled = complete
    paths = sorted(out.glob("*/*.jsonl"))
    assert from_files(paths).to_json() == sampled.to_json()
    assert list(from_files(paths, ks=[2, 3]).measurements[0].values)[:4] == ["pass@2", "pass@3", "maj@2", "maj@3"]


def test_samples_depend_on_the_seed_but_not_on_the_batch_size(models, toy, complete, tmp_path):
    base = texts(complete[0])
    assert all(len(set(base[start : start + 8])) > 1 for start in range(0, 56, 8))
    ask(models[:1], toy, tmp_path / "64", batch_size=64)
    assert texts(tmp_path / "64") == base
    ask(models[:1], toy, tmp_path / "seed", seed=1)
    assert texts(tmp_path / "seed") != base


def test_the_batch_size_may_change_on_resume(models, toy, complete, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        ask(models[:1], toy, tmp_path, progress=Interrupt(6))
    resumed = ask(models[:1], toy, tmp_path, batch_size=3)
    for name, values in resumed.measurements[0].values.items():
        np.testing.assert_allclose(values, complete[1].measurements[0].values[name], rtol=1e-5)


def test_the_resolved_sampling_settings_are_in_file_and_result(models, toy, complete, tmp_path):
    greedy = evaluate(models[:1], [toy], SamplingSettings(num_samples=1), tmp_path)
    header = json.loads(sample_file(tmp_path).read_bytes().split(b"\n")[0])
    assert header["settings"]["temperature"] == 0.0
    assert greedy.to_json()["results"][0]["settings"] == header["settings"]
    assert complete[1].to_json()["results"][0]["settings"] == {
        "num_samples": 8,
        "temperature": 0.9,
        "top_p": 1.0,
        "max_new_tokens": 128 - len(SYSTEM_PROMPT.split()) - 2,
        "seed": 0,
        "system_prompt": SYSTEM_PROMPT,
    }


def test_samples_of_other_weights_under_the_same_name_are_refused(models, toy, tmp_path):
    model = shutil.copytree(models[0], tmp_path / "model")
    ask([str(model)], toy, tmp_path / "out", limit=1)
    shutil.copytree(models[1], model, dirs_exist_ok=True)
    with pytest.raises(ConfigError, match=r"engine\.weights was"):
        ask([str(model)], toy, tmp_path / "out", limit=1)


def test_wrong_requests_are_refused_before_any_work(toy, tmp_path):
    settings = SamplingSettings(num_samples=4)
    with pytest.raises(ConfigError, match="k must be from 1 to the number of samples"):
        evaluate(["/nowhere"], [toy], settings, tmp_path, ks=[1, 8])
    with pytest.raises(ConfigError, match="two results for model 'm' on 'toy'"):
        evaluate(["m", "m/"], [toy], settings, tmp_path)
    with pytest.raises(ConfigError, match="two results for model 'm' on 'toy'"):
        evaluate(["m"], [toy, toy], settings, tmp_path)
    with pytest.raises(ConfigError, match="engine must be one of 'transformers', 'vllm', got 'llama'"):
        evaluate(["m"], [toy], settings, tmp_path, engine="llama")
    with pytest.raises(ConfigError, match="batch_size"):
        evaluate(["m"], [toy], settings, tmp_path, batch_size=0)
    with pytest.raises(ConfigError, match="at least one problem set"):
        evaluate(["m"], [], settings, tmp_path)
    with pytest.raises(ConfigError, match="columns only apply to data of your own"):
        evaluate(["m"], ["lab"], settings, tmp_path, columns={"question": "task"})


def test_a_prompt_that_fills_the_context_is_refused(models, tmp_path):
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"question": "w1 " * 130, "answer": "1"}) + "\n")
    with pytest.raises(ConfigError, match="remove the longest problems"):
        ask(models[:1], str(long), tmp_path / "out")
