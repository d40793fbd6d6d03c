"""The leaderboard of the lab on made-up results: its numbers are scipy's, one command writes page and figure."""

import csv
import dataclasses
import random
import statistics

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from experiments.lab.collect import ABOUT, AFTER, Record, write_data
from experiments.lab.jobs import Job
from experiments.leaderboard import __main__ as leaderboard
from experiments.leaderboard.__main__ import DATA, ROOT, main
from experiments.leaderboard.figure import draw, drawn_arms
from experiments.leaderboard.page import summary, table
from experiments.leaderboard.places import departures, lab_place, read_places
from experiments.leaderboard.protocol import ARMS, OUTCOMES, PRIMARY_ARMS, QWEN_ARMS, lab_jobs
from experiments.leaderboard.standings import standings
from gtpo.errors import DataError


def make_records(*arms, num_seeds=8, setting="headroom"):
    records = {}
    for arm in arms:
        for seed in range(201, 201 + num_seeds):
            rng = random.Random(f"{arm} {seed}")
            after = {name: rng.random() for name in AFTER}
            curve = {"step": [1, 2], "grad_norm": [1.0, 2.0 if arm == "grpo" else 4.0]}
            job = Job(setting, arm, seed)
            records[job] = Record(job, dict.fromkeys(ABOUT, "1"), after, curve)
    return records


def outcomes(records, arm, outcome="pass@8"):
    return np.array([record.after[outcome] for job, record in records.items() if job.arm == arm])


def summarise(records, setting):
    place = lab_place(records, setting)
    return summary(place, {outcome: standings(place, outcome) for outcome in OUTCOMES})


def rows_of(records, setting):
    """The cells of the table, by the name of the column, row by row."""
    place = lab_place(records, setting)
    lines = table(place, {outcome: standings(place, outcome) for outcome in OUTCOMES}).splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(header[:6], row[:6], strict=True)) | {"pass@1": row[header.index("pass@1")]} for row in rows]


def test_differences_p_and_holms_p_are_those_of_the_definition():
    records = make_records("grpo", *PRIMARY_ARMS, "negative")
    found = standings(lab_place(records, "headroom"))
    p_values = {}
    for arm in (*PRIMARY_ARMS, "negative"):
        difference = outcomes(records, arm) - outcomes(records, "grpo")
        assert found[arm].difference == pytest.approx(difference.mean())
        student = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
        low, high = found[arm].interval
        assert low <= student.low + 1e-9
        assert high >= student.high - 1e-9
        test = stats.permutation_test((difference,), np.mean, permutation_type="samples", n_resamples=2**8)
        assert found[arm].p == pytest.approx(test.pvalue)
        p_values[arm] = test.pvalue
    smallest = min(PRIMARY_ARMS, key=p_values.get)
    assert found[smallest].holm_p == pytest.approx(min(1.0, 3 * p_values[smallest]))
    assert (found["negative"].holm_p, found["grpo"].difference, found["grpo"].p) == (None, None, None)
    assert (found["grpo"].grad_norm, found["gtpo"].grad_norm) == (1.5, 2.5)


def test_an_arm_with_fewer_seeds_or_without_the_other_primaries_gets_no_verdict():
    few = make_records("grpo", *PRIMARY_ARMS, num_seeds=7)
    assert {standing.p for standing in standings(lab_place(few, "headroom")).values()} == {None}
    assert summarise(few, "headroom") == (
        "28 of 96 runs are finished; a verdict needs 8 seeds of a method and of its baseline."
    )
    assert {row["seeds"] for row in rows_of(few, "headroom")} == {"7 of 8"}
    some = {**make_records("grpo", "gtpo"), **make_records("component", num_seeds=1)}
    assert {standing.holm_p for standing in standings(lab_place(some, "headroom")).values()} == {None}
    # pass@1 of GTPO has its verdict, because it is no primary
    assert "No verdict yet for pass@8 of **GTPO** and **component**." in summarise(some, "headroom")
    assert "pass@8 is" not in summarise(some, "headroom")
    elsewhere = make_records("grpo", *PRIMARY_ARMS, setting="comfortable")
    assert {standing.holm_p for standing in standings(lab_place(elsewhere, "comfortable")).values()} == {None}


def test_the_table_is_ordered_by_pass_at_8():
    records = make_records("grpo", "balanced")
    rows = rows_of(records, "headroom")
    assert [row["method"] for row in rows] == ["**balanced**", "GRPO"]
    for outcome in OUTCOMES:
        means = [f"{100 * outcomes(records, arm, outcome).mean():.1f}" for arm in ("balanced", "grpo")]
        assert [row[outcome] for row in rows] == means
    assert rows[0]["pass@8"] > rows[1]["pass@8"]


def test_gtpo_with_slow_adam_is_compared_with_grpo_with_slow_adam():
    records = make_records("grpo", "gtpo", "grpo-slow-adam", "gtpo-slow-adam", setting="one-prompt")
    for job, record in records.items():  # the optimizer costs 30 points, GTPO gains 10
        noise = random.Random(job.name).random() / 100
        record.after["pass@8"] = 0.6 - 0.3 * ("slow" in job.arm) + 0.1 * ("gtpo" in job.arm) + noise
    found = standings(lab_place(records, "one-prompt"))
    for arm, baseline in (("gtpo-slow-adam", "grpo-slow-adam"), ("grpo-slow-adam", "grpo"), ("gtpo", "grpo")):
        difference = outcomes(records, arm) - outcomes(records, baseline)
        assert found[arm].difference == pytest.approx(difference.mean())
    compared = {row["method"]: row["compared with"] for row in rows_of(records, "one-prompt")}
    assert compared == {
        "GRPO": "–",
        "GTPO": "GRPO",
        "GRPO with slow Adam": "GRPO",
        "GTPO with slow Adam": "GRPO with slow Adam",
    }
    assert "GTPO with slow Adam (against GRPO with slow Adam)" in summarise(records, "one-prompt")


def test_one_command_writes_page_and_figure(tmp_path):
    records = {**make_records(*ARMS, setting="one-prompt"), **make_records(*ARMS[:-2])}
    write_data(records.values(), tmp_path / "data")
    page = tmp_path / "docs/leaderboard.md"
    page.parent.mkdir()
    assert main(["--data", str(tmp_path / "data"), "--page", str(page)]) == 0
    text = page.read_text()
    assert text.index("## headroom") < text.index("## one-prompt")  # the primary one first
    assert "208 of 304 runs in the lab and 0 of 20 on Qwen are finished." in text
    assert "GTPO with slow Adam is compared with GRPO with slow Adam" in text
    for absent in ("comfortable*", "## comfortable", "## Qwen"):
        assert absent not in text
    drawn = (tmp_path / "docs/figures/leaderboard.svg").read_text()
    for label in ("prefix baseline", "GTPO with slow Adam †", "headroom", "pass@8", "primary", "not shown"):
        assert f">{label}<" in drawn
    assert ">random rewards<" not in drawn
    with pytest.raises(DataError, match="has no two runs of the leaderboard to compare"):
        main(["--data", str(tmp_path / "nowhere"), "--page", str(page)])


def test_only_places_and_methods_with_a_difference_are_drawn_around_0(tmp_path):
    records = make_records("grpo", "random", "component") | make_records("grpo", "random", setting="comfortable")
    records |= make_records("balanced", num_seeds=1)
    records[Job("headroom", "gtpo", 209)] = records[Job("headroom", "component", 201)]  # without a partner
    places = [lab_place(records, setting) for setting in ("headroom", "comfortable")]
    assert [sorted(drawn_arms(place)) for place in places] == [["balanced", "component"], []]
    limits = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda self, *_, **__: limits.extend(axis.get_xlim() for axis in self.axes))
        draw(places[:1], tmp_path / "figure.svg")
    assert len(limits) == 2
    assert all(low == -high < 0 for low, high in limits)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("commit", "2", "in the lab come from several commits: 1, 2"),
        ("device", "2", "in headroom come from several kinds of machine: 1, 2"),
        ("torch", "2", "in headroom come from several versions of torch: 1, 2"),
    ],
)
def test_runs_of_a_setting_have_one_commit_machine_and_torch(name, value, message, tmp_path):
    records = make_records("grpo", "gtpo") | make_records("grpo", setting="comfortable")
    changed = next(job for job in records if job.arm == "gtpo")
    records[changed] = dataclasses.replace(records[changed], about={**records[changed].about, name: value})
    write_data(records.values(), tmp_path / "data")
    assert departures(read_places(tmp_path / "data")) == [f"The runs {message}."]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaderboard, "DATA", tmp_path / "data")
        with pytest.raises(DataError, match=rf"The runs {message}\. Repeat some of these runs"):
            main(["--data", str(tmp_path / "data"), "--page", str(tmp_path / "page.md")])


def test_runs_of_your_own_are_shown_next_to_those_of_the_protocol_with_a_note(tmp_path, capsys):
    records = make_records("grpo", "gtpo")
    mine = Job("headroom", "grpo", 201)
    records[mine] = dataclasses.replace(records[mine], about={**records[mine].about, "commit": "2+"})
    write_data(records.values(), tmp_path / "data")
    assert main(["--data", str(tmp_path / "data"), "--page", str(tmp_path / "page.md")]) == 0
    note = (
        "The runs in the lab come from several commits: 1, 2+. Runs in the lab are of commit 2+, which does not name"
    )
    assert note in (tmp_path / "page.md").read_text()
    assert "note: The runs in the lab come from several commits" in capsys.readouterr().out


def test_a_setting_may_be_on_another_machine_but_no_run_of_an_unclear_commit(tmp_path):
    records = make_records("grpo") | make_records("grpo", setting="comfortable")
    elsewhere = {"device": "2", "torch": "2"}
    for commit in ("1", "1+", "unknown"):
        about = {job: {**record.about, "commit": commit} for job, record in records.items()}
        about |= {job: {**values, **elsewhere} for job, values in about.items() if job.setting == "comfortable"}
        write_data([dataclasses.replace(record, about=about[job]) for job, record in records.items()], tmp_path)
        found = departures(read_places(tmp_path))
        assert len(found) == (commit != "1")
        assert all(note.endswith("which does not name their code.") for note in found)


def with_outcomes(differences, arm, setting):
    """GRPO at 50 %, and one arm that differs from it by `differences`; the other primaries differ by nothing."""
    records = make_records("grpo", *dict.fromkeys([*PRIMARY_ARMS, arm]), setting=setting)
    for job, record in records.items():
        record.after["pass@8"] = 0.5 + (differences[job.seed - 201] if job.arm == arm else 0.0)
    return records


STEADY = [0.03, 0.04, 0.05, 0.03, 0.04, 0.05, 0.04, 0.05]
BARELY = [0.064, 0.058, 0.018, -0.012, 0.047, -0.01, 0.076, 0.019]
"""Eight differences whose interval excludes 0: with p = 1/128, and with p = 6/128, which Holm makes 18/128."""


@pytest.mark.parametrize(
    ("differences", "arm", "setting", "verdict"),
    [
        (STEADY, "gtpo", "headroom", "better"),
        ([-d for d in STEADY], "gtpo", "headroom", "worse"),
        ([*STEADY[:4], *(-d for d in STEADY[4:])], "gtpo", "headroom", "not shown"),
        (BARELY, "gtpo", "headroom", "not shown"),  # a primary needs Holm's p
        (BARELY, "negative", "headroom", "better"),
        (BARELY, "gtpo", "comfortable", "better"),
    ],
)
def test_a_verdict_follows_the_protocol(differences, arm, setting, verdict):
    records = with_outcomes(differences, arm, setting)
    found = standings(lab_place(records, setting))
    assert found[arm].verdict == verdict
    assert found["grpo"].verdict is None
    assert {each.verdict for name, each in found.items() if name not in (arm, "grpo")} == {"not shown"}
    words = "not shown to differ for **GTPO**" if verdict == "not shown" else f"{verdict} for "
    assert summarise(records, setting).startswith(f"pass@8 is {words}")


@pytest.mark.skipif(not DATA.exists(), reason="the leaderboard has no runs yet")
def test_the_committed_page_is_that_of_the_committed_data(tmp_path):
    assert main(["--page", str(tmp_path / "leaderboard.md")]) == 0
    assert (ROOT / "docs/leaderboard.md").read_text() == (tmp_path / "leaderboard.md").read_text()
    assert "(leaderboard.md)" in (ROOT / "docs/results.md").read_text()
    assert "leaderboard.md" in (ROOT / "mkdocs.yml").read_text()


def test_every_scheme_has_an_arm_with_eight_seeds_in_every_setting():
    jobs = lab_jobs()
    assert len(set(jobs)) == len(jobs)
    for setting in ("comfortable", "one-prompt", "headroom"):
        for arm in (arm for arm in ARMS if "slow" not in arm):
            assert [job.seed for job in jobs if (job.setting, job.arm) == (setting, arm)] == list(range(201, 209))


def test_the_fifth_arm_on_qwen_is_the_best_of_the_others_in_headroom():
    by_arm = {}
    with (DATA / "lab_runs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["setting"] == "headroom":
                by_arm.setdefault(row["arm"], []).append(float(row["pass@8"]))
    others = {arm: values for arm, values in by_arm.items() if arm not in (*QWEN_ARMS[:4], "random", "base")}
    assert QWEN_ARMS[4] == max(others, key=lambda arm: statistics.fmean(others[arm]))
