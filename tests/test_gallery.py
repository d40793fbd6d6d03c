"""The gallery: its pages are written from committed records, and its text says what the records hold."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from gtpo.cli.main import main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "scripts" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(gallery, tmp_path_factory):
    out = tmp_path_factory.mktemp("gallery")
    gallery.build(out)
    return out


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def shown_group(gallery, name):
    """The group that the picture shows, from its record."""
    case = gallery.CASES[name]
    return [row for row in rows_of(case.groups) if row["step"] == case.shown[0]][case.shown[1] - 1]


def texts(group):
    return ["".join(completion["pieces"]) for completion in group["completions"]]


def embedded(page):
    """The data of a token view, and its groups."""
    text = page.read_text(encoding="utf-8")
    blocks = list(map(json.loads, re.findall(r"<script [^>]*application/json[^>]*>(.*?)</script>", text)))
    (data,) = [block for block in blocks if "summaries" in block]
    return data, [block for block in blocks if block is not data]


def test_every_page_that_the_text_links_to_is_written(built):
    links = re.findall(r"\]\(gallery/([^)#]+\.html)(?:#[^)]*)?\)", TEXT)
    assert set(links) == {page.relative_to(built).as_posix() for page in built.rglob("*.html")}


def test_a_token_view_opens_with_the_group_of_its_picture(gallery, built):
    data, groups = embedded(built / "reward_hack" / "inspect.html")
    assert len(groups) == 6
    assert groups[data["opened"]]["prompt"] == shown_group(gallery, "reward_hack")["prompt"]
    assert [data["summaries"][data["opened"]][name] for name in ("step", "number")] == [11, 1]


def test_a_report_has_the_verdict_and_leads_to_the_token_view(built):
    report = (built / "reward_hack" / "report.html").read_text(encoding="utf-8")
    assert "collapsing" in report
    assert "long_reasoning" in report
    assert "inspect.html#step-11" in report


@pytest.mark.parametrize("name", ["truncated", "reward_hack", "collapse"])
def test_the_quoted_verdict_is_what_health_prints(gallery, name, capsys):
    assert main(["health", str(gallery.CASES[name].groups.parent)]) == 0
    verdict = capsys.readouterr().out.partition("  checked:")[0]
    assert verdict in TEXT


def test_the_truncated_group_is_as_described(gallery):
    group = shown_group(gallery, "truncated")
    completions = group["completions"]
    right = [completion for completion, text in zip(completions, texts(group), strict=True) if "28-3=25" in text]
    assert sum(completion["truncated"] for completion in completions) == 7
    assert [completion["advantage"] > 0 for completion in right].count(False) == 5
    assert len(right) == 6


def test_the_gamed_group_is_as_described(gallery):
    group = shown_group(gallery, "reward_hack")
    second, sixth = group["completions"][1], group["completions"][5]
    assert "answer" not in texts(group)[1]
    assert second["truncated"]
    assert (len(second["trained"]), round(second["advantage"], 2)) == (96, 1.09)
    assert "<answer>31</answer>" in texts(group)[5]
    assert (len(sixth["trained"]), round(sixth["advantage"], 2)) == (62, 0.39)


def test_the_collapsed_group_is_as_described(gallery):
    group = texts(shown_group(gallery, "collapse"))
    assert sum("17+10=29" in text for text in group) == 7
    assert sum("</reasoning>" in text for text in group) == 6
    rows = rows_of(gallery.CASES["collapse"].metrics)
    levels = {row["step"]: row["health/level"] for row in rows}
    assert [step for step, level in levels.items() if level == 2] == [*range(10, 17), *range(25, 41)]
    assert rows[1]["rewards/accuracy_reward/mean"] == pytest.approx(0.70, abs=0.005)


def test_the_conflict_is_as_described(gallery):
    group = shown_group(gallery, "format_conflict")
    good = [completion for completion in group["completions"] if completion["advantage"] > 0]
    assert (len(good), len(group["completions"])) == (6, 8)
    for completion in good:
        assert "".join(completion["pieces"][: completion["prefix"]]).endswith("The cake costs $25, so")
        assert {completion["token_weight"][0], completion["token_weight"][-1]} == {2.0}
    bad = [completion for completion in group["completions"] if completion["advantage"] < 0]
    assert {completion["token_weight"][place] for completion in bad for place in (0, -1)} == {0.0}
