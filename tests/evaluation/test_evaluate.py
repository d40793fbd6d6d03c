"""An evaluation says the same however often it is interrupted, and again when it is read back from its files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.evaluate import evaluate, from_files, sample_problems
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.problems import SYSTEM_PROMPT, load_problems
from tests.evaluation.answering import Parrot, save_answering_model, save_problems

GOLDS = ["1", "2", "0", "3", "1", "1", "5"]
RIGHT, WRONG = "<reasoning>r</reasoning><answer>1</answer>", "<reasoning>r</reasoning><answer>2</answer>"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [save_answering_model(folder / "a"), save_answering_model(folder / "b", seed=1)]


@pytest.fixture
def toy(tmp_path):
    return save_problems(tmp_path / "toy.jsonl", GOLDS)


def ask(model, toy, out, **options):
    settings = SamplingSettings(num_samples=8, seed=options.pop("seed", 0))
    return evaluate([model] if isinstance(model, str) else model, [toy], settings, out, **{"batch_size": 5} | options)


def sample_file(out):
    (path,) = out.glob("*/*.jsonl")
    return path


@pytest.mark.parametrize("num_batches", [0, 1, 4, 11])
def test_an_interrupted_evaluation_ends_with_the_same_bytes(models, toy, tmp_path, num_batches):
    whole = ask(models[0], toy, tmp_path / "whole")
    seen = []

    def interrupt(what, done, total):
        seen.append((done, total))
        if len(seen) > num_batches:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(models[0], toy, tmp_path / "cut", progress=interrupt)
    assert seen[0] == (0, 56)
    path = sample_file(tmp_path / "cut")
    path.write_bytes(path.read_bytes() + b'{"problem": 0, "sam')
    resumed = ask(models[0], toy, tmp_path / "cut", progress=lambda *what: seen.append(what[1:]))
    assert seen[num_batches + 1] == (5 * num_batches, 56)
    assert path.read_bytes() == sample_file(tmp_path / "whole").read_bytes()
    assert resumed.to_json() == whole.to_json()


def test_a_larger_limit_adds_the_samples_that_are_missing(models, toy, tmp_path):
    ask(models[0], toy, tmp_path / "grown", limit=3)
    seen = []
    grown = ask(models[0], toy, tmp_path / "grown", limit=6, progress=lambda *what: seen.append(what[1:]))
    assert seen[0] == (20, 48)
    whole = ask(models[0], toy, tmp_path / "whole", limit=6)
    assert sample_file(tmp_path / "grown").read_bytes() == sample_file(tmp_path / "whole").read_bytes()
    assert grown.to_json() == whole.to_json()
    with pytest.raises(ConfigError, match="there were 6 problems, there are 2"):
        ask(models[0], toy, tmp_path / "grown", limit=2)


def test_asking_again_samples_nothing(models, toy, tmp_path):
    first = ask(models[0], toy, tmp_path)
    before = sample_file(tmp_path).read_bytes()
    seen = []
    again = ask(models[0], toy, tmp_path, progress=lambda *what: seen.append(what[1:]))
    assert seen[0] == (56, 56)
    assert sample_file(tmp_path).read_bytes() == before
    assert again.to_json() == first.to_json()


def test_metrics_recomputed_from_the_file_equal_those_after_sampling(models, toy, tmp_path):
    sampled = ask(models, toy, tmp_path)
    paths = sorted(tmp_path.glob("*/*.jsonl"))
    assert from_files(paths).to_json() == sampled.to_json()
    assert list(from_files(paths, ks=[2, 3]).measurements[0].values)[:4] == ["pass@2", "pass@3", "maj@2", "maj@3"]


def test_samples_depend_on_the_seed_and_not_on_the_batch_size(models, toy, tmp_path):
    def texts(out, **options):
        ask(models[0], toy, out, **options)
        return [json.loads(line)["text"] for line in sample_file(out).read_bytes().splitlines()[1:]]

    base = texts(tmp_path / "5")
    assert texts(tmp_path / "64", batch_size=64) == base
    assert texts(tmp_path / "seed", seed=1) != base
    assert all(len(set(base[start : start + 8])) > 1 for start in range(0, 56, 8))


def test_a_batch_size_changed_between_sittings_is_no_change_of_settings(models, toy, tmp_path):
    whole = ask(models[0], toy, tmp_path / "whole")

    def interrupt(what, done, total):
        if done >= 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(models[0], toy, tmp_path / "cut", progress=interrupt)
    resumed = ask(models[0], toy, tmp_path / "cut", batch_size=3)
    for name, values in resumed.measurements[0].values.items():
        np.testing.assert_allclose(values, whole.measurements[0].values[name], rtol=1e-5)


def test_the_choice_of_sampling_is_written_into_file_and_result(models, toy, tmp_path):
    greedy = evaluate(models[:1], [toy], SamplingSettings(num_samples=1), tmp_path / "greedy")
    header = json.loads(sample_file(tmp_path / "greedy").read_bytes().split(b"\n")[0])
    assert header["settings"]["temperature"] == 0.0
    assert greedy.to_json()["results"][0]["settings"] == header["settings"]
    drawn = ask(models[0], toy, tmp_path / "drawn").to_json()["results"][0]["settings"]
    assert (drawn["temperature"], drawn["top_p"], drawn["num_samples"], drawn["seed"]) == (0.9, 1.0, 8, 0)
    assert drawn["system_prompt"] == SYSTEM_PROMPT
    assert drawn["max_new_tokens"] == 128 - len(SYSTEM_PROMPT.split()) - 2


def test_weights_that_changed_under_the_same_name_are_not_mixed(toy, tmp_path):
    model = save_answering_model(tmp_path / "model")
    ask(model, toy, tmp_path / "out")
    save_answering_model(tmp_path / "model", seed=9)
    with pytest.raises(ConfigError, match=r"engine\.weights was"):
        ask(model, toy, tmp_path / "out")


def parrot(path, toy, lines, num_samples=2, model="parrot", entropy=0.5):
    problems = load_problems(toy)
    settings = SamplingSettings(num_samples=num_samples)
    sample_problems(
        Parrot(lines, entropy), model, "toy", problems, settings, path, batch_size=4, progress=lambda *_: None
    )
    return path


def test_metrics_of_known_samples(tmp_path):
    toy = save_problems(tmp_path / "toy.jsonl", ["1", "1"])
    path = parrot(tmp_path / "s.jsonl", toy, [RIGHT, WRONG, "blah blah blah", "<answer>1.0</answer>"])
    result = from_files([path], ks=[1, 2]).to_json()["results"][0]
    values = {name: estimate["value"] for name, estimate in result["metrics"].items()}
    assert values == {
        "pass@1": 0.5,
        "pass@2": 1.0,
        "maj@1": 0.5,
        "maj@2": 1.0,  # right is seen first in one problem, and alone in the other
        "distinct_answers": 1.5,
        "distinct_completions": 2.0,
        "format_rate": 0.5,
        "mean_length": 1.5,
        "truncation_rate": 0.0,
        "mean_entropy": 0.5,
    }
    assert result["metrics"]["pass@2"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert result["metrics"]["format_rate"]["low"] == 0.0
    assert result["metrics"]["format_rate"]["high"] == 1.0
    assert result["num_problems"] == 2


def test_diversity_counts_what_differs_in_meaning_and_in_letters(tmp_path):
    toy = save_problems(tmp_path / "toy.jsonl", ["1"])
    lines = [RIGHT, RIGHT, "<answer>1.0</answer>", "<answer>7</answer>", "<answer>7.0</answer>", "nothing"]
    many = parrot(tmp_path / "many.jsonl", toy, lines, num_samples=6)
    one = parrot(tmp_path / "one.jsonl", toy, lines, num_samples=1)
    (values,) = ({n: e.value for n, e in m.estimates.items()} for m in from_files([many]).measurements)
    assert (values["distinct_answers"], values["distinct_completions"]) == (2.0, 5.0)
    assert "distinct_answers" not in from_files([one]).measurements[0].values  # of one sample it says nothing


def test_an_engine_without_entropies_leaves_that_number_empty(tmp_path):
    toy = save_problems(tmp_path / "toy.jsonl", ["1", "1"])
    paths = [
        parrot(tmp_path / f"{model}.jsonl", toy, [RIGHT] * 4, model=model, entropy=entropy)
        for model, entropy in (("with", 0.5), ("without", None))
    ]
    result = from_files(paths).to_json()
    assert result["results"][0]["metrics"]["mean_entropy"]["value"] == 0.5
    assert result["results"][1]["metrics"]["mean_entropy"] is None
    assert "mean_entropy" not in result["differences"][0]["metrics"]
    assert result["differences"][0]["metrics"]["pass@1"]["difference"] == 0.0


def test_the_paired_difference_is_taken_problem_by_problem(tmp_path):
    toy = save_problems(tmp_path / "toy.jsonl", ["1"] * 4)
    good = parrot(tmp_path / "g.jsonl", toy, [RIGHT, RIGHT] * 2 + [RIGHT, WRONG] * 2, model="good")
    bad = parrot(tmp_path / "b.jsonl", toy, [RIGHT, WRONG] * 2 + [WRONG, WRONG] * 2, model="bad")
    evaluation = from_files([good, bad])
    (difference,) = evaluation.differences
    assert (difference.first, difference.second, difference.problems, difference.num_problems) == (
        "good",
        "bad",
        "toy",
        4,
    )
    paired = difference.metrics["pass@1"]
    assert (paired.difference, paired.low, paired.high) == (0.5, 0.5, 0.5)
    unpaired = evaluation.measurements[0].estimates["pass@1"]
    assert unpaired.high - unpaired.low > 0.2
    assert evaluation.to_json()["differences"][0]["metrics"]["pass@1"]["difference"] == 0.5


def test_an_unfinished_file_is_measured_over_its_whole_problems_and_compared_on_the_common_ones(tmp_path, caplog):
    toy = save_problems(tmp_path / "toy.jsonl", ["1"] * 3)
    whole = parrot(tmp_path / "w.jsonl", toy, [RIGHT, RIGHT, WRONG, WRONG, WRONG, WRONG], model="whole")
    part = Path(shutil.copy(whole, tmp_path / "p.jsonl"))
    lines = part.read_text().replace('"model": "parrot"', "").replace('"whole"', '"part"').splitlines(keepends=True)
    part.write_text("".join(lines[:4]))
    evaluation = from_files([whole, part])
    assert evaluation.measurements[1].num_problems == 1
    assert evaluation.measurements[1].estimates["pass@1"].value == 1.0
    assert evaluation.differences[0].num_problems == 1
    assert evaluation.differences[0].metrics["pass@1"].difference == 0.0
    assert "unfinished: metrics over 1 of 3 problems" in caplog.text
    part.write_text("".join(lines[:2]))
    with pytest.raises(DataError, match="no problem with all its 2 samples"):
        from_files([part])


def test_files_that_cannot_stand_together_are_refused(tmp_path):
    toy = save_problems(tmp_path / "toy.jsonl", ["1", "1"])
    path = parrot(tmp_path / "a.jsonl", toy, [RIGHT] * 4)
    with pytest.raises(ConfigError, match="given more than once"):
        from_files([path, path])
    other = save_problems(tmp_path / "toy2.jsonl", ["1", "7"])
    with pytest.raises(DataError, match="different problems under the name 'toy'"):
        from_files([path, parrot(tmp_path / "b.jsonl", other, [RIGHT] * 4, model="other")])


def test_names_that_would_share_a_file_and_ks_beyond_the_samples_are_refused_before_any_work(toy, tmp_path):
    settings = SamplingSettings(num_samples=4)
    with pytest.raises(ConfigError, match="k must be from 1 to the number of samples"):
        evaluate(["/nowhere"], [toy], settings, tmp_path, ks=[1, 8])
    with pytest.raises(ConfigError, match="Two of the models"):
        evaluate(["m", "m/"], [toy], settings, tmp_path)
    with pytest.raises(ConfigError, match="Two of the problem sets"):
        evaluate(["m"], [toy, toy], settings, tmp_path)
    with pytest.raises(ConfigError, match="batch_size"):
        evaluate(["m"], [toy], settings, tmp_path, batch_size=0)
    with pytest.raises(ConfigError, match="limit"):
        evaluate(["m"], [toy], settings, tmp_path, limit=0)
    with pytest.raises(ConfigError, match="at least one problem set"):
        evaluate(["m"], [], settings, tmp_path)


def test_a_trailing_slash_names_the_same_model(models, toy, tmp_path):
    ask(models[0], toy, tmp_path)
    seen = []
    ask(f"{models[0]}/", toy, tmp_path, progress=lambda *what: seen.append(what[1:]))
    assert seen[0] == (56, 56)


def test_a_prompt_that_fills_the_context_is_refused(models, tmp_path):
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"question": "w1 " * 130, "answer": "1"}) + "\n")
    with pytest.raises(ConfigError, match="Leave such problems out"):
        ask(models[0], str(long), tmp_path / "out")
