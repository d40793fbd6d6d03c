"""The GitHub workflows run what is in the repository, with the least permissions, and publish only tagged versions."""

import os
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((GITHUB / "workflows").glob("*.yml"))}
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
EACH = pytest.mark.parametrize("name", WORKFLOWS)
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(text):
    """The commands of a step, of a script or of a recipe in the Makefile, one per line."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def test_there_are_checks_a_wheel_the_matrix_and_the_docs():
    assert set(WORKFLOWS) == {"checks", "docs", "nightly", "wheel"}


@EACH
def test_every_make_target_and_script_that_a_workflow_runs_exists(name):
    lines = [line for step in steps(WORKFLOWS[name]) for line in commands(step.get("run", ""))]
    assert lines
    called = {target for line in lines for target in re.findall(r"\bmake ([\w-]+)", line)}
    assert called <= TARGETS
    scripts = {line.split()[0] for line in lines if re.match(r"\.?(?:ci|scripts)/", line)}
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


def test_the_checks_are_those_of_the_ci_script():
    runs = [step["run"] for step in steps(WORKFLOWS["checks"]) if "run" in step]
    assert runs == ["make test", ".ci/run"]
    assert {"make test-all", "make test-verl"} <= set(commands((ROOT / ".ci/run").read_text()))


@EACH
def test_a_workflow_reads_only_has_time_limits_and_does_not_run_twice_at_once(name):
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"].startswith(name)
    granted = {(job, right) for job, options in workflow["jobs"].items() for right in options.get("permissions", {})}
    assert granted <= {("publish", "id-token"), ("deploy", "id-token"), ("deploy", "pages")}
    assert all(0 < job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())


@EACH
def test_every_action_is_pinned_to_a_major_version(name):
    actions = [step["uses"] for step in steps(WORKFLOWS[name]) if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(?:release/)?v\d+", action) for action in actions)


def test_only_a_version_tag_is_published_and_only_after_approval():
    publish = WORKFLOWS["wheel"]["jobs"]["publish"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert publish["needs"] == "build"
    assert publish["environment"]["name"] == "pypi"


@pytest.mark.parametrize("path", [path for path in FORMS if path.stem != "config"], ids=lambda path: path.stem)
def test_a_form_asks_for_something_and_its_fields_have_distinct_names(path):
    form = yaml.safe_load(path.read_text())
    fields = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(set(fields)) == len(fields) > 0
    assert form["name"]
    assert form["description"]


def test_the_bug_report_asks_for_the_versions():
    assert "`gtpo --version`" in (GITHUB / "ISSUE_TEMPLATE/bug.yml").read_text()
