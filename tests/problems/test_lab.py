"""The lab's problems: right answers, levels, a fixed held-out set, and train streams that avoid it."""

import ast
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo.errors import ConfigError
from gtpo.problems.lab import lab_problems

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def value(expression: str) -> int:
    def walk(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return OPERATIONS[type(node.op)](walk(node.left), walk(node.right))
        assert isinstance(node, ast.Constant)
        return node.value

    return walk(ast.parse(expression, mode="eval").body)


@pytest.mark.parametrize(("split", "num"), [("train", 3000), ("test", 256)])
def test_every_gold_answer_is_the_value_of_its_expression(split, num):
    problems = lab_problems(split, num)
    assert len(problems) == num
    for problem in problems:
        assert problem.question.endswith("=?")
        assert value(problem.question.removesuffix("=?")) == int(problem.answer)


def test_every_step_of_a_solution_is_true_and_the_last_one_ends_in_the_answer():
    for problem in lab_problems("train", 1000) + lab_problems("test", 256):
        steps = [step.split("=") for step in problem.solution.split()]
        assert all(value(left) == int(right) >= 0 for left, right in steps)
        assert steps[-1][1] == problem.answer


def test_higher_levels_take_more_operations():
    num_operations = {level: set() for level in (1, 2, 3, 4)}
    for problem in lab_problems("test", 256):
        num_operations[problem.level].add(len(problem.solution.split()))
    assert num_operations == {1: {2}, 2: {2}, 3: {3}, 4: {4}}


def test_levels_are_equally_frequent_in_train_and_take_turns_in_test():
    train = [problem.level for problem in lab_problems("train", 4000)]
    assert all(900 < train.count(level) < 1100 for level in (1, 2, 3, 4))
    assert [problem.level for problem in lab_problems("test", 256)] == [1, 2, 3, 4] * 64


@settings(max_examples=10)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_no_train_problem_is_held_out(seed):
    held_out = {problem.question for problem in lab_problems("test", 256)}
    assert held_out.isdisjoint(problem.question for problem in lab_problems("train", 500, seed=seed))


def test_a_long_train_stream_has_most_problems_of_level_2_and_none_held_out():
    """Level 2 has only 1,296 problems, of which 64 are held out: a stream that did not reject them would show some."""
    held_out = {problem.question for problem in lab_problems("test", 256) if problem.level == 2}
    seen = {problem.question for problem in lab_problems("train", 20_000) if problem.level == 2}
    assert len(held_out) == 64
    assert len(seen) > 1100
    assert held_out.isdisjoint(seen)


def test_the_held_out_problems_are_256_distinct_ones_and_ignore_the_seed():
    assert lab_problems("test", 256, seed=1) == lab_problems("test", 256, seed=2)
    assert len({problem.question for problem in lab_problems("test", 256)}) == 256


def test_a_seed_gives_one_train_stream_and_fewer_problems_are_its_beginning():
    assert lab_problems("train", 50, seed=3) == lab_problems("train", 80, seed=3)[:50]
    assert lab_problems("train", 50, seed=3) != lab_problems("train", 50, seed=4)


def test_more_held_out_problems_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="num_problems must be at most 256 in the test split, got 257"):
        lab_problems("test", 257)


def test_an_unknown_split_is_refused():
    with pytest.raises(ConfigError, match="split must be one of 'train', 'test', got 'dev'"):
        lab_problems("dev", 1)
