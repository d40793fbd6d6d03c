"""Tables show what was measured; the table of the paper has its columns."""

import numpy as np
import pytest

from gtpo.errors import DataError
from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.metrics import Measurement, compare
from gtpo.evaluation.tables import markdown, paper_rows, sampling_lines, summary_rows

HEADER = {"problems": {"sha256": "0"}, "settings": {"num_samples": 64}, "engine": {}}
KS = (1, 4, 8, 16, 32, 64)


def measured(model, problems, value, **extra):
    values = {f"{kind}@{k}": np.array([value, value, 0.0, 1.0]) for kind in ("pass", "maj") for k in KS}
    values |= {name: np.array(column) for name, column in extra.items()}
    return Measurement(model, problems, HEADER, values)


def evaluation(*measurements):
    return Evaluation(list(measurements), compare(measurements))


def test_a_summary_has_one_column_per_model_and_per_difference():
    rows = summary_rows(
        evaluation(
            measured("A", "amc23", 0.5, mean_entropy=[0.25] * 4, mean_length=[100.0] * 4),
            measured("B", "amc23", 0.25, mean_length=[90.0] * 4),
            measured("A", "aime24", 0.5),
        ),
        "amc23",
    )
    table = {row[0]: row[1:] for row in rows}
    assert table[""] == ["A", "B", "A − B"]
    assert table["pass@8 %"][0].startswith("50.0 [")
    assert table["pass@8 %"][1].startswith("37.5 [")
    assert table["pass@8 %"][2].startswith("+12.5 [0.0, ")
    assert table["entropy, nats"] == ["0.250 [0.250, 0.250]", "–", "–"]
    assert table["length, tokens"][2] == "+10.0 [10.0, 10.0]"


def test_a_difference_that_rounds_to_zero_has_no_minus_sign():
    pair = [measured("A", "x", 0.1, mean_length=[5.0, 5.0, 5.0, 4.99]), measured("B", "x", 0.1, mean_length=[5.0] * 4)]
    cells = {row[0]: row[-1] for row in summary_rows(evaluation(*pair), "x")}
    assert cells["length, tokens"] == "+0.0 [0.0, 0.0]"
    assert summary_rows(evaluation(*reversed(pair)), "x")[1][-1] == "+0.0 [0.0, 0.0]"
    assert {row[0]: row[-1] for row in summary_rows(evaluation(pair[0], measured("B", "x", 0.3)), "x")}[
        "pass@1 %"
    ].startswith("−10.0 [−20.0, ")


def test_every_other_model_is_compared_with_the_first():
    compared = evaluation(
        measured("A", "x", 0.5), measured("B", "x", 0.2), measured("C", "x", 0.9), measured("C", "y", 0.1)
    )
    pairs = [(difference.first, difference.second, difference.problems) for difference in compared.differences]
    assert pairs == [("A", "B", "x"), ("A", "C", "x")]
    assert compared.differences[1].metrics["maj@4"].difference == pytest.approx(-0.2)


def test_the_table_of_the_paper_has_its_columns_in_its_order():
    rows = paper_rows(evaluation(measured("base", "aime24", 0.5), measured("gtpo", "amc23", 0.25)))
    assert rows[0][:7] == ["model", *(f"AIME24 pass@{k}" for k in (1, 8, 16, 32, 64)), "AIME25 pass@1"]
    assert rows[0][11:] == [f"AMC23 pass@{k}" for k in (1, 8, 16, 32, 64)] + [f"AMC23 maj@{k}" for k in KS[1:]]
    assert rows[1] == ["base", *["50.0"] * 5, *["–"] * 15]
    assert rows[2] == ["gtpo", *["–"] * 10, *["37.5"] * 10]
    with pytest.raises(DataError, match="aime24, aime25 or amc23"):
        paper_rows(evaluation(measured("base", "lab", 0.5)))


def test_markdown_escapes_a_bar_in_a_name():
    lines = markdown([["model", "x"], ["a|b", "1"]]).splitlines()
    assert lines == ["| model | x |", "| --- | ---: |", "| a\\|b | 1 |"]


def test_a_difference_over_fewer_problems_than_its_models_has_a_note():
    complete, partial = measured("A", "x", 0.5), measured("B", "x", 0.25)
    shorter = Measurement("B", "x", HEADER, {name: column[:3] for name, column in partial.values.items()})
    assert summary_rows(evaluation(complete, partial), "x")[0] == ["", "A", "B", "A − B"]
    assert summary_rows(evaluation(complete, shorter), "x")[0] == ["", "A", "B", "A − B (first 3 problems)"]


def test_rows_are_in_order_of_k_even_if_files_have_different_ks():
    few = Measurement("A", "x", HEADER, {"pass@1": np.ones(4), "maj@1": np.ones(4), "format_rate": np.ones(4)})
    rows = summary_rows(evaluation(few, measured("B", "x", 0.5)), "x")
    assert [row[0] for row in rows[1:4]] == ["pass@1 %", "pass@4 %", "pass@8 %"]
    assert rows[-1][0] == "format %"
    assert "maj@1 %" not in [row[0] for row in rows]  # it equals pass@1


def test_sampling_is_described_once_or_per_model():
    settings = {"num_samples": 1, "temperature": 0.0, "top_p": 1.0, "max_new_tokens": 9, "seed": 0}
    greedy = Measurement("A", "x", HEADER | {"settings": settings}, {"pass@1": np.ones(4)})
    assert sampling_lines([greedy]) == ["4 problems × 1 sample, greedy, at most 9 tokens, seed 0"]
    settings = settings | {"num_samples": 8, "temperature": 0.9}
    drawn = Measurement("B", "x", HEADER | {"settings": settings}, {"pass@1": np.ones(4)})
    assert sampling_lines([greedy, drawn]) == [
        "A: 4 problems × 1 sample, greedy, at most 9 tokens, seed 0",
        "B: 4 problems × 8 samples, temperature 0.9, top-p 1, at most 9 tokens, seed 0",
    ]
