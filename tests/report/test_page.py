"""The page shows what the runs logged, loads nothing, and nothing in a run can break it."""

import json
import re
from html.parser import HTMLParser

import pytest

from gtpo.report.curves import Line, Panel, panel, sections
from gtpo.report.evaluations import evaluations_of
from gtpo.report.page import report_page
from gtpo.report.svg import panel_svg
from gtpo.runs.run import load_run, load_runs
from tests.runs.making import make_run, rows

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e&amp;'
RESULTS = {
    "results": [
        {
            "model": "m",
            "problems": {"name": "toy"},
            "metrics": {
                **{f"{kind}@{k}": {"value": 0.5, "low": 0.4, "high": 0.6} for kind in ("pass", "maj") for k in (1, 4)},
                "format_rate": {"value": 1, "low": 1, "high": 1},
            },
        }
    ]
}


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "line", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("meta", "line", "circle"):
            assert self.open.pop() == tag


def test_the_mean_and_band_of_a_method_are_those_of_its_seeds(tmp_path):
    runs = load_runs(
        [make_run(tmp_path / f"gtpo-seed{seed}", rows(10 + seed, accuracy=seed / 10)) for seed in (1, 2, 6)]
    )
    (line,) = panel(runs, "accuracy", "Accuracy", "%").lines
    assert line.x[-1] == 11  # the mean ends with the shortest run
    assert line.y[0] == pytest.approx(30)
    assert (line.low[0], line.high[0]) == (pytest.approx(10), pytest.approx(60))
    assert len(line.thin) == 3


def test_runs_that_logged_at_different_steps_are_interpolated(tmp_path):
    often = rows(20, accuracy=lambda step: step / 100)
    seldom = [row for row in rows(20, accuracy=lambda step: step / 100 + 0.1) if row["step"] % 5 == 0]
    runs = load_runs([make_run(tmp_path / "a-seed1", often), make_run(tmp_path / "a-seed2", seldom)])
    (line,) = panel(runs, "accuracy", "Accuracy", "").lines
    at_12 = line.y[line.x.index(12)]
    assert at_12 == pytest.approx((0.12 + 0.22) / 2, abs=0.01)


def test_every_quantity_has_its_panel_and_entropy_its_line(tmp_path):
    logged = {
        "accuracy": 0.5,
        "format": 0.9,
        "entropy": 0.5,
        "reward": 14.0,
        "gtpo/frac_kept": 0.9,
        "gtpo/frac_conflict": 0.4,
        "gtpo/frac_tied_groups": 0.1,
        "completions/mean_length": 80,
        "completions/clipped_ratio": 0.1,
        "gtpo/frac_distinct": 0.8,
        "grad_norm": lambda step: 10.0 ** (step % 5),
        "learning_rate": 1e-6,
        "step_time": 2.0,
        "gtpo/seconds_sampling": 1.0,
    }
    run = load_run(make_run(tmp_path / "x", rows(60, **logged)))
    assert {title: [panel.key for panel in panels] for title, panels in sections([run]).items()} == {
        "Learning": ["accuracy", "format", "entropy", "reward"],
        "What the update did": ["kept", "conflict", "tied"],
        "Completions": ["length", "truncated", "distinct"],
        "Optimiser": ["grad_norm", "learning_rate"],
        "Time": ["step_time", "gtpo/seconds_sampling"],
    }
    page = report_page([run])
    assert Tags(page).tags.count("svg") == len(logged)
    assert "<th>reward</th>" in page
    assert "<td>14.000</td>" in page
    assert page.count(">ln 2</text>") == 1


def test_two_methods_have_two_colours_and_a_legend(tmp_path):
    runs = load_runs([make_run(tmp_path / name, rows(accuracy=0.5)) for name in ("gtpo-seed1", "grpo-seed1")])
    page = report_page(runs)
    assert re.search(r'class="line c0".*class="line c1"', page, re.DOTALL)
    assert "2 runs of 2 methods" in page


def test_evaluations_in_the_runs_folder_are_drawn_over_k(tmp_path):
    folder = make_run(tmp_path / "x", rows(accuracy=0.5))
    (folder / "eval").mkdir()
    (folder / "eval" / "results.json").write_text(json.dumps(RESULTS))
    (folder / "results.json").write_text("{")
    page = report_page([load_run(folder)])
    assert "pass@k over k" in page
    assert "maj@k over k" in page
    assert "results.json is not what" in page


@pytest.mark.parametrize("value", [0.0, 50.0, 100.0])
def test_a_value_without_spread_is_drawn(value):
    line = Line("run", [1], [value], [value], [value])
    svg = panel_svg(Panel("pass", "toy", "pass@k, %", [line], over="k"), {"run": 0})
    assert "nan" not in svg
    assert "<circle" in svg


def test_an_evaluation_of_several_models_shows_the_runs_own(tmp_path):
    folder = make_run(tmp_path / "mine", rows(accuracy=0.5))
    (result,) = RESULTS["results"]

    def evaluated(*models):
        results = [result | {"model": model} for model in models]
        (folder / "results.json").write_text(json.dumps({"results": results}))
        return evaluations_of([load_run(folder)])

    panels, notes = evaluated("lab", "runs/mine/model", "runs/other")
    assert [(panel.key, line.name) for panel in panels for line in panel.lines] == [("pass", "mine"), ("maj", "mine")]
    assert not notes
    panels, notes = evaluated("lab", "runs/other")
    assert not panels
    assert "none of them named like this run" in notes[0]
    assert len(evaluated("org/mine-as-published")[0]) == 2  # the only model


def test_hostile_names_stay_text_and_the_page_loads_nothing(tmp_path):
    folder = make_run(tmp_path / "x", rows(accuracy=0.5), method=HOSTILE, seed=1)
    (folder / "results.json").write_text(json.dumps(RESULTS).replace("toy", json.dumps(HOSTILE)[1:-1]))
    page = report_page([load_run(folder)])
    tags = Tags(page)
    assert tags.open == []
    assert not {"script", "img", "link", "iframe", "object"} & set(tags.tags)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in ("src", "href")]
    assert "http:" not in page
    assert "https:" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;alert(1)") == 6  # subtitle, tile, legend, tooltip and two captions


@pytest.mark.parametrize(
    "columns",
    [
        {"accuracy": 0.0},
        {"accuracy": 1.0, "entropy": 0.0, "grad_norm": 0.0},
        {"entropy": 1e6, "reward": -5.0, "completions/mean_length": 1e-9},
        {"loss": None},
    ],
)
@pytest.mark.parametrize("count", [1, 2, 3000])
def test_flat_tiny_huge_and_single_values_can_be_drawn(tmp_path, columns, count):
    page = report_page([load_run(make_run(tmp_path / "x", rows(count, **columns)))])
    assert "nan" not in page.replace("nanmean", "")
    assert len(page) < 200_000
    assert Tags(page).open == []


def test_the_title_counts_methods_if_there_are_many(tmp_path):
    runs = [load_run(make_run(tmp_path / name, rows(5, accuracy=0.5), method=name)) for name in "abcde"]
    assert "<h1>a · b · c · d</h1>" in report_page(runs[:4])
    assert "<h1>5 methods</h1>" in report_page(runs)


def test_the_title_of_one_run_is_its_name_and_the_steps_are_those_of_the_plan(tmp_path):
    folder = make_run(tmp_path / "first-try", rows(49, reward=0.5), method="gtpo", seed=1)
    (folder / "config.yaml").write_text("max_steps: '80'\n")
    page = report_page([load_run(folder)])
    assert "<h1>first-try</h1><p>one run of gtpo, 49 of 80 steps</p>" in page
    assert "<td>49 of 80</td>" in page


def test_many_runs_are_summed_up_by_method_and_drawn_as_bands(tmp_path):
    folders = [
        make_run(tmp_path / f"{method}-seed{seed}", rows(30, reward=seed / 10), method=method, seed=seed)
        for seed in reversed(range(22))
        for method in ("gtpo", "grpo")
    ]
    page = report_page(load_runs(folders))
    assert Tags(page).open == []
    assert "<summary>All 44 runs</summary>" in page
    assert '<td class="health">22 healthy</td>' in page
    places = [page.index(f">{name}<") for name in ("gtpo-seed0", "gtpo-seed21", "grpo-seed0", "grpo-seed21")]
    assert places == sorted(places)  # by method and seed, whatever the order of the paths
    assert 'class="thin' not in page
    assert page.count('class="band') == 4  # for each method, all runs and the middle half
    (first, _) = panel(load_runs(folders), "reward", "Reward", "").lines
    assert first.middle is not None
    assert (first.low[0], first.high[0]) == (0.0, pytest.approx(2.1))
    assert (first.middle[0][0], first.middle[1][0]) == (pytest.approx(0.525), pytest.approx(1.575))


@pytest.mark.parametrize("value", [10**400, float("nan"), "0.5", None])
def test_results_of_the_wrong_types_are_left_out_with_a_note(tmp_path, value):
    folder = make_run(tmp_path / "x", rows(12, accuracy=0.5))
    result = {"model": "m", "problems": {"name": "toy"}, "metrics": {"pass@1": {"value": value, "low": 0, "high": 1}}}
    (folder / "results.json").write_text(json.dumps({"results": [result]}))
    assert "is not what `gtpo eval` writes and was left out" in report_page([load_run(folder)])
