"""Graders: boxed answers, math-verify as other harnesses use it, and functions of the user."""

import json

import pytest
from math_verify import parse, verify

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.evaluate import from_files
from gtpo.evaluation.graders import find_grader
from tests.evaluation.parrot import save_problems, save_samples

OWN = "tests.evaluation.own_graders"


def pass_at_1(path, grader):
    (measured,) = from_files([path], grader=grader).measurements
    return measured.values["pass@1"].tolist()


@pytest.fixture
def file(tmp_path):
    """Two samples of two problems with the answers 1/2 and 7."""
    texts = [r"so \boxed{0.5}", "<answer>0.5</answer>", r"\boxed{8} or \boxed{7}", "7"]
    return save_samples(tmp_path / "s.jsonl", save_problems(tmp_path / "p.jsonl", [r"\frac{1}{2}", "7"]), texts)


def test_graders_look_for_the_answer_in_their_own_place(file):
    assert pass_at_1(file, "answer") == [0.5, 0.0]
    assert pass_at_1(file, "boxed") == [0.5, 0.5]
    assert pass_at_1(file, "math-verify") == [
        0.5,
        0.5,
    ]  # finds no number between tags, two boxes are a set


def test_math_verify_agrees_with_the_library_on_its_own(tmp_path):
    golds = [r"\frac{3}{4}", "12", r"x^2+1", "(1,2)"]
    texts = ["It is 0.75.", r"$\boxed{\frac{6}{8}}$", "It is 12", "13", "$1+x^2$", "$x^2$", "$(1,2)$", "$(2,1)$"]
    path = save_samples(tmp_path / "s.jsonl", save_problems(tmp_path / "p.jsonl", golds), texts)
    right = [verify(parse(f"${golds[number // 2]}$"), parse(text)) for number, text in enumerate(texts)]
    assert right == [True, True, True, False, True, False, True, False]
    assert pass_at_1(path, "math-verify") == [1.0, 0.5, 0.5, 0.5]


def test_a_function_of_the_user_grades_and_results_name_it(file, tmp_path):
    evaluation = from_files([file], grader=f"{OWN}:exact")
    (result,) = evaluation.to_json()["results"]
    assert result["grader"] == f"{OWN}:exact"
    assert result["metrics"]["pass@1"]["value"] == 0.25
    assert "maj@2" not in result["metrics"]  # complete completions have no answers that could vote
    assert from_files([file]).to_json()["results"][0]["grader"] == "answer"


def test_a_grader_gets_the_other_columns_and_may_do_without_answers(tmp_path):
    from gtpo.evaluation.evaluate import no_progress, sample_problems
    from gtpo.evaluation.sampling import SamplingSettings
    from gtpo.problems import load_problems
    from tests.evaluation.parrot import Parrot

    rows = [{"prompt": "Say hi.", "word": "hi"}, {"prompt": "Say ho.", "word": "ho", "never": None}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    problems = load_problems(tmp_path / "p.jsonl", needs_answer=find_grader(f"{OWN}:has_word").needs_answer)
    path = tmp_path / "s.jsonl"
    engine, settings = Parrot(["hi there", "no", "hi", "ho ho"]), SamplingSettings(num_samples=2)
    sample_problems(engine, "m", "toy", problems, settings, path, batch_size=4, progress=no_progress)
    assert pass_at_1(path, f"{OWN}:has_word") == [0.5, 0.5]
    for grader in ("answer", "boxed", "math-verify", f"{OWN}:exact"):
        with pytest.raises(DataError, match="needs answers, and some samples have none"):
            pass_at_1(path, grader)


def test_a_bounded_grader_that_dies_costs_one_sample(tmp_path, caplog):
    problems = save_problems(tmp_path / "p.jsonl", ["1", "2"])
    path = save_samples(tmp_path / "s.jsonl", problems, ["1", "dies", "2", "2"])
    assert pass_at_1(path, f"{OWN}:bounded_exact") == [0.5, 1.0]
    assert "could not grade 1 of 4 samples: they count as wrong" in caplog.text


def test_unknown_and_broken_graders_are_refused_in_a_sentence(file):
    with pytest.raises(ConfigError, match=r"There is no grader 'boxes'\. Use answer, boxed, math-verify, or package"):
        find_grader("boxes")
    with pytest.raises(ConfigError, match="Grader 'absent:f' cannot be imported"):
        find_grader("absent:f")
    with pytest.raises(DataError, match=r"half returned 0\.5 for sample 0 of problem 0\. Return True or False"):
        pass_at_1(file, f"{OWN}:half")
    place, remedy = r"\(own_graders\.py, line \d+\)", r"Fix it, then run the command again\."
    with pytest.raises(DataError, match=rf"broken raised KeyError: 'nothing' {place}\. {remedy}$"):  # no run to resume
        pass_at_1(file, f"{OWN}:broken")
