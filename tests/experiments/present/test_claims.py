"""The numbers in the documents come from the data, with the statistics of `gtpo compare`."""

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from experiments.lab.collect import ABOUT, AFTER, Record, read_data, write_data
from experiments.lab.jobs import Job
from experiments.present.__main__ import ROOT, generated_files, main, marked_parts
from experiments.present.claims import COLLAPSED, HEALTH, QUESTIONS, Question, answer, exact_p, peak_entropy
from experiments.present.documents import TABLE_PAGES, insert
from experiments.present.lab_figures import (
    draw_curves,
    draw_difference,
    draw_effects,
    draw_mean,
    draw_pass,
    figure_of,
    student_half_width,
)
from experiments.present.lab_tables import lab_tables
from experiments.present.verdicts import CLAIMS, looks
from gtpo.errors import DataError
from gtpo.statistics import bootstrap_interval


def record(arm, seed, accuracy, entropy=0.3, setting="comfortable", num_steps=40):
    after = dict.fromkeys(AFTER, accuracy) | {"entropy": entropy}
    curve = {
        "step": list(range(1, num_steps + 1)),
        "accuracy": [accuracy] * num_steps,
        "format": [0.9] * num_steps,
        "entropy": [entropy] * num_steps,
    }
    about = dict.fromkeys(ABOUT, "1.0")
    return Record(Job(setting, arm, seed), about, after, curve)


def by_job(*records):
    return {record.job: record for record in records}


GTPO, GRPO = [0.80, 0.90, 0.85, 0.95], [0.78, 0.86, 0.84, 0.92]


@pytest.fixture
def records():
    return by_job(
        *(record("gtpo", seed, value, 0.1) for seed, value in enumerate(GTPO)),
        *(record("grpo", seed, value) for seed, value in enumerate(GRPO)),
        record("grpo", 9, 0.10),  # a seed that the other arm does not have
    )


def test_a_difference_is_paired_by_seed(records):
    comparison = answer(Question(1, "gtpo", "grpo", "accuracy"), records, "comfortable")
    pairs = [0.02, 0.04, 0.01, 0.03]
    assert comparison.difference == pytest.approx(0.025)
    assert comparison.is_paired
    assert (comparison.num_first, comparison.num_second) == (4, 4)
    error = statistics.stdev(pairs) / 2
    # Student's interval with 3 degrees of freedom is 0.025 ± 3.182 standard errors; the bootstrap comes close to it
    assert comparison.low == pytest.approx(0.025 - 3.182 * error, abs=0.25 * 3.182 * error)
    assert comparison.high == pytest.approx(0.025 + 3.182 * error, abs=0.25 * 3.182 * error)
    assert comparison.verdict == "better"


def test_a_quantity_that_some_runs_lack_is_compared_over_the_others(records, tmp_path):
    for one in records.values():
        if one.job.seed > 1:
            del one.after["greedy_format"]
    write_data(records.values(), tmp_path)
    again = read_data(tmp_path)
    assert {job: dict(one.after) for job, one in again.items()} == {job: one.after for job, one in records.items()}
    question = Question(2, "gtpo", "grpo", "greedy-format")
    comparison = answer(question, again, "comfortable")
    assert (comparison.num_first, comparison.difference) == (2, pytest.approx(0.03))
    del records[Job("comfortable", "grpo", 1)].after["greedy_format"]
    assert answer(question, records, "comfortable") is None


def test_lower_entropy_is_not_worse_and_a_missing_arm_gives_no_answer(records):
    question = Question(3, "gtpo", "grpo", "entropy-peak")
    assert answer(question, records, "comfortable").difference == pytest.approx(-0.2)
    assert answer(Question(1, "gtpo", "sft", "accuracy"), records, "comfortable") is None
    assert answer(Question(1, "gtpo", "grpo", "accuracy"), records, "smoke") is None


def test_a_run_has_collapsed_below_half_of_the_untrained_accuracy():
    runs = [*(record("grpo", seed, 0.19) for seed in range(4)), *(record("gtpo", seed, 0.21) for seed in range(4))]
    question = Question(3, "gtpo", "grpo", COLLAPSED)
    assert answer(question, by_job(*runs), "comfortable") is None  # the untrained accuracy is not known
    comparison = answer(question, by_job(*runs, record("base", 1, 0.4, num_steps=0)), "comfortable")
    assert (comparison.first, comparison.second, comparison.verdict) == (0.0, 1.0, "better")
    fewer = answer(question, by_job(*runs[1:-1], record("base", 1, 0.4, num_steps=0)), "comfortable")
    assert fewer.verdict == "not shown"  # 2 of 2 against 0 of 2
    assert (fewer.num_first, fewer.num_second) == (2, 2)  # seeds that both arms have


def test_health_judges_the_last_step_of_training():
    def fallen(arm, seed):
        one = record(arm, seed, 0.8)
        return Record(one.job, one.about, one.after, {**one.curve, "accuracy": [0.8] * 20 + [0.1] * 20})

    records = by_job(*(fallen("grpo", seed) for seed in range(4)), *(record("gtpo", seed, 0.8) for seed in range(4)))
    comparison = answer(Question(3, "gtpo", "grpo", HEALTH), records, "comfortable")
    assert (comparison.first, comparison.second, comparison.verdict) == (0.0, 1.0, "better")


def test_the_peak_of_the_entropy_is_not_a_single_step():
    one = record("grpo", 1, 0.5)
    spiked = Record(one.job, one.about, one.after, {**one.curve, "entropy": [0.2] * 20 + [1.2] + [0.2] * 19})
    assert peak_entropy(spiked) == pytest.approx(0.4)  # 1.2 and four times 0.2


def test_data_is_read_as_it_was_written(records, tmp_path):
    write_data(records.values(), tmp_path)
    again = read_data(tmp_path)
    assert again == dict(sorted(records.items()))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_data(again.values(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_band_is_the_interval_of_student():
    rows = np.array([[0.8], [0.9], [0.85], [0.95]])
    expected = 3.182 * statistics.stdev([0.8, 0.9, 0.85, 0.95]) / math.sqrt(4)
    assert student_half_width(rows)[0] == pytest.approx(expected, rel=1e-3)


def test_tables_contain_every_answer_and_their_number(records):
    parts = lab_tables(records)
    row = next(line for line in parts["lab-claim-1"].splitlines() if line.startswith("| GTPO | GRPO | accuracy, held"))
    assert "| 87.5 | 85.0 | +2.5 |" in row
    assert "**holds**" in row
    assert parts["lab-claim-5"].count("| GTPO | GRPO |") == 3
    rows = [line for claim in range(1, 6) for line in parts[f"lab-claim-{claim}"].splitlines() if "**" in line]
    asked = {tuple(line.split(" | ")[:3]) for line in rows if "| – |" not in line}  # some answer two claims
    assert looks(records, [], {}).startswith(f"{len(asked)} comparisons")


def test_an_arm_that_shares_a_single_seed_is_not_compared(records):
    one = by_job(record("skip", 0, 0.5))
    assert "λ⁺ = 0" not in lab_tables({**records, **one})["lab-claim-4"]
    assert "λ⁺ = 0" in lab_tables({**records, **one, **by_job(record("skip", 1, 0.5))})["lab-claim-4"]


def test_a_claim_does_not_hold_if_the_arm_is_worse(records):
    swapped = by_job(*(record(
        {"gtpo": "grpo", "grpo": "gtpo"}[one.job.arm], one.job.seed, one.after["accuracy"]) for one in records.values()
    ))  # fmt: skip
    assert "**does not hold**" in lab_tables(swapped)["lab-claim-1"]


def test_without_data_the_tables_state_it():
    assert lab_tables({})["lab-claim-1"] == "Not run yet."


def test_a_part_without_markers_is_an_error():
    with pytest.raises(DataError, match="no markers for lab-runs"):
        insert("nothing here", {"lab-runs": "x"})


@pytest.fixture
def root(tmp_path):
    """A folder with the pages that have generated parts, and nothing between their markers."""
    for path, parts in marked_parts(tmp_path / "nothing").items():
        page = tmp_path / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("before " + "".join(f"<!-- {name} --><!-- /{name} -->" for name in parts) + " after")
    return tmp_path


@pytest.mark.filterwarnings("error")
def test_one_command_draws_figures_and_tables_and_repeats_them_exactly(records, root):
    write_data(records.values(), root / "data")
    arguments = ["--data", str(root / "data"), "--root", str(root)]
    assert main(arguments) == 0
    signs = (root / "README.md").read_text()
    assert "[final accuracy at least GRPO's](docs/results/claim-1-accuracy.md) | **+** |" in signs
    assert "[does not collapse where GRPO does](docs/results/claim-3-collapse.md) | not run |" in signs
    # the four seeds that both have
    assert "| lab, comfortable | 4 | 87.5 | 85.0 | +2.5 |" in (root / "docs/results/claim-1-accuracy.md").read_text()
    drawn = {path.name for path in (root / "docs/figures").iterdir()}
    assert drawn == {f"lab_{kind}_comfortable.svg" for kind in ("curves", "pass", "effects")} | {"overview.svg"}
    assert "GRPO (5)" in (root / "docs/figures/lab_curves_comfortable.svg").read_text()
    tables = (root / "docs/results/tables/claim-1.md").read_text()
    for words in ("mean over seeds", "smoothed over a twentieth", "Student's 95 % interval", "comfortable: the lab's"):
        assert words in tables.partition("figures/lab_curves")[0].rpartition("![")[2]
    written = {path: path.read_bytes() for path in (root / "docs").rglob("*.*")}
    main(arguments)
    assert {path: path.read_bytes() for path in (root / "docs").rglob("*.*")} == written


@pytest.mark.parametrize("draw", [draw_curves, draw_pass, draw_effects])
def test_without_data_nothing_is_drawn(draw, tmp_path):
    assert not draw({}, "comfortable", tmp_path / "figure")
    assert not list(tmp_path.iterdir())


def test_the_untrained_policy_is_a_note_and_not_a_line(records, tmp_path):
    untrained = by_job(record("base", 0, 0.345))
    assert not draw_pass(untrained, "comfortable", tmp_path / "alone")
    assert draw_pass({**records, **untrained}, "comfortable", tmp_path / "with")
    drawn = (tmp_path / "with.svg").read_text()
    assert "untrained (1)" not in drawn
    assert drawn.count("(34)") == 12  # six k, of pass@k and of maj@k


def test_an_effect_beyond_the_axis_is_an_arrow_with_its_number():
    axis = figure_of(1, 1, (2, 2))[1][0][0]
    draw_difference(axis, 0, -0.409, (-0.5, -0.3), "red", limit=5)
    assert [line.get_marker() for line in axis.lines] == ["None", "<", "<"]
    assert [text.get_text() for text in axis.texts] == ["−40.9"]


def test_bands_do_not_reach_below_zero():
    axis = figure_of(1, 1, (2, 2))[1][0][0]
    draw_mean(axis, [1, 2], np.array([[0.0, 1.0], [3.0, 1.0]]), "gtpo")
    assert axis.collections[0].get_paths()[0].vertices[:, 1].min() == 0


@pytest.mark.slow
def test_the_tables_and_signs_of_the_documents_are_those_of_the_committed_data():
    files = generated_files()
    assert {path: (ROOT / path).read_text() for path in files} == files
    tables = ROOT / "docs/results/tables"
    assert {path.relative_to(ROOT).as_posix() for path in tables.iterdir()} <= {str(path) for path in files}
    for path, parts in marked_parts().items():
        text = (ROOT / path).read_text()
        assert insert(text, parts) == text, path


@pytest.mark.parametrize("setting", ["comfortable", "edge"])
def test_a_verdict_needs_more_than_the_bootstrap(setting):
    records = read_data()
    comparison = answer(Question(5, "gtpo", "grpo", "pass@32"), records, setting)
    values = [
        {job.seed: one.after["pass@32"] for job, one in records.items() if (job.setting, job.arm) == (setting, arm)}
        for arm in ("gtpo", "grpo")
    ]
    differences = np.array([value - values[1][seed] for seed, value in values[0].items() if seed in values[1]])
    student = stats.ttest_1samp(differences, 0).confidence_interval()
    assert bootstrap_interval(differences)[1] < 0  # by itself it would call both
    assert (comparison.verdict == "worse") == (student.high < 0) == (setting == "edge")


def test_an_exact_p_needs_eight_pairs(records):
    question = Question(1, "gtpo", "grpo", "accuracy")
    assert exact_p(question, records, "comfortable") is None
    more = by_job(
        *(record(arm, seed, 0.5 + 0.1 * (arm == "gtpo")) for arm in ("gtpo", "grpo") for seed in range(9, 13))
    )
    assert exact_p(question, {**records, **more}, "comfortable") == 2 / 2**8
    assert "| 0.0078 | **holds** |" in lab_tables({**records, **more})["lab-claim-1"]
    assert exact_p(Question(3, "gtpo", "grpo", COLLAPSED), {**records, **more}, "comfortable") is None


def test_every_claim_has_a_page_that_links_to_its_tables():
    assert {claim.question for claim in CLAIMS} <= set(QUESTIONS)
    tables = ROOT / "docs/results/tables"
    for name, page in TABLE_PAGES.items():
        if (tables / name).is_file():  # a page without runs does not exist
            assert f"tables/{name}" in (tables / page.page).read_text(), name


def test_questions_are_asked_once():
    assert len(set(QUESTIONS)) == len(QUESTIONS)
