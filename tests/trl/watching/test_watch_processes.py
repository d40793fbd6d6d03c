"""Two watched processes: the same training, groups from both, and no process waits for one that has failed."""

from pathlib import Path

import pytest

from tests.reading import read_groups, read_metrics
from tests.trl.test_processes import launch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="module")
def results(tiny_model, out):
    return launch(2, tiny_model, out, Path(__file__).with_name("watched_processes.py"))


def test_the_weights_are_the_same_with_and_without_it(results):
    assert results["watched"]["weights"] == results["unwatched"]["weights"]
    assert results["failing"]["weights"] == results["unwatched"]["weights"]


def test_the_most_telling_group_is_recorded_whichever_process_has_it(results, out):
    groups = read_groups(out / "watched")
    assert [group.step for group in groups] == [1, 2, 3, 4]
    for group in groups:
        assert group.reason == "spread"
        assert [completion.rewards["uneven_reward"] for completion in group.completions] == [0, 10, 20, 30]
        assert all(completion.token_entropy and completion.token_logp for completion in group.completions)
    assert [row["step"] for row in read_metrics(out / "watched")] == [1, 2, 3, 4]


@pytest.mark.parametrize(("case", "method"), [("split", "grpo"), ("split, gtpo", "gtpo")])
def test_a_group_that_is_split_over_processes_is_recorded_completely(case, method, results, out):
    groups = read_groups(out / case)
    assert [(group.step, group.method) for group in groups] == [(step, method) for step in (1, 2, 3, 4)]
    for group in groups:
        assert [c.rewards["uneven_reward"] for c in group.completions] == [0, 1, 2, 3, 0, 10, 20, 30]
        for c in group.completions:
            assert c.entropy == pytest.approx(sum(c.token_entropy) / len(c.token_entropy), rel=1e-5)
            assert c.push == pytest.approx(c.advantage - 0.1 * c.entropy * (method == "gtpo"), rel=1e-5)
            assert all(logp <= 0 for logp in c.token_logp)


@pytest.mark.parametrize(("case", "steps"), [("failing", [1]), ("full disk", None)])
def test_a_failure_in_one_process_ends_recording_in_all_and_training_in_none(case, steps, results, out):
    assert results[case]["steps"] == 4
    assert results[case]["is_off"] == [True, True]
    if steps:
        assert [group.step for group in read_groups(out / case)] == steps


def test_watching_one_of_two_processes_records_no_groups_and_does_not_wait_for_the_other(results):
    assert results["watched on one"]["is_off"] == [True, None]
    assert results["watched on one"]["weights"] == results["unwatched"]["weights"]
