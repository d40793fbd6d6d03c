"""`gtpo eval` as a user types it: what it prints, what it writes, and how it refuses wrong requests."""

import json
import re
import subprocess
import sys

import pytest

from gtpo.cli.main import main
from gtpo.files import locked
from gtpo.lab import lab_model_dir
from tests.evaluation.answering import save_answering_model
from tests.evaluation.parrot import save_problems, save_samples

FAST = ["--samples", "4", "--k", "1,2,4"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [save_answering_model(folder / "a"), save_answering_model(folder / "b", seed=1)]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return save_problems(tmp_path_factory.mktemp("problems") / "toy.jsonl", ["1", "2", "0", "3", "1"])


@pytest.fixture(scope="module")
def evaluated(models, toy, tmp_path_factory):
    """The folder of an evaluation of both models."""
    out = tmp_path_factory.mktemp("evaluated")
    assert main(["eval", *models, "--problems", toy, *FAST, "--out", str(out)]) == 0
    return out


@pytest.fixture
def refused(capsys):
    """Run a command that must fail; returns its error line."""

    def run(*argv):
        assert main([*map(str, argv)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = [line for line in captured.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1
        assert "Traceback" not in captured.err
        return lines[0]

    return run


def test_two_models_give_a_table_json_a_figure_and_their_paired_difference(models, toy, evaluated, capsys):
    assert main(["eval", *models, "--problems", toy, *FAST, "--out", str(evaluated)]) == 0
    captured = capsys.readouterr()
    for word in ("toy", "pass@1 %", "pass@4 %", "maj@2 %", "format %", "truncated %", "entropy, nats", " − "):
        assert word in captured.out
    assert "Loading weights" not in captured.err
    assert "5 problems × 4 samples, temperature 0.9, top-p 1" in captured.out
    result = json.loads((evaluated / "results.json").read_text())
    assert [measured["model"] for measured in result["results"]] == models
    metrics = result["results"][0]["metrics"]
    rates = {f"{kind}@{k}" for kind in ("pass", "maj") for k in (1, 2, 4)} | {"format_rate", "truncation_rate"}
    assert set(metrics) == rates | {"distinct_answers", "distinct_completions", "mean_length", "mean_entropy"}
    for estimate in metrics.values():
        assert estimate["low"] - 1e-12 <= estimate["value"] <= estimate["high"] + 1e-12
    (difference,) = result["differences"]
    gap = metrics["pass@2"]["value"] - result["results"][1]["metrics"]["pass@2"]["value"]
    assert difference["metrics"]["pass@2"]["difference"] == pytest.approx(gap)
    assert (evaluated / "curves.png").stat().st_size > 1000
    assert "<svg" in (evaluated / "curves.svg").read_text()
    assert len(list(evaluated.glob("*/toy.jsonl"))) == 2


def test_from_prints_the_same_json_without_a_model_and_writes_only_to_out(evaluated, tmp_path, capsys):
    files = [str(path) for path in sorted(evaluated.glob("*/toy.jsonl"))]
    before = sorted(evaluated.rglob("*"))
    assert main(["eval", "--from", *files, "--k", "1,2,4", "--layout", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((evaluated / "results.json").read_text())
    assert sorted(evaluated.rglob("*")) == before
    assert main(["eval", "--from", *files, "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "curves.svg", "results.json"]


def test_the_paper_layout_is_markdown(tmp_path, capsys):
    path = save_samples(tmp_path / "s.jsonl", save_problems(tmp_path / "p.jsonl", ["1"]), ["a"] * 8, num_samples=8)
    path.write_text(path.read_text().replace('"name": "toy"', '"name": "amc23"'))
    assert main(["eval", "--from", str(path), "--layout", "paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| model | AIME24 pass@1 | AIME24 pass@8 |")
    assert lines[0].endswith("AMC23 maj@64 |")
    assert lines[2].startswith("| parrot | – |")
    assert lines[2].count("0.0") == 4


def test_lab_is_the_shipped_model_by_name_and_by_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "lab", "--limit", "4", "--samples", "2"]) == 0
    assert "4 problems × 2 samples" in capsys.readouterr().out
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    written = {name for name in files if not name.endswith(".lock")}
    assert written == {
        f"runs/eval/lab-on-lab/{name}" for name in ("curves.png", "curves.svg", "lab/lab.jsonl", "results.json")
    }
    assert main(["eval", f"{lab_model_dir()}/", "--limit", "4", "--samples", "2"]) == 0
    again = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert again == set(files)  # the same name, and so the same samples


def test_sampling_options_reach_the_samples(models, toy, tmp_path, capsys):
    argv = ["--limit", "2", "--system-prompt", "w3 w4", "--max-new-tokens", "5", "--seed", "7", "--temperature", "0.5"]
    assert main(["eval", models[0], "--problems", toy, *FAST, *argv, "--out", str(tmp_path / "out")]) == 0
    (file,) = (tmp_path / "out").glob("*/toy.jsonl")
    header, *samples = map(json.loads, file.read_text().splitlines())
    assert len(samples) == 2 * 4
    settings = header["settings"]
    assert (settings["system_prompt"], settings["max_new_tokens"], settings["seed"]) == ("w3 w4", 5, 7)
    assert settings["temperature"] == 0.5
    assert max(sample["num_tokens"] for sample in samples) <= 5


def test_columns_map_the_names_in_a_problem_file(models, tmp_path, refused, capsys):
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"task": "w1 w2", "truth": 1}\n')
    argv = ["eval", models[0], "--problems", str(mine), *FAST, "--out", str(tmp_path / "out")]
    assert main([*argv, "--columns", "question=task,answer=truth"]) == 0
    (file,) = (tmp_path / "out").glob("*/mine.jsonl")
    assert json.loads(file.read_text().splitlines()[1])["gold"] == "1"
    capsys.readouterr()
    assert "question=task,answer=truth" in refused(*argv, "--columns", "task")


def test_from_refuses_sampling_options_by_name(tmp_path, refused):
    error = refused("eval", "--from", tmp_path / "x.jsonl", "--limit", "4", "--top-p", "1", "--seed", "0")
    assert "so --limit, --top-p, --seed would have no effect" in error


def test_hostile_names_and_completions_do_not_reach_the_terminal(tmp_path, capsys):
    texts = [
        "<reasoning>\x1b[2J\x00</reasoning><answer>\x1b]0;title\x07</answer>",
        f"<answer>{'9' * 1_000_000}</answer>",
        "\ud800\u2028<answer>\n\r\n</answer>" + "<answer>" * 10_000,
        "<reasoning>r</reasoning><answer>1</answer>",
    ]
    toy = save_problems(tmp_path / "toy.jsonl", ["1", "1"])
    path = save_samples(tmp_path / "samples.jsonl", toy, texts, model="a \x1b[31mparrot")
    path.write_text(path.read_text().replace('"name": "toy"', '"name": "a\\u001b[2J[bold]"'))
    assert main(["eval", "--from", str(path), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a�[2J[bold]" in out
    assert "pass@1 %" in out
    metrics = json.loads((tmp_path / "out" / "results.json").read_text())["results"][0]["metrics"]
    assert metrics["pass@1"]["value"] == 0.25


def test_wrong_requests_are_one_line_and_exit_code_2(models, toy, tmp_path, refused):
    out = ["--out", tmp_path / "out"]
    assert "nosuchset" in refused("eval", models[0], "--problems", "nosuchset", *out)
    (tmp_path / "empty").mkdir()
    assert "it has no config.json" in refused("eval", models[0], tmp_path / "empty", *out)
    assert not (tmp_path / "out").exists()  # refused before anything is sampled
    (tmp_path / "file").write_text("")
    assert "Cannot write" in refused("eval", models[0], "--problems", toy, "--out", tmp_path / "file" / "out")
    assert "Pass either models" in refused("eval")
    assert "Pass either models" in refused("eval", models[0], "--from", tmp_path / "file")
    assert "/*.jsonl" in refused("eval", "--from", tmp_path)
    assert "--engine vllm" in refused("eval", models[0], "--problems", toy, "--gpu-memory", "0.5", *out)


def test_a_second_evaluation_into_the_same_file_is_refused(models, toy, evaluated, refused):
    with locked(min(evaluated.glob("*/*.jsonl")).with_suffix(".lock"), "held by another process"):
        argv = ["eval", *models, "--problems", toy, *FAST, "--out", evaluated]
        assert "Another evaluation is writing" in refused(*argv)


def test_traceback_raises_the_error():
    with pytest.raises(ValueError, match="either models"):
        main(["eval", "--traceback"])


@pytest.mark.parametrize("argv", [["eval", "m", "--k", "1,x"], ["eval", "m", "--sample", "4"], ["nothing"], []])
def test_unknown_arguments_exit_with_2(argv, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    error = capsys.readouterr().err
    assert "error:" in error
    if "--sample" in argv:
        assert "usage: gtpo eval" in error
        assert "did you mean --samples?" in error


def test_an_interruption_prints_how_to_resume(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gtpo.evaluation.evaluate.evaluate", interrupt)
    assert main(["eval", "lab"]) == 130
    assert "interrupted: run the same command again to resume" in capsys.readouterr().err


def test_an_error_of_the_operating_system_is_one_line(monkeypatch, refused):
    def closed(*_, **__):
        raise PermissionError(13, "Permission denied", "some/file")

    monkeypatch.setattr("gtpo.evaluation.evaluate.evaluate", closed)
    assert refused("eval", "lab").startswith("error: some/file: Permission denied")
    with pytest.raises(PermissionError):
        main(["eval", "lab", "--traceback"])


def test_help_has_a_description_defaults_and_examples(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["eval", "--help"])
    text = capsys.readouterr().out
    assert "\nSample models on problem sets and report pass@k and maj@k with bootstrap 95 % intervals.\n" in text
    assert re.search(r"--samples N +samples per problem \(default: 16\)", text)
    assert "\n  gtpo eval lab\n" in text


def test_importing_the_command_line_loads_no_heavy_library():
    script = (
        "import sys, gtpo.cli.main\n"
        "heavy = ('torch', 'transformers', 'trl', 'vllm', 'matplotlib', 'datasets', 'rich')\n"
        "sys.exit(any(name in sys.modules for name in heavy))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=120).returncode == 0


def test_each_evaluation_has_a_folder_of_its_own_and_overwrites_no_other(
    models, toy, tmp_path, monkeypatch, refused, capsys
):
    monkeypatch.chdir(tmp_path)
    for model in models:
        assert main(["eval", model, "--problems", toy, *FAST]) == 0
    folders = sorted((tmp_path / "runs/eval").iterdir())
    assert len(folders) == 2
    for folder, model in zip(folders, models, strict=True):
        (result,) = json.loads((folder / "results.json").read_text())["results"]
        assert result["model"] == model
    before = (folders[0] / "results.json").read_bytes()
    capsys.readouterr()
    error = refused("eval", models[1], "--problems", toy, *FAST, "--out", folders[0])
    assert f"has results of {models[0]} on toy, which this evaluation would overwrite" in error
    assert "Choose another folder with --out" in error
    assert (folders[0] / "results.json").read_bytes() == before
    assert main(["eval", *models, "--problems", toy, *FAST, "--out", str(folders[0])]) == 0
    assert main(["eval", "x" * 150, "--problems", toy]) == 2  # a name that is too long for a folder
    assert main(["eval", models[0], "--problems", toy, *FAST, "--grader", "boxed"]) == 0
    (graded,) = set((tmp_path / "runs/eval").iterdir()) - set(folders)
    assert graded.name == f"{folders[0].name}-by-boxed"


def test_a_grader_of_the_user_is_announced_and_named_in_table_and_results(models, toy, tmp_path, capsys):
    grader = "tests.evaluation.own_graders:exact"
    argv = ["--problems", toy, *FAST, "--grader", grader, "--out", str(tmp_path / "out")]
    assert main(["eval", models[0], *argv]) == 0
    captured = capsys.readouterr()
    assert f"graded by {grader}" in captured.out
    assert re.search(rf"the grader {grader} is imported from .*/own_graders\.py", captured.err)
    assert json.loads((tmp_path / "out/results.json").read_text())["results"][0]["grader"] == grader


def test_a_wrong_grader_is_refused_before_any_model_is_loaded(toy, tmp_path, refused):
    error = refused("eval", "no/model", "--problems", toy, "--grader", "boxes", "--out", tmp_path / "out")
    assert "There is no grader 'boxes'" in error
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_neither_a_folder_nor_on_the_hub_is_refused(toy, tmp_path, refused):
    error = refused("eval", "nodir", "--problems", toy, "--out", tmp_path / "out")
    assert "there is no such folder, and it cannot be loaded from the hub" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("argv", [["a", "b"], ["--from", "s.jsonl"]])
def test_all_checkpoints_takes_one_run(argv, tmp_path, refused):
    assert "--all-checkpoints takes the folder of one run" in refused("eval", "--all-checkpoints", *argv)
    assert "is not a run" in refused("eval", "--all-checkpoints", tmp_path)
