"""`gtpo inspect` as a user types it: what it prints, what it leaves behind, and what it says when asked wrongly."""

import dataclasses
import json
import re
import unicodedata

import pytest
from scripts import screenshot

from gtpo import GTPOTrainer
from gtpo.cli.main import main
from gtpo.files import JsonLines
from gtpo.token_view.changes import count_changes
from tests.reading import read_groups, read_metrics
from tests.token_view.example_group import example_group
from tests.trl.checked import settings, train


@pytest.fixture
def run(tmp_path):
    """A folder with two recorded steps."""
    for step in (1, 11):
        JsonLines(tmp_path / "run" / "groups.jsonl").append(example_group(step))
    return tmp_path / "run"


def data_of(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text())[1])


def refused(capsys, *argv):
    assert main(["inspect", *map(str, argv)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    return captured.err


def test_a_page_is_written_beside_the_records_and_its_path_printed(run, capsys):
    assert main(["inspect", str(run)]) == 0
    page = run / "inspect.html"
    assert capsys.readouterr().out == f"{page}\n"
    assert [group["step"] for group in data_of(page)["groups"]] == [1, 11]
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?://", text)


def test_one_step_and_another_file_can_be_asked_for(run, capsys):
    out = run / "pages" / "eleven.html"
    assert main(["inspect", str(run), "--step", "11", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert [group["step"] for group in data_of(out)["groups"]] == [11]


def test_the_records_of_a_real_run_are_shown(tiny_model, tmp_path, capsys):
    train(tiny_model, **settings(tmp_path, record_groups=2, record_every=2, trainer=GTPOTrainer))
    assert main(["inspect", str(tmp_path)]) == 0
    shown, wanted = data_of(tmp_path / "inspect.html"), read_groups(tmp_path)
    names = [fate["name"] for fate in shown["fates"]]
    assert len(shown["groups"]) == len(wanted) == 4
    for group, recorded in zip(shown["groups"], wanted, strict=True):
        for completion, record in zip(group["completions"], recorded.completions, strict=True):
            assert [shown["texts"][n] for n in completion["texts"]] == [piece or "∅" for piece in record.pieces]
            assert completion["advantages"] == pytest.approx(record.token_advantage, rel=1e-4)
            for fate, pushed, weight in zip(
                completion["fates"], record.token_advantage, record.token_weight, strict=True
            ):
                if not record.kept:
                    assert names[fate] == "filtered"
                elif weight == 0:
                    assert names[fate] == "skipped"
                elif pushed:
                    assert names[fate] in (("amplified", "up") if pushed > 0 else ("worsened", "down"))


def test_the_counts_are_those_that_the_run_logged(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, record_groups=2, record_every=1, trainer=GTPOTrainer))
    groups = read_groups(tmp_path)
    for row in read_metrics(tmp_path):
        changes = count_changes([group for group in groups if group.step == row["step"]])
        assert changes.protected == row["gtpo/num_tokens_skipped"]
        assert changes.filtered == round(8 * (1 - row["gtpo/frac_kept"]))
        assert changes.up_added == pytest.approx(row["gtpo/frac_push_added"] * (changes.up + changes.down), rel=1e-4)


def test_the_terminal_shows_one_group_with_marks_that_need_no_colour(run, capsys):
    assert main(["inspect", str(run), "--terminal"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("step 11\n")
    assert "▲▲<reasoning>│↵\n  In April ▲ Natalia sold" in shown
    assert "◇<reasoning>│↵\n  In" in shown
    assert "▨Half of of half" in shown
    assert "#4 bad  advantage −8.8" in shown
    assert re.search(r"⟨H⟩ 1\.06 ━{6}┃━{3}─{3} above\s+ln 2", shown)
    assert "20 of 131 tokens protected" in shown
    assert "29 % of 45 conflict" in shown
    assert not (run / "inspect.html").exists()


def test_hostile_output_reaches_the_terminal_as_codes(tmp_path, capsys):
    group = example_group()
    pieces = ["\x1b]0;owned\x07", "\u202e", "[bold red]", "\ud800", "\r", "z" * 10**6]
    size = len(pieces)
    hostile = dataclasses.replace(
        group.completions[0], token_ids=[1] * size, pieces=pieces, token_weight=[1.0] * size, trained=[True] * size,
        token_advantage=[1.0] * size, token_entropy=[0.1] * size, prefix=0, suffix=0, rewards={"\x1b[2J": 1.0},
    )  # fmt: skip
    JsonLines(tmp_path / "groups.jsonl").append(
        dataclasses.replace(group, prompt="\x1b[2Jprompt", completions=[hostile])
    )
    assert main(["inspect", str(tmp_path), "--terminal"]) == 0
    shown = capsys.readouterr().out
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs"} for c in shown.replace("\n", ""))
    assert "⟦U+001B⟧]0;owned⟦U+0007⟧" in shown
    assert "[bold red]" in " ".join(shown.split())
    assert len(shown) < 5000


@pytest.mark.parametrize("wrong", [{"advantage": "x"}, {"advantage": 10**400}, {"rewards": {"a": 10**400}}])
def test_a_record_of_the_wrong_types_is_skipped_counted_and_named(run, capsys, wrong):
    good = json.loads((run / "groups.jsonl").read_text().splitlines()[0])
    with (run / "groups.jsonl").open("a") as file:
        file.write(json.dumps({**good, "step": 21, "completions": [{**good["completions"][0], **wrong}]}) + "\n")
        file.write('{"a":' * 200_000 + "\n")
    for way in ((), ("--terminal",)):
        assert main(["inspect", str(run), *way]) == 0
        said = capsys.readouterr().err
        assert "1 of the records in groups.jsonl skipped: fields are missing or do not fit together" in said
        assert "1 of the records in groups.jsonl skipped: not a whole JSON line" in said
    assert [group["step"] for group in data_of(run / "inspect.html")["groups"]] == [1, 11]


def test_a_tiny_threshold_makes_no_endless_bar(tmp_path, capsys):
    group = dataclasses.replace(example_group(), entropy_threshold=5e-324)
    JsonLines(tmp_path / "groups.jsonl").append(group)
    assert main(["inspect", str(tmp_path), "--terminal"]) == 0
    assert "━━━━━━┃━━━━━━" in capsys.readouterr().out


def test_rollouts_are_counted_without_a_tokenizer_and_the_page_says_so(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    rows = [{"prompt": "p", "completion": f"<answer>{n}</answer>", "reward": n} for n in (0, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn')
    assert main(["inspect", "--completions", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path / 'inspect.html'}\n"
    assert "note: 1 rows skipped" in captured.err
    shown = data_of(tmp_path / "inspect.html")
    assert "the end token and the entropies are missing" in shown["notes"][0]
    assert "words, tags and signs, not the model's" in shown["notes"][1]
    assert (shown["changes"]["protected"], shown["changes"]["tokens"]) == (2, 6)
    assert shown["changes"]["share_removed"] == pytest.approx(2 / 3)
    assert shown["changes"]["share_tags"] == 1.0


def test_a_tokenizer_makes_the_tokens(tmp_path, tiny_model, capsys):
    path = tmp_path / "rollouts.jsonl"
    path.write_text('{"prompt": "p", "completion": "say red", "reward": 1}\n')
    assert main(["inspect", "--completions", str(path), "--tokenizer", tiny_model, "--terminal"]) == 0
    assert "say│red" in capsys.readouterr().out


def test_wrong_requests_are_one_line_that_says_what_to_do(run, tmp_path, capsys):
    assert "Give either the folder of a run or files of rollouts" in refused(capsys)
    assert "not both" in refused(capsys, run, "--completions", "x.jsonl")
    assert "end the name in .png" in refused(capsys, run, "--screenshot", "x.jpg")
    assert "--tokenizer is for --completions" in refused(capsys, run, "--tokenizer", "t")
    assert "--terminal writes no page" in refused(capsys, run, "--terminal", "--out", "x.html")
    assert "Recorded steps: 1, 11." in refused(capsys, run, "--step", "5")
    assert "--group must be from 1 to 2, got 3" in refused(capsys, run, "--group", "3")
    (tmp_path / "file").touch()
    assert "cannot be written" in refused(capsys, run, "--out", tmp_path / "file" / "x.html")


def test_a_picture_without_a_browser_names_the_package_and_keeps_the_page(run, capsys, monkeypatch):
    monkeypatch.setattr(screenshot, "BROWSERS", ("no-such-browser",))
    said = refused(capsys, run, "--screenshot", run / "x.png")
    assert "apt-get install chromium" in said
    assert (run / "inspect.html").exists()
