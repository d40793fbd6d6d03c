"""`gtpo inspect` as a user types it: what it prints, what it writes, and how it refuses wrong requests."""

import base64
import dataclasses
import json
import os
import re
import struct
import subprocess
import sys
import unicodedata

import pytest

from gtpo import GTPOTrainer
from gtpo.cli.main import main
from gtpo.token_view.changes import count_changes
from tests.reading import read_groups, read_metrics
from tests.token_view.example_group import example_group, save_groups
from tests.trl.checked import settings, train


@pytest.fixture
def run(tmp_path):
    """A folder with two recorded steps."""
    return save_groups(tmp_path / "run", example_group(1), example_group(11))


@pytest.fixture(scope="module")
def trained(tiny_model, tmp_path_factory):
    """The folder of a real run that recorded every group."""
    folder = tmp_path_factory.mktemp("trained")
    train(tiny_model, **settings(folder, record_groups=2, record_every=1, trainer=GTPOTrainer))
    return folder


def data_of(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text())[1])


def groups_of(page):
    return [json.loads(text) for text in re.findall(r'class="group">(.*?)</script>', page.read_text())]


def refused(capsys, *argv):
    assert main(["inspect", *map(str, argv)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    return captured.err


def test_a_page_is_written_next_to_the_records_and_its_path_printed(run, capsys):
    assert main(["inspect", str(run)]) == 0
    page = run / "inspect.html"
    assert capsys.readouterr().out == f"{page}\n"
    assert [group["step"] for group in groups_of(page)] == [1, 11]
    text = page.read_text()
    assert "<title>run · token view</title>" in text
    assert "default-src 'none'" in text
    assert not re.search(r"src\s*=|<a[^>]*href|<link|url\(|@import|https?://", text)
    assert not (run / "inspect_groups").exists()


def test_step_and_out_choose_the_step_and_the_file(run, capsys):
    out = run / "pages" / "eleven.html"
    assert main(["inspect", str(run), "--step", "11", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert [group["step"] for group in groups_of(out)] == [11]
    assert main(["inspect", str(run / "groups.jsonl"), "--out", str(out)]) == 0
    assert "<title>run · token view</title>" in out.read_text()


def test_the_page_shows_what_a_real_run_recorded(trained, capsys):
    assert main(["inspect", str(trained)]) == 0
    page = trained / "inspect.html"
    data, groups = data_of(page), read_groups(trained)
    names = [fate["name"] for fate in data["fates"]]
    assert len(groups_of(page)) == len(groups) == 8
    for shown_group, group in zip(groups_of(page), groups, strict=True):
        for shown, completion in zip(shown_group["completions"], group.completions, strict=True):
            indices = struct.unpack(f"<{completion.num_tokens}H", base64.b64decode(shown["tokens"]))
            assert [data["texts"][index] for index in indices] == [piece or "∅" for piece in completion.pieces]
            assert [data["ids"][index] for index in indices] == completion.token_ids
            entropies = struct.unpack(f"<{completion.num_tokens}e", base64.b64decode(shown["entropies"]))
            assert entropies == pytest.approx(completion.token_entropy, rel=1e-3, abs=1e-6)
            tokens = [values for size, *values in shown["stretches"] for _ in range(size)]
            assert [credit for _, _, credit in tokens] == pytest.approx(completion.token_advantage, rel=1e-4)
            for (fate, weight, push), weight_used in zip(tokens, completion.token_weight, strict=True):
                assert weight == pytest.approx(weight_used)
                if not completion.kept:
                    assert names[fate] == "filtered"
                elif weight == 0:
                    assert names[fate] == "skipped"
                elif push:
                    assert names[fate] in (("amplified", "up") if push > 0 else ("worsened", "down"))


def test_a_large_recording_gets_an_index_and_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gtpo.token_view.page.MAX_TOKENS", 400)
    run = save_groups(tmp_path / "run", *(example_group(step) for step in range(1, 6)))
    stale = run / "inspect_groups" / "page-009.html"
    stale.parent.mkdir()
    stale.write_text("of an earlier call")
    assert main(["inspect", str(run), "--group", "4"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{run / 'inspect.html'}\n"
    assert f"Group 4 is at {run / 'inspect.html'}#step-4-group-1" in captured.err
    pages = sorted((run / "inspect_groups").iterdir())
    assert [group["step"] for page in pages for group in groups_of(page)] == [1, 2, 3, 4, 5]
    assert not stale.exists()
    assert len(data_of(run / "inspect.html")["summaries"]) == 5
    assert "one page" not in captured.err
    assert main(["inspect", str(run), "--step", "3"]) == 0
    assert [group["step"] for group in groups_of(run / "inspect.html")] == [3]
    assert not (run / "inspect_groups").exists()


def test_pages_are_not_written_through_a_link(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gtpo.token_view.page.MAX_TOKENS", 400)
    run = save_groups(tmp_path / "run", *(example_group(step) for step in range(1, 6)))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / "inspect_groups").symlink_to(elsewhere)
    assert "is a link" in refused(capsys, run)
    assert list(elsewhere.iterdir()) == []
    os.mkfifo(tmp_path / "pipe")
    assert "several pages" in refused(capsys, run, "--out", tmp_path / "pipe")


def test_the_counts_equal_the_metrics_of_the_run(trained):
    groups = read_groups(trained)
    for row in read_metrics(trained):
        changes = count_changes([group for group in groups if group.step == row["step"]])
        assert changes.protected == row["gtpo/num_tokens_skipped"]
        assert changes.filtered == round(8 * (1 - row["gtpo/frac_kept"]))
        assert changes.up_added == pytest.approx(row["gtpo/frac_push_added"] * (changes.up + changes.down), rel=1e-4)


def test_the_terminal_shows_one_group_with_marks_that_need_no_color(run, capsys):
    assert main(["inspect", str(run), "--terminal"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("step 11\n")
    assert "▲▲<reasoning>│↵\n  In April ▲ Natalia sold" in out
    assert "◇<reasoning>│↵\n  In" in out
    assert "▨Half of of half" in out
    assert re.search(r"#4 bad +advantage −8.8", out)
    assert re.search(r"⟨H⟩ 1\.06 ━{6}┃━{3}─{3} above\s+ln 2", out)
    bars = [line.index("⟨H⟩") for line in out.splitlines() if "⟨H⟩ " in line and line.startswith("#")]
    assert len(bars) == 5
    assert len(set(bars)) == 1
    assert "20 of 131 tokens protected" in out
    assert "29 % of 45 conflict" in out
    assert not (run / "inspect.html").exists()


def test_the_terminal_names_another_scheme_and_the_range_of_its_advantages(tmp_path, capsys):
    group = dataclasses.replace(example_group(), method="my_schemes:late")
    first = group.completions[0]
    rising = [0.5 + place for place in range(first.num_tokens)]
    group.completions[0] = dataclasses.replace(first, token_advantage=rising)
    assert main(["inspect", str(save_groups(tmp_path, group)), "--terminal"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].endswith("credit: my_schemes:late")
    assert re.search(rf"#1 good .*credit \+0\.5 to \+{rising[-1]:.3g}", out)


def test_hostile_text_reaches_the_terminal_as_codes(tmp_path, capsys):
    group = example_group()
    pieces = ["\x1b]0;owned\x07", "\u202e", "[bold red]", "\ud800", "\r", "z" * 10**6]
    size = len(pieces)
    hostile = dataclasses.replace(
        group.completions[0],
        token_ids=[1] * size,
        pieces=pieces,
        token_weight=[1.0] * size,
        trained=[True] * size,
        token_advantage=[1.0] * size,
        token_entropy=[0.1] * size,
        prefix=0,
        suffix=0,
        rewards={"\x1b[2J": 1.0},
    )
    save_groups(tmp_path, dataclasses.replace(group, prompt="\x1b[2Jprompt", completions=[hostile]))
    assert main(["inspect", str(tmp_path), "--terminal"]) == 0
    out = capsys.readouterr().out
    assert all(unicodedata.category(character) not in {"Cc", "Cf", "Cs"} for character in out.replace("\n", ""))
    assert "⟦U+001B⟧]0;owned⟦U+0007⟧" in out
    assert "[bold red]" in " ".join(out.split())
    assert len(out) < 5000


def test_skipped_records_are_counted_on_stderr(run, capsys):
    with (run / "groups.jsonl").open("a") as file:
        file.write('{"schema": 1, "step": 21}\n{"torn')
    assert main(["inspect", str(run), "--terminal"]) == 0
    err = capsys.readouterr().err
    assert "note: 1 of the records in groups.jsonl skipped: not schema 1 to" in err
    assert "note: 1 of the records in groups.jsonl skipped: not a complete JSON line" in err


def test_a_tiny_threshold_gives_a_full_bar(tmp_path, capsys):
    save_groups(tmp_path, dataclasses.replace(example_group(), entropy_threshold=5e-324))
    assert main(["inspect", str(tmp_path), "--terminal"]) == 0
    assert "━━━━━━┃━━━━━━" in capsys.readouterr().out


def test_completions_without_a_tokenizer_are_compared_by_words(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    rows = [{"prompt": "p", "completion": f"<answer>{n}</answer>", "reward": n} for n in (0, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn')
    assert main(["inspect", "--completions", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path / 'inspect.html'}\n"
    assert "note: 1 rows skipped" in captured.err
    data = data_of(tmp_path / "inspect.html")
    assert "The end token and the entropies are missing" in data["notes"][0]
    assert "words, tags and punctuation, not the model's" in data["notes"][1]
    assert (data["changes"]["protected"], data["changes"]["tokens"]) == (2, 6)
    assert data["changes"]["share_removed"] == pytest.approx(2 / 3)
    assert data["changes"]["share_tags"] == 1.0


def test_completions_with_a_tokenizer_are_compared_by_tokens(tmp_path, tiny_model, capsys):
    path = tmp_path / "rollouts.jsonl"
    path.write_text('{"prompt": "p", "completion": "say red", "reward": 1}\n')
    assert main(["inspect", "--completions", str(path), "--tokenizer", tiny_model, "--terminal"]) == 0
    assert "say│red" in capsys.readouterr().out


def test_wrong_requests_are_one_line_with_a_remedy(run, tmp_path, capsys):
    assert "Pass either the folder of a run or files of completions" in refused(capsys)
    assert "not both" in refused(capsys, run, "--completions", "x.jsonl")
    assert "--tokenizer only applies to --completions" in refused(capsys, run, "--tokenizer", "t")
    assert "--terminal writes no page" in refused(capsys, run, "--terminal", "--out", "x.html")
    assert "Recorded steps: 1, 11." in refused(capsys, run, "--step", "5")
    assert "--group must be from 1 to 2, got 3" in refused(capsys, run, "--group", "3")
    (tmp_path / "file").touch()
    assert "Cannot write" in refused(capsys, run, "--out", tmp_path / "file" / "x.html")


def test_inspecting_a_run_loads_no_heavy_library(run):
    script = (
        "import sys\n"
        "from gtpo.cli.main import main\n"
        "main(['inspect', sys.argv[1]]), main(['inspect', sys.argv[1], '--terminal'])\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'datasets', 'trl')))\n"
    )
    command = [sys.executable, "-c", script, str(run)]
    assert subprocess.run(command, timeout=120, capture_output=True).returncode == 0
