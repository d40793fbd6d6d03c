"""`gtpo eval` as a user types it: what it prints, what it leaves behind, and what it says when asked wrongly."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gtpo.cli.main import main
from gtpo.cli.progress import ProgressBar
from gtpo.evaluation.evaluate import sample_problems
from gtpo.evaluation.samples import only_writer
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.problems import load_problems
from tests.evaluation.answering import Parrot, save_answering_model, save_problems

FAST = ["--samples", "4", "--k", "1,2,4"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [save_answering_model(folder / "a"), save_answering_model(folder / "b", seed=1)]


@pytest.fixture
def toy(tmp_path):
    return save_problems(tmp_path / "toy.jsonl", ["1", "2", "0", "3", "1"])


@pytest.fixture
def refused(capsys):
    """Run a command that must fail: returns the one line it says."""

    def run(*argv):
        assert main([*map(str, argv)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = [line for line in captured.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1
        assert "Traceback" not in captured.err
        return lines[0]

    return run


def test_two_models_give_table_json_figure_and_their_paired_difference(models, toy, tmp_path, capsys):
    assert main(["eval", *models, "--problems", toy, *FAST, "--out", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    for word in ("toy", "pass@1 %", "pass@4 %", "maj@2 %", "format %", "truncated %", "entropy, nats", " − "):
        assert word in captured.out
    assert "5 problems × 4 samples, temperature 0.9, top-p 1" in captured.out
    assert "20/20" in captured.err
    result = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [one["model"] for one in result["results"]] == models
    metrics = result["results"][0]["metrics"]
    assert set(metrics) == {f"{kind}@{k}" for kind in ("pass", "maj") for k in (1, 2, 4)} | {
        "distinct_answers",
        "distinct_completions",
        "format_rate",
        "mean_length",
        "truncation_rate",
        "mean_entropy",
    }
    assert all(one["low"] <= one["value"] + 1e-12 and one["value"] <= one["high"] + 1e-12 for one in metrics.values())
    (difference,) = result["differences"]
    gap = metrics["pass@2"]["value"] - result["results"][1]["metrics"]["pass@2"]["value"]
    assert difference["metrics"]["pass@2"]["difference"] == pytest.approx(gap)
    assert (tmp_path / "out" / "curves.png").stat().st_size > 1000
    assert "<svg" in (tmp_path / "out" / "curves.svg").read_text()
    assert len(list((tmp_path / "out").glob("*/toy.jsonl"))) == 2


def test_from_prints_the_same_json_without_a_model_and_writes_nothing_unless_told(models, toy, tmp_path, capsys):
    out = tmp_path / "out"
    main(["eval", models[0], "--problems", toy, *FAST, "--out", str(out), "--layout", "json"])
    sampled = capsys.readouterr().out
    assert json.loads(sampled) == json.loads((out / "results.json").read_text())
    (file,) = out.glob("*/toy.jsonl")
    before = sorted(tmp_path.rglob("*"))
    assert main(["eval", "--from", str(file), "--k", "1,2,4", "--layout", "json"]) == 0
    assert capsys.readouterr().out == sampled
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["eval", "--from", str(file), "--out", str(tmp_path / "again")]) == 0
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["curves.png", "curves.svg", "results.json"]


def test_the_paper_layout_is_markdown_from_files_named_after_its_problem_sets(models, tmp_path, capsys):
    for name in ("aime24", "aime25", "amc23"):
        save_problems(tmp_path / f"{name}.jsonl", ["1", "2"])
    sets = ",".join(str(tmp_path / f"{name}.jsonl") for name in ("aime24", "aime25", "amc23"))
    out = tmp_path / "out"
    assert main(["eval", models[0], "--problems", sets, "--samples", "8", "--out", str(out), "--layout", "paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| model | AIME24 pass@1 | AIME24 pass@8 |")
    assert lines[0].endswith("AMC23 maj@64 |")
    assert lines[2].startswith(f"| {models[0]} | ")
    assert lines[2].count("–") == 3 * 3 + 3


def test_the_word_lab_names_the_shipped_model_and_its_problems(tmp_path, monkeypatch, capsys):
    lab = pytest.importorskip("gtpo.lab.model")
    if not lab.lab_model_dir().is_dir():
        pytest.skip("the lab's weights are not here")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "lab", "--limit", "8", "--samples", "4"]) == 0
    assert "8 problems × 4 samples" in capsys.readouterr().out
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert made == [f"runs/eval/{name}" for name in ("curves.png", "curves.svg", "lab/lab.jsonl", "results.json")]


def test_one_sample_is_greedy_and_the_table_says_so(models, toy, tmp_path, capsys):
    assert main(["eval", models[0], "--problems", toy, "--samples", "1", "--out", str(tmp_path / "out")]) == 0
    assert "5 problems × 1 sample, greedy" in capsys.readouterr().out


def test_limit_and_system_prompt_reach_the_samples(models, toy, tmp_path, capsys):
    argv = ["--limit", "2", "--system-prompt", "w3 w4", "--max-new-tokens", "5", "--seed", "7", "--temperature", "0.5"]
    assert main(["eval", models[0], "--problems", toy, *FAST, *argv, "--out", str(tmp_path / "out")]) == 0
    (file,) = (tmp_path / "out").glob("*/toy.jsonl")
    header, *samples = map(json.loads, file.read_text().splitlines())
    assert len(samples) == 2 * 4
    settings = header["settings"]
    assert (settings["system_prompt"], settings["max_new_tokens"], settings["seed"]) == ("w3 w4", 5, 7)
    assert settings["temperature"] == 0.5
    assert max(sample["num_tokens"] for sample in samples) <= 5


def test_columns_of_a_file_can_be_named(models, tmp_path, refused, capsys):
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"task": "w1 w2", "truth": 1}\n')
    argv = ["eval", models[0], "--problems", str(mine), *FAST, "--out", str(tmp_path / "out")]
    assert main([*argv, "--columns", "question=task,answer=truth"]) == 0
    (file,) = (tmp_path / "out").glob("*/mine.jsonl")
    assert json.loads(file.read_text().splitlines()[1])["gold"] == "1"
    capsys.readouterr()
    assert "question=task,answer=truth" in refused(*argv, "--columns", "task")
    assert "no problem set is one" in refused("eval", models[0], "--problems", "lab", "--columns", "question=task")


def test_sampling_options_beside_from_are_refused_by_name(tmp_path, refused):
    said = refused("eval", "--from", tmp_path / "x.jsonl", "--limit", "4", "--top-p", "1", "--seed", "0")
    assert "--top-p, --seed, --limit would change nothing" in said


def test_the_shipped_model_is_called_lab_by_whatever_path(tmp_path, capsys):
    from gtpo.lab.model import lab_model_dir

    argv = ["--limit", "2", "--samples", "2", "--out", str(tmp_path)]
    assert main(["eval", f"{lab_model_dir()}/", *argv]) == 0
    assert "lab on lab" in capsys.readouterr().err
    assert (tmp_path / "lab" / "lab.jsonl").is_file()


def test_hostile_names_do_not_reach_the_terminal(models, tmp_path, capsys):
    toy = save_problems(tmp_path / "a\x1b[2J[bold].jsonl", ["1"])
    assert main(["eval", models[0], "--problems", toy, *FAST, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a�[2J[bold]" in out


def test_hostile_completions_break_neither_the_file_nor_the_table(tmp_path, capsys):
    toy = save_problems(tmp_path / "toy.jsonl", ["1", "1"])
    path = tmp_path / "samples.jsonl"
    hostile = [
        "<reasoning>\x1b[2J\x00</reasoning><answer>\x1b]0;title\x07</answer>",
        f"<answer>{'9' * 1_000_000}</answer>",
        "\ud800\u2028<answer>\n\r\n</answer>" + "<answer>" * 10_000,
        "<reasoning>r</reasoning><answer>1</answer>",
    ]
    sample_problems(
        Parrot(hostile),
        "a \x1b[31mparrot",
        "toy",
        load_problems(toy),
        SamplingSettings(num_samples=2),
        path,
        batch_size=4,
        progress=lambda *_: None,
    )
    assert main(["eval", "--from", str(path), "--out", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out
    assert "pass@1 %" in captured.out
    metrics = json.loads((tmp_path / "out" / "results.json").read_text())["results"][0]["metrics"]
    assert metrics["pass@1"]["value"] == 0.25


def test_progress_gives_the_time_left(capsys):
    with ProgressBar() as progress:
        for done in (0, 1, 2):
            progress("lab on lab", done, 4)
    last = capsys.readouterr().err.split("\r")[-1]
    assert re.search(r"lab on lab: +50%.* 2/4 \[\d+:\d+<\d+:\d+", last)


def test_a_killed_evaluation_goes_on_and_ends_with_the_same_bytes(models, toy, tmp_path):
    """A process that dies without any warning, in the middle of its samples."""
    script = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from gtpo.evaluation import evaluate as module\n"
        "from gtpo.cli.main import main\n"
        "append, calls = module.append_samples, []\n"
        "def dying(path, samples):\n"
        "    append(path, samples)\n"
        "    calls.append(1)\n"
        "    if len(calls) == 3: os._exit(9)\n"
        "module.append_samples = dying\n"
        "main(sys.argv[1:])\n"
    )
    argv = ["eval", models[0], "--problems", toy, *FAST, "--batch-size", "3"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    died = subprocess.run(
        [sys.executable, "-c", script, *argv, "--out", str(cut)],
        timeout=120,
        capture_output=True,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
        },  # as many threads as here: the last digit of an entropy depends on it
    )
    assert died.returncode == 9
    (file,) = cut.glob("*/toy.jsonl")
    assert file.read_bytes().count(b"\n") == 1 + 9
    assert main([*argv, "--out", str(cut)]) == 0
    assert main([*argv, "--out", str(whole)]) == 0
    assert file.read_bytes() == next(whole.glob("*/toy.jsonl")).read_bytes()
    assert (cut / "results.json").read_bytes() == (whole / "results.json").read_bytes()


def test_wrong_requests_are_one_line_and_exit_code_2(models, toy, tmp_path, refused):
    out = ["--out", tmp_path / "out"]
    assert "nosuchset" in refused("eval", models[0], "--problems", "nosuchset", *out)
    assert "k must be from 1 to the number of samples (4), got 8" in refused(
        "eval", models[0], "--problems", toy, "--samples", "4", "--k", "1,8", *out
    )
    assert "'/nowhere' cannot be loaded" in refused("eval", "/nowhere", "--problems", toy, *out)
    (tmp_path / "empty").mkdir()
    assert "cannot be loaded: it has no config.json" in refused("eval", models[0], tmp_path / "empty", *out)
    assert not (tmp_path / "out").exists()  # known before anything is sampled
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused("eval", models[0], "--problems", toy, "--out", tmp_path / "file" / "out")
    assert "either models" in refused("eval")
    assert "either models" in refused("eval", models[0], "--from", tmp_path / "file")
    assert "has no header line" in refused("eval", "--from", tmp_path / "file")
    assert "No such file" in refused("eval", "--from", tmp_path / "none.jsonl")
    assert "/*.jsonl" in refused("eval", "--from", tmp_path)
    assert "At temperature 0" in refused("eval", models[0], "--temperature", "0", "--problems", toy, *out)
    assert "batch_size" in refused("eval", models[0], "--problems", toy, "--batch-size", "0", *out)
    assert "--engine vllm" in refused("eval", models[0], "--problems", toy, "--gpu-memory", "0.5", *out)


def test_a_damaged_or_foreign_file_under_out_is_one_line(models, toy, tmp_path, refused, capsys):
    argv = ["eval", models[0], "--problems", toy, *FAST, "--out", str(tmp_path / "out")]
    assert main(argv) == 0
    capsys.readouterr()
    assert "settings.seed was 0, is 3" in refused(*argv, "--seed", "3")
    (file,) = (tmp_path / "out").glob("*/toy.jsonl")
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:3], b"\x00garbage", *lines[4:]]))
    assert "line 4 is damaged" in refused(*argv)
    wrong = json.dumps(json.loads(lines[3]) | {"text": 5}).encode()
    file.write_bytes(b"\n".join([*lines[:3], wrong, *lines[4:]]))
    assert "line 4 is damaged (text of the wrong type or range)" in refused(*argv)
    file.write_bytes(b"\n".join(lines))
    assert "give --max-new-tokens" in refused(*argv, "--max-new-tokens", "7")


def test_traceback_shows_where_an_error_arose():
    with pytest.raises(ValueError, match="either models"):
        main(["eval", "--traceback"])


@pytest.mark.parametrize("argv", [["eval", "m", "--k", "1,x"], ["eval", "m", "--sample", "4"], ["nothing"], []])
def test_what_the_parser_does_not_know_exits_with_2(argv, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    said = capsys.readouterr().err
    assert "error:" in said
    if "--sample" in argv:
        assert "usage: gtpo eval" in said
        assert "did you mean --samples?" in said


def test_an_interruption_is_no_traceback(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gtpo.evaluation.evaluate.evaluate", interrupt)
    assert main(["eval", "lab"]) == 130
    assert "interrupted: the same command goes on where it stopped" in capsys.readouterr().err


def test_what_the_system_refuses_is_one_line(monkeypatch, refused):
    def closed(*_, **__):
        raise PermissionError(13, "Permission denied", "some/file")

    monkeypatch.setattr("gtpo.evaluation.evaluate.evaluate", closed)
    assert refused("eval", "lab") == "error: some/file: Permission denied (--traceback shows where)"
    with pytest.raises(PermissionError):
        main(["eval", "lab", "--traceback"])


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with only_writer(tmp_path / "out" / "toy.jsonl"):
        assert "no locks" in caplog.text


def test_a_second_evaluation_into_the_same_file_is_refused(models, toy, tmp_path, refused, capsys):
    argv = ["eval", models[0], "--problems", toy, *FAST, "--out", str(tmp_path / "out")]
    assert main(argv) == 0
    capsys.readouterr()
    (file,) = (tmp_path / "out").glob("*/*.jsonl")
    with only_writer(file):
        assert "Another evaluation is writing" in refused(*argv)
    assert main(argv) == 0
    assert not list((tmp_path / "out").rglob("*.lock"))


def test_help_begins_with_a_sentence_and_ends_with_commands(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["eval", "--help"])
    text = capsys.readouterr().out
    assert "\nSample models on problem sets and report pass@k and maj@k with bootstrap 95 % intervals.\n" in text
    assert "\n  gtpo eval lab\n" in text


def test_importing_the_command_line_loads_no_heavy_library():
    script = (
        "import sys, gtpo.cli.main\n"
        "sys.exit(any(n in sys.modules for n in ('transformers', 'trl', 'vllm', 'matplotlib', 'datasets', 'rich')))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=120).returncode == 0
