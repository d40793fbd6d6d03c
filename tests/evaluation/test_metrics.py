"""Metrics and differences of samples that are known exactly."""

import shutil
from pathlib import Path

import pytest

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.evaluate import from_files
from tests.evaluation.parrot import save_problems, save_samples

RIGHT, WRONG = "<reasoning>r</reasoning><answer>1</answer>", "<reasoning>r</reasoning><answer>2</answer>"


@pytest.fixture
def toy(tmp_path):
    """Save a problem set with these gold answers."""
    return lambda *golds: save_problems(tmp_path / "toy.jsonl", list(golds))


def test_metrics_of_known_samples(toy, tmp_path):
    texts = [RIGHT, WRONG, "blah blah blah", "<answer>1.0</answer>"]
    path = save_samples(tmp_path / "s.jsonl", toy("1", "1"), texts)
    result = from_files([path], ks=[1, 2]).to_json()["results"][0]
    values = {name: estimate["value"] for name, estimate in result["metrics"].items()}
    assert values == {
        "pass@1": 0.5,
        "pass@2": 1.0,
        "maj@1": 0.5,
        "maj@2": 1.0,  # the correct answer comes first in one problem, and is the only answer in the other
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


def test_diversity_counts_answers_by_meaning_and_completions_by_text(toy, tmp_path):
    texts = [RIGHT, RIGHT, "<answer>1.0</answer>", "<answer>7</answer>", "<answer>7.0</answer>", "nothing"]
    problems = toy("1")
    six = save_samples(tmp_path / "six.jsonl", problems, texts, num_samples=6)
    values = from_files([six]).measurements[0].values
    assert (values["distinct_answers"], values["distinct_completions"]) == (2.0, 5.0)
    single = save_samples(tmp_path / "single.jsonl", problems, texts, num_samples=1)
    assert "distinct_answers" not in from_files([single]).measurements[0].values


def test_an_engine_without_entropies_has_a_null_entropy_and_no_difference_in_it(toy, tmp_path):
    problems = toy("1", "1")
    paths = [
        save_samples(tmp_path / f"{model}.jsonl", problems, [RIGHT] * 4, model=model, entropy=entropy)
        for model, entropy in (("with", 0.5), ("without", None))
    ]
    result = from_files(paths).to_json()
    assert result["results"][0]["metrics"]["mean_entropy"]["value"] == 0.5
    assert result["results"][1]["metrics"]["mean_entropy"] is None
    assert "mean_entropy" not in result["differences"][0]["metrics"]
    assert result["differences"][0]["metrics"]["pass@1"]["difference"] == 0.0


def test_differences_are_paired_by_problem(toy, tmp_path):
    problems = toy(*["1"] * 4)
    good = save_samples(tmp_path / "g.jsonl", problems, [RIGHT, RIGHT] * 2 + [RIGHT, WRONG] * 2, model="good")
    bad = save_samples(tmp_path / "b.jsonl", problems, [RIGHT, WRONG] * 2 + [WRONG, WRONG] * 2, model="bad")
    evaluation = from_files([good, bad])
    (difference,) = evaluation.differences
    names = (difference.first, difference.second, difference.problems)
    assert (*names, difference.num_problems) == ("good", "bad", "toy", 4)
    paired = difference.metrics["pass@1"]
    assert (paired.difference, paired.low, paired.high) == (0.5, 0.5, 0.5)
    unpaired = evaluation.measurements[0].estimates["pass@1"]
    assert unpaired.high - unpaired.low > 0.2
    assert evaluation.to_json()["differences"][0]["metrics"]["pass@1"]["difference"] == 0.5


def test_an_unfinished_file_is_measured_over_its_complete_problems(toy, tmp_path, caplog):
    texts = [RIGHT, RIGHT, WRONG, WRONG, WRONG, WRONG]
    complete = save_samples(tmp_path / "c.jsonl", toy("1", "1", "1"), texts, model="complete")
    partial = Path(shutil.copy(complete, tmp_path / "p.jsonl"))
    lines = partial.read_text().replace('"model": "complete"', '"model": "partial"').splitlines(keepends=True)
    partial.write_text("".join(lines[:4]))
    evaluation = from_files([complete, partial])
    assert evaluation.measurements[1].num_problems == 1
    assert evaluation.measurements[1].estimates["pass@1"].value == 1.0
    assert evaluation.differences[0].num_problems == 1
    assert evaluation.differences[0].metrics["pass@1"].difference == 0.0
    assert "unfinished: metrics are over 1 of 3 problems" in caplog.text
    partial.write_text("".join(lines[:2]))
    with pytest.raises(DataError, match="no problem with all its 2 samples"):
        from_files([partial])


def test_files_that_do_not_fit_one_table_are_refused(toy, tmp_path):
    path = save_samples(tmp_path / "a.jsonl", toy("1", "1"), [RIGHT] * 4)
    with pytest.raises(ConfigError, match="Several files are for model 'parrot' on 'toy'"):
        from_files([path, path])
    other = save_samples(tmp_path / "b.jsonl", toy("1", "7"), [RIGHT] * 4, model="other")
    with pytest.raises(DataError, match="sampled on different problems named 'toy'"):
        from_files([path, other])
