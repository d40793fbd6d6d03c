"""The commands that read runs: what they print, what they write, and what they refuse."""

import json
import re

import pytest

from gtpo.cli.main import main
from tests.runs.making import make_run, rows


@pytest.fixture
def runs(tmp_path):
    """Three seeds of two methods; the first is better by 20 points, and its seeds differ a little."""
    for method, level in (("gtpo", 0.8), ("grpo", 0.6)):
        for seed in (1, 2, 3):
            noise = seed / 1000 * (1 if method == "gtpo" else 2)
            metrics = rows(60, accuracy=level + noise, format=0.9, entropy=0.3)
            make_run(tmp_path / f"{method}-seed{seed}", metrics, method=method, seed=seed)
    return tmp_path


def paths(folder, method):
    return [str(folder / f"{method}-seed{seed}") for seed in (1, 2, 3)]


def test_report_writes_a_page_and_figures_and_prints_a_summary(runs, capsys):
    figures = runs / "figures"
    code = main(
        ["report", *paths(runs, "gtpo"), *paths(runs, "grpo"), "--out", str(runs / "deep" / "r.html"),
         "--png", str(figures), "--svg", str(figures)]
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert "gtpo-seed1" in out
    assert "80.1 %" in out
    assert "healthy" in out
    assert (runs / "deep" / "r.html").read_text().startswith("<!doctype html>")
    assert (figures / "training.png").read_bytes()[:4] == b"\x89PNG"
    assert "Training accuracy (%)" in (figures / "training.svg").read_text()
    assert not (figures / "evaluation.png").exists()  # there is none in these folders


def test_the_report_of_one_run_is_in_its_folder(runs, capsys):
    assert main(["report", str(runs / "gtpo-seed1")]) == 0
    assert (runs / "gtpo-seed1" / "report.html").is_file()


def test_the_report_says_how_to_make_the_pages_that_its_curves_lead_to(runs, capsys):
    folder = runs / "gtpo-seed1"
    (folder / "groups.jsonl").write_text('{"step": 1}\n')
    assert main(["report", str(folder)]) == 0
    assert f"To link the curves to the recorded groups, run gtpo inspect {folder}, then" in capsys.readouterr().out
    (folder / "inspect.html").write_text("")
    assert main(["report", str(folder), "--out", str(runs / "pages" / "r.html")]) == 0
    assert "To link the curves" not in capsys.readouterr().out
    assert 'href="../gtpo-seed1/inspect.html#step-1"' in (runs / "pages" / "r.html").read_text()


def test_compare_prints_a_verdict(runs, capsys):
    assert main(["compare", *paths(runs, "gtpo"), "--vs", *paths(runs, "grpo"), "--levels", "0.5"]) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if "accuracy, end of training" in line)
    assert "better" in line
    assert "+19.8" in line
    assert "paired by seed" in out


def test_compare_gives_json(runs, capsys):
    assert main(["compare", *paths(runs, "gtpo"), "--vs", *paths(runs, "grpo"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["first"], document["second"], document["unit"]) == ("gtpo", "grpo", "run")
    by_name = {comparison["name"]: comparison for comparison in document["comparisons"]}
    assert by_name["accuracy, end of training"]["verdict"] == "better"
    assert by_name["accuracy, end of training"]["kind"] == "fraction"
    assert by_name["collapsed runs"]["first"] == 0


def samples(path, model, num_right, num_samples=2, temperature=0.9, problems="toy"):
    settings = {"num_samples": num_samples, "temperature": temperature, "top_p": 1.0, "max_new_tokens": 9, "seed": 0}
    problem_set = {"name": problems, "count": 8, "sha256": "d"}
    lines = [{"gtpo_samples": 1, "model": model, "engine": {}, "problems": problem_set, "settings": settings}]
    for problem in range(8):
        text = f"<reasoning>so</reasoning><answer>{4 if problem < num_right else 5}</answer>"
        sample = {"problem": problem, "gold": "4", "text": text, "num_tokens": 9, "truncated": False, "entropy": 0.1}
        lines += [sample | {"sample": number} for number in range(num_samples)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_hostile_problem_set_name_does_not_reach_the_terminal(tmp_path, capsys):
    name = "toy\x1b]0;owned\x07"
    first, second = (samples(tmp_path / f"{model}.jsonl", model, 8, problems=name) for model in "ab")
    assert main(["compare", first, "--vs", second]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_compare_takes_sample_files_over_problems(tmp_path, capsys):
    first, second = samples(tmp_path / "a.jsonl", "a", 8), samples(tmp_path / "b.jsonl", "b", 3)
    assert main(["compare", first, "--vs", second, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    comparison = next(row for row in document["comparisons"] if row["name"] == "toy pass@1")
    assert document["unit"] == "problem"
    assert comparison["difference"] == pytest.approx(5 / 8)
    assert comparison["verdict"] == "better"


def test_compare_prints_how_the_sides_were_sampled_and_counts_without_percent(tmp_path, capsys):
    first, second = samples(tmp_path / "a.jsonl", "a", 8), samples(tmp_path / "b.jsonl", "b", 3)
    assert main(["compare", first, "--vs", second]) == 0
    streams = capsys.readouterr()
    assert "8 problems × 2 samples, temperature 0.9, top-p 1, at most 9 tokens, seed 0" in streams.out
    assert "note:" not in streams.err
    row = next(line for line in streams.out.splitlines() if "distinct_answers" in line)
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["1.0", "1.0", "+0.0"]
    other = samples(tmp_path / "c.jsonl", "c", 3, num_samples=4, temperature=0.2)
    assert main(["compare", first, "--vs", other]) == 0
    streams = capsys.readouterr()
    assert "sampled differently (num samples 2 against 4; temperature 0.9 against 0.2)" in streams.err
    assert "a: 8 problems × 2 samples" in streams.out
    assert "distinct" not in streams.out
    assert main(["compare", first, "--vs", second, "--levels", "0.5"]) == 2
    assert "--levels only applies to runs" in capsys.readouterr().err


def test_compare_notes_runs_of_different_length(tmp_path, capsys):
    long, short = (make_run(tmp_path / f"for-{n}", rows(n, accuracy=0.5), method="gtpo") for n in (40, 20))
    assert main(["compare", str(long), "--vs", str(short)]) == 0
    streams = capsys.readouterr()
    assert "note: the runs have 40 and 20 steps" in streams.err
    assert "different functions" not in streams.err
    assert "for-40 against for-20" in streams.out  # both methods are gtpo


def test_compare_notes_rewards_of_different_functions(tmp_path, capsys):
    runs = [
        make_run(tmp_path / name, rows(20, accuracy=0.5, **{f"rewards/{name}/mean": 0.5}))
        for name in ("paper", "mine")
    ]
    assert main(["compare", str(runs[0]), "--vs", str(runs[1])]) == 0
    assert "the rewards come from different functions (mine; paper)" in capsys.readouterr().err


def test_compare_refuses_what_is_passed_twice(runs, tmp_path, capsys):
    for path in (str(runs / "gtpo-seed1"), samples(tmp_path / "b.jsonl", "b", 3)):
        assert main(["compare", path, "--vs", path]) == 2
        assert "passed twice. Leave one out" in capsys.readouterr().err


def test_compare_refuses_a_run_against_a_sample_file(runs, tmp_path, capsys):
    code = main(["compare", str(runs / "gtpo-seed1"), "--vs", samples(tmp_path / "b.jsonl", "b", 3)])
    assert code == 2
    assert "Cannot compare runs with sample files" in capsys.readouterr().err


def test_health_prints_the_reason_and_the_remedy(tmp_path, capsys):
    folder = make_run(tmp_path / "bad", rows(40, accuracy=0.5, format=lambda step: 0.9 if step < 20 else 0.1))
    assert main(["health", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "bad, step 40: collapsing" in out
    assert "format fell from 90 % at its best to 10 %" in out
    assert "What to try: Halve the learning rate" in out
    assert main(["health", str(folder / "metrics.jsonl"), "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["level"]) == ("collapsing", 2)
    assert document["history"][0] == {"kind": "format_falling", "level": 2, "first_step": 21}
    (checked,) = [check for check in document["checked"] if check["kind"] == "format_falling"]
    assert checked["values"]["format"] == pytest.approx({"first": 0.9, "best": 0.9, "recent": 0.1})
    assert {"kind": "reward_falling", "reason": "reward not logged"} in document["not_checked"]
    assert "checked: not finite" in out
    assert "  first → recent: format 0.9 → 0.1" in out
    assert "reward falling" in out[out.index("not checked:") :]


@pytest.mark.parametrize(
    ("name", "count", "reward", "code"),
    [
        ("healthy", 20, lambda step: 0.5, 0),
        ("unknown", 3, lambda step: 0.5, 3),
        ("warning", 40, lambda step: 0.5 if step < 20 else 0.35, 4),
        ("collapsing", 40, lambda step: 0.5 if step < 20 else 0.0, 5),
    ],
)
def test_health_exits_with_the_verdict_if_asked_to(tmp_path, capsys, name, count, reward, code):
    folder = make_run(tmp_path / "run", rows(count, reward=reward))
    assert main(["health", str(folder)]) == 0
    assert f"run, step {count}: {name}" in capsys.readouterr().out
    assert main(["health", str(folder), "--exit-code"]) == code
    better = make_run(tmp_path / "better", rows(20, reward=0.5))
    assert main(["health", str(folder), str(better), "--exit-code"]) == code  # of the worst run
    assert main(["health", str(tmp_path / "nowhere"), "--exit-code"]) == 2


def test_health_takes_the_held_out_problems_into_account(tmp_path, capsys):
    folder = make_run(tmp_path / "run", rows(20, reward=0.5), after={"accuracy": 0.1, "num_problems": 200})
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "before": {"accuracy": 0.5}}))
    assert main(["health", str(folder)]) == 0
    assert "collapsing (first at step 20): held-out accuracy fell from 50 % to 10 %" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["report"], ["health"], ["compare", "--vs", "x"]])
def test_a_folder_that_is_not_a_run_is_refused_in_one_line(tmp_path, capsys, command):
    name, *rest = command
    assert main([name, str(tmp_path), *rest]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "is not a run" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["report", "health"])
def test_folders_that_are_not_runs_are_left_out_with_a_note(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "sound", rows(20, entropy=0.4))
    (tmp_path / "eval\x1b[2J").mkdir()
    assert main([command, str(run), str(tmp_path / "eval\x1b[2J")]) == 0
    streams = capsys.readouterr()
    assert "sound" in streams.out
    assert streams.err.startswith("note: left out: ")
    assert "is not a run" in streams.err
    assert "\x1b" not in streams.err
    assert main([command, str(run), "nowhere"]) == 2  # but a path that does not exist is refused
    assert "nowhere does not exist" in capsys.readouterr().err


def test_a_folder_of_samples_or_of_a_run_that_never_logged_gets_a_hint(tmp_path, capsys):
    (tmp_path / "eval").mkdir()
    samples(tmp_path / "eval" / "toy.jsonl", "a", 8)
    assert main(["compare", str(tmp_path / "eval"), "--vs", "x"]) == 2
    assert "pass their sample files: " in capsys.readouterr().err
    (tmp_path / "begun").mkdir()
    for name in ("config.yaml", "run.json"):
        (tmp_path / "begun" / name).write_text("{}")
    assert main(["health", str(tmp_path / "begun")]) == 2
    assert "the run stopped before its first step. Resume it with: gtpo train --resume" in capsys.readouterr().err


def test_what_cannot_be_used_is_noted_and_the_rest_is_used(tmp_path, capsys):
    folder = make_run(tmp_path / "torn\x1b[2J", rows(20, entropy=0.4))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 21, "ent')
    assert main(["report", str(folder)]) == 0
    streams = capsys.readouterr()
    assert "skipped (line 21)" in streams.err
    assert "no accuracy was logged" in streams.err
    assert "\x1b" not in streams.err + streams.out.splitlines()[1]
    assert "20 " in streams.out


HOSTILE = {
    "integers without end": {"reward": 10**400, "loss": 10**400, "step_time": 10**400},
    "the largest floats": {"reward": 1e308, "grad_norm": -1.7e308, "entropy": 1.7e308},
    "the smallest floats": {
        "learning_rate": 5e-324,
        "grad_norm": lambda step: 5e-324 * 100**step,
        "reward": 5e-324,
    },
    "fractions outside 0 to 1": {"accuracy": 5, "format": -5, "completions/clipped_ratio": 1e59},
    "values that are not numbers": {"accuracy": [1], "reward": "abc", "step_time": "x", "gtpo/seconds_a": {}},
    "steps beyond 64 bits": {"step": lambda step: 10**30 + 2**60 * step, "accuracy": 0.5},
    "names without end": {"rewards/" + "a" * 10**6 + "/mean": 1.0, "b" * 10**6: 1.0},
    "markup in names": {"rewards/<script>/mean": 1.0, "rewards/\x1b[2J/mean": 0.5},
    "one huge step": {"step": 1e59, "accuracy": 0.5},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_value_breaks_a_report(tmp_path, capsys, name):
    good = make_run(tmp_path / "good", rows(12, accuracy=0.5, format=0.5))
    bad = make_run(tmp_path / "bad", rows(12, **({"accuracy": 0.4, "format": 0.5} | HOSTILE[name])))
    with (bad / "metrics.jsonl").open("a") as file:
        file.write("[" * 200_000 + "\n")
    figures = str(tmp_path / "figures")
    assert main(["report", str(bad), str(good), "--out", str(tmp_path / "r.html"), "--svg", figures]) == 0
    assert main(["health", str(bad)]) == 0
    assert main(["compare", str(bad), "--vs", str(good)]) == 0
    assert "1 incomplete JSON lines skipped (line 13)" in capsys.readouterr().err
    assert not re.search(r' (?:d|cx|cy|x1|y1)="[^"]*(nan|inf)', (tmp_path / "r.html").read_text())
