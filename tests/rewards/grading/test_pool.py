"""The pool: workers are bounded, replaced when they hang or die, usable from threads, and ended by close."""

import ast
import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gtpo.rewards
from gtpo.errors import GradingError
from gtpo.rewards import Grader, GradingPool, is_correct
from gtpo.rewards.grading.pool import WorkerPool, _Worker

HANGS = "9^{9^{9^{9}}}"

HOSTILE = {
    "tower": "9**9**9**9",
    "latex tower": HANGS,
    "million braces": "{" * 10**6,
    "closed braces": "{" * 10**6 + "5" + "}" * 10**6,
    "megabyte of digits": "9" * 10**6,
    "thousand digits": "9" * 999,
    "digits over digits": "9" * 400 + "/" + "7" * 400,
    "frac bomb": r"\frac{1}{" * 10**5 + "1" + "}" * 10**5,
    "short frac bomb": r"\frac{1}{1+" * 29 + "x" + "}" * 29,
    "parentheses": "(" * 400 + "x" + ")" * 400,
    "unbalanced": "(" * 900,
    "factorial": "999999999!",
    "power": "(x+y+z+1)^{999}",
    "nul": "5\x00",
    "surrogate": "\ud800",
    "ten megabytes": "5 " * (5 * 2**20),
    "code": "__import__('os').system('false')",
    "commas": "1," * 490,
    "equals": "x=" * 490,
    "plus minus": r"\pm1," * 190,
}


@pytest.fixture(scope="module")
def pool() -> Iterator[GradingPool]:
    pool = GradingPool(num_workers=1, timeout=30.0)
    yield pool
    pool.close()


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_hostile_answers_cost_at_most_the_timeout_and_are_never_right():
    grader = Grader(num_workers=2, timeout=1.0)
    try:
        verdicts = grader.grade(list(HOSTILE.values()), ["x+5"] * len(HOSTILE))
        by_name = dict(zip(HOSTILE, verdicts, strict=True))
        assert set(verdicts) == {"wrong", "timeout"}, by_name
        assert by_name["latex tower"] == "timeout"
        assert {by_name[name] for name in ("ten megabytes", "megabyte of digits", "nul", "surrogate")} == {"wrong"}
        assert grader.grade(["2+x+3"], ["x+5"]) == ["right"]
    finally:
        grader.pool.close()


def test_a_failure_inside_math_verify_is_not_a_verdict(monkeypatch: pytest.MonkeyPatch):
    from gtpo.rewards.equivalence.symbolic import same_expression

    def fail(*_: object, **__: object) -> bool:
        raise MemoryError("no room")

    monkeypatch.setattr("math_verify.grader.sympy_expr_eq", fail)
    with pytest.raises(MemoryError, match="no room"):
        same_expression("2x < 6", "x < 3")


def test_what_sympy_cannot_compute_is_wrong_not_a_failure(pool: GradingPool):
    pairs = [(f"{number} \\mod 7", str(number % 7)) for number in range(100, 140)]
    assert pool.grade(pairs) == ["wrong"] * 40
    assert pool.grade([("x \\mod 7", "y \\mod 7"), ("5 \\pmod{3}", "2 \\pmod{3}")]) == ["wrong"] * 2


def test_wrong_equations_are_refused_without_solving_them():
    pool = GradingPool(num_workers=1, timeout=3.0)
    pairs = [
        (r"x = 7 - \log{\left(x \right)}", r"y = 7 - \log{\left(x \right)}"),
        (r"x = 8 - \log{\left(x \right)}", r"x = 7 - \log{\left(x \right)}"),
        (r"\sin x + e^x = y^5 + y", r"\sin x + e^x = y^5 + 2y"),
    ]
    try:
        assert pool.grade(pairs) == ["wrong"] * 3
    finally:
        pool.close()


def test_an_answer_nested_too_deeply_is_wrong_not_a_failure(pool: GradingPool):
    assert pool.grade([("\\sin " * 160 + "x", "5")]) == ["wrong"]


def test_a_chain_of_equations_is_graded_without_a_crash(pool: GradingPool):
    """sympy cannot rebuild such a chain with exact numbers."""
    chain = "60 + (3 * 60) * (1 - 0.30) = 60 + 180 * 0.70 = 60 + 126 = 186"
    assert pool.grade([("120", chain), (chain, "120")]) == ["wrong", "wrong"]
    assert pool.grade([(chain, chain), (chain, "186")]) == ["right", "right"]


def test_a_worker_that_does_not_answer_is_killed_and_replaced():
    pool = GradingPool(num_workers=1, timeout=1.0)
    try:
        assert pool.grade([("1", "1")]) == ["right"]
        (stopped,) = pool.process_ids()
        os.kill(stopped, signal.SIGSTOP)
        pairs = [("1", "1"), ("2", "1"), ("1.0", "1")]
        assert pool.grade(pairs) == ["timeout", "wrong", "right"]
        assert not exists(stopped)
        assert pool.process_ids() != [stopped]
    finally:
        pool.close()


def test_a_worker_that_dies_costs_one_answer(pool: GradingPool, monkeypatch: pytest.MonkeyPatch):
    start = _Worker.start

    def start_and_die(worker: _Worker):
        monkeypatch.setattr(_Worker, "start", start)
        connection = start(worker)
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        return connection

    monkeypatch.setattr(_Worker, "start", start_and_die)
    assert pool.grade([("1", "1"), ("2", "2"), ("3", "2")]) == ["crash", "right", "wrong"]


def test_a_worker_that_died_between_calls_is_replaced_without_loss(pool: GradingPool):
    assert pool.grade([("1", "1")]) == ["right"]
    (dead,) = pool.process_ids()
    os.kill(dead, signal.SIGKILL)
    os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)
    assert pool.grade([("1", "1")]) == ["right"]
    assert not exists(dead)


def test_two_workers_keep_the_order_of_verdicts_and_closing_ends_both():
    pool = GradingPool(num_workers=2)
    try:
        pairs = [(str(number), str(number - number % 3)) for number in range(1000)]
        assert pool.grade(pairs) == ["wrong" if number % 3 else "right" for number in range(1000)]
        pids = pool.process_ids()
        assert len(pids) == 2
        assert all(map(exists, pids))
    finally:
        pool.close()
    assert not any(map(exists, pids))
    assert pool.process_ids() == []
    with pytest.raises(GradingError, match="closed"):
        pool.grade([("1", "1")])


def test_many_threads_grade_at_once():
    results: dict[int, bool] = {}

    def ask(number: int) -> None:
        results[number] = is_correct(f"{number}/1", str(number - number % 2))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: number % 2 == 0 for number in range(24)}


def test_grading_works_inside_an_event_loop():
    async def serve() -> list[bool]:
        in_threads = [asyncio.to_thread(is_correct, f"{number}.0", "4") for number in (3, 4, 5)]
        return [is_correct("4.00", "4"), *await asyncio.gather(*in_threads)]

    assert asyncio.run(serve()) == [True, False, True, False]


@pytest.mark.parametrize("target", ["gtpo.rewards.equivalence:equivalent", "gtpo.rewards.harness:math_verify_score"])
def test_the_error_of_a_worker_that_cannot_start_names_the_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str
):
    (tmp_path / "latex2sympy2_extended.py").write_text("raise ImportError('no parser here')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GradingError, match=r"(?s)no parser here.*pip install"):
        call_once(target, [["x+1"], ["1+x"]])


def call_once(target: str, arguments: list[Any]) -> Any:
    pool = WorkerPool(target, num_workers=1, timeout=20.0)
    try:
        (reply,) = pool.call([arguments])
        return reply.value
    finally:
        pool.close()


@pytest.mark.parametrize("num_threads", ["3", None])
def test_a_function_and_what_it_starts_get_the_environment_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, num_threads: str | None
):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if num_threads is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", num_threads)
    (tmp_path / "reads.py").write_text(
        "import os\nAT_IMPORT = os.environ['OMP_NUM_THREADS']\n"
        "def reads(): return [AT_IMPORT, os.environ.get('OMP_NUM_THREADS'), os.environ['PYTHONPATH']]"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert call_once("reads:reads", []) == ["1", num_threads, "elsewhere"]


def test_a_module_may_print_any_amount_of_which_errors_quote_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("gtpo.rewards.grading.pool._START_SECONDS", 20.0)
    prints = "import sys\nsys.stderr.write('x' * 2**20)\n"
    (tmp_path / "prints.py").write_text(f"{prints}def equivalent(): return 7")
    (tmp_path / "fails.py").write_text(f"{prints}raise ImportError('no such luck')")
    monkeypatch.syspath_prepend(tmp_path)
    assert call_once("prints:equivalent", []) == 7
    with pytest.raises(GradingError, match="ImportError: no such luck") as failure:
        call_once("fails:fails", [])
    assert len(str(failure.value)) < 5000


@pytest.mark.parametrize("num_kills", [2, 3])
def test_a_worker_killed_while_it_starts_is_started_again_twice(monkeypatch: pytest.MonkeyPatch, num_kills: int):
    start_process = subprocess.Popen
    killed: list[int] = []

    def start_and_kill(*args: Any, **settings: Any) -> Any:
        process = start_process(*args, **settings)
        if len(killed) < num_kills:
            process.kill()
            killed.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_kill)
    pool = GradingPool(num_workers=1)
    try:
        if num_kills == 2:
            assert pool.grade([("1", "1"), ("2", "1")]) == ["right", "wrong"]
        else:
            with pytest.raises(GradingError, match=r"killed by signal 9 .* 3 times .* out of memory"):
                pool.grade([("1", "1")])
    finally:
        pool.close()
    assert len(killed) == num_kills
    assert not any(map(exists, killed))


def test_nothing_in_the_package_evaluates_text():
    for path in Path(gtpo.rewards.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", None)))
            assert name not in ("eval", "exec", "sympify", "parse_expr", "pickle"), f"{path.name} uses {name}"
