"""The documentation site builds strictly, without network or torch, and its reference pages are complete."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import gtpo
from gtpo.cli.main import main
from gtpo.training.config.settings import REFUSED
from gtpo.verl.config import REQUIREMENTS
from tests.reading import read_metrics

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NAVIGATION = {
    section: [path for page in pages for path in page.values()]
    for entry in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    for section, pages in entry.items()
}
"""The pages of each section."""
BUILD = """
import socket, sys
sys.modules |= dict.fromkeys(["torch", "transformers", "trl"])  # an import of one raises ImportError
socket.getaddrinfo = None
from mkdocs.__main__ import cli
cli(["build", "--strict", "--site-dir", sys.argv[1]])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(site):
    loaded = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(?:https?:)?//|<link[^>]*\shref=\"?(?:https?:)?//")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [page.name for page in pages if loaded.search(page.read_text())] == []
    styles = [page.read_text() for page in (site / "assets").rglob("*.css")]
    assert [style for style in styles if re.search(r"url\(\"?(?:https?:)?//|@import", style)] == []


@pytest.mark.slow
def test_llms_txt_has_a_line_for_every_page_of_the_navigation_and_no_dead_link(site):
    links = re.findall(r"^- \[.+?\]\((.+?)\): \S.+$", (site / "llms.txt").read_text(), re.MULTILINE)
    assert links == [path for pages in NAVIGATION.values() for path in pages]
    assert [link for link in links if not (site / link).read_text().strip()] == []


@pytest.mark.slow
def test_the_api_reference_shows_signatures_options_and_doctests(site):
    page = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    assert "How token losses are averaged" in page  # the help text of an option of GTPOConfig
    assert "conflicts counted from the first token" in page  # the comment at a field of ShapedAdvantages
    assert "&gt;&gt;&gt; shaped = shape_advantages(ids" in page
    assert "record_every: steps between" not in page  # the arguments of watch are a table
    assert "steps between two recorded steps." in page


def test_the_api_reference_has_every_public_name():
    headings = set(re.findall(r"heading: (.+)", (DOCS / "api.md").read_text()))
    assert {f"gtpo.{name}" for name in gtpo.__all__} <= headings


@pytest.mark.parametrize("page", NAVIGATION["Guides"] + NAVIGATION["Method"])
def test_a_guide_starts_with_a_sentence_and_an_example(page):
    title, first, *rest = (DOCS / page).read_text().split("\n\n")
    assert title.startswith("# ")
    assert re.match(r"[A-Z]|`gtpo", first)
    assert any(block.startswith(("```", "    ")) for block in rest[:3])


def test_the_migration_page_has_every_option_that_is_refused():
    page = (DOCS / "migrate.md").read_text()
    source = ast.parse((ROOT / "src/gtpo/trl/config.py").read_text())
    calls = [node for node in ast.walk(source) if isinstance(node, ast.Call)]
    refused = {call.args[1].value for call in calls if ast.unparse(call.func) == "self._refuse"}
    assert len(refused) == 3
    assert [name for name in sorted(refused) if f"`{name}=" not in page] == []
    assert [name for name in REFUSED if f"`--{name}`" not in page] == []
    assert [each.option for each in REQUIREMENTS if f"| `{each.option}=" not in page] == []


@pytest.mark.slow
def test_the_metrics_page_has_the_names_that_a_run_logs(tmp_path):
    from gtpo.trl.fast.correction import METRICS

    options = (
        "--max_steps 2 --per_device_train_batch_size 8 --gradient_accumulation_steps 1 --num_generations 4 "
        "--max_completion_length 40 --max_problems 64 --held_out_problems 4 --held_out_every 2 --held_out_samples 2"
    )
    assert main(["train", "--output_dir", str(tmp_path / "run"), *options.split()]) == 0
    logged = {name for row in read_metrics(tmp_path / "run") for name in row} - {"step", "seconds"}
    logged = {name.replace("/paper_reward/", "/<name>/").replace("pass@2", "pass@k") for name in logged}
    documented = set(re.findall(r"^\| `([^`]+)` \|", (DOCS / "metrics.md").read_text(), re.MULTILINE))
    assert documented == logged | {*METRICS, "kl"}  # vLLM's and the reference model's, which this run has not
