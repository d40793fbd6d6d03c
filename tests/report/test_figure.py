"""Figures are written in both formats, are reproducible, and survive hostile names."""

import xml.etree.ElementTree as ET

import pytest

from gtpo.report.curves import Line, Panel
from gtpo.report.evaluations import evaluation_panels
from gtpo.report.figure import draw_evaluations, draw_training
from gtpo.runs.run import load_run
from tests.runs.making import make_run, rows

HOSTILE = "_$\\frac{$ [/red] & <b>"


def panel(problems, *names, kind="pass"):
    lines = [Line(name, [1, 64], [20.0, 50.0], [10.0, 40.0], [30.0, 60.0]) for name in names]
    return Panel(kind, problems, f"{kind}@k, %", lines, over="k")


def texts(path):
    svg = ET.fromstring(path.read_text())
    return {"".join(node.itertext()).strip() for node in svg.iter("{http://www.w3.org/2000/svg}text")}


def test_pass_and_maj_have_a_row_and_problem_sets_a_column(tmp_path):
    panels = [panel("a", HOSTILE, "plain"), panel("b", "plain"), panel("a", "plain", kind="maj")]
    png, svg = tmp_path / "deep" / "c.png", tmp_path / "deep" / "c.svg"
    assert draw_evaluations(panels, [png, svg])
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert {HOSTILE, "plain", "pass@k (%)", "maj@k (%)", "a", "b", "64"} <= texts(svg)
    first = svg.read_bytes()
    draw_evaluations(panels, [png, svg])
    assert svg.read_bytes() == first


def test_the_papers_figure_has_accuracy_format_and_entropy(tmp_path):
    run = load_run(
        make_run(tmp_path / "x", rows(30, accuracy=0.5, format=0.9, entropy=0.5, reward=1.0), method=HOSTILE)
    )
    assert draw_training([run], [tmp_path / "t.svg"])
    assert {"Training accuracy (%)", "Complete format (%)", "Entropy (nats)", "ln 2", HOSTILE} <= texts(
        tmp_path / "t.svg"
    )


def test_what_was_measured_at_some_steps_has_dots_and_intervals(tmp_path):
    line = Line("pass@1", [0, 20, 40], [20.0, 50.0, 60.0], [10.0, 40.0, 50.0], [30.0, 60.0, 70.0])
    drawn = {}
    for has_dots in (False, True):
        assert draw_evaluations([Panel("pass", HOSTILE, "%", [line], has_dots=has_dots)], [tmp_path / "s.svg"])
        drawn[has_dots] = (tmp_path / "s.svg").read_text()
    assert f"{HOSTILE} (%)" in texts(tmp_path / "s.svg")
    assert [text.count("FillBetweenPolyCollection") for text in drawn.values()] == [0, 1]
    assert drawn[True].count("<use") >= drawn[False].count("<use") + 3


def test_names_that_leave_no_room_give_no_warning(tmp_path, recwarn):
    panels = [panel("p" * 80, *(f"{number}" + "n" * 79 for number in range(40)))]
    assert draw_evaluations(panels, [tmp_path / "e.png"])
    assert not [warning for warning in recwarn if "constrained_layout" in str(warning.message)]


def test_nothing_to_draw_writes_no_file(tmp_path):
    run = load_run(make_run(tmp_path / "x", rows(5, reward=1.0)))
    assert not draw_training([run], [tmp_path / "t.svg"])
    assert not draw_evaluations([], [tmp_path / "e.svg"])
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_result_of_gtpo_eval_becomes_a_curve_in_percent():
    estimate = {"value": 0.5, "low": 0.25, "high": 0.75}
    metrics = {"pass@4": estimate, "pass@1": estimate, "maj@1": estimate, "mean_entropy": None}
    by_pass, by_majority = evaluation_panels([({"problems": {"name": "toy"}, "metrics": metrics}, "m")])
    assert (by_pass.title, by_pass.key, by_majority.key) == ("toy", "pass", "maj")
    assert by_pass.lines == [Line("m", [1, 4], [50.0, 50.0], [25.0, 25.0], [75.0, 75.0])]


@pytest.mark.parametrize("k", ["0", "-1", "x", "1" * 400])
def test_an_impossible_k_is_refused(k):
    estimate = {"value": 0, "low": 0, "high": 0}
    with pytest.raises(ValueError, match=r"k of pass@|invalid literal"):
        evaluation_panels([({"problems": {"name": "t"}, "metrics": {f"pass@{k}": estimate}}, "m")])
