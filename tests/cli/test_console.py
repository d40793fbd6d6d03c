"""Progress lines: renewed on a terminal, plain in a log file, absent for a handful of items; warnings stand alone."""

import io
import logging
import sys

import pytest
import transformers
from huggingface_hub.utils import are_progress_bars_disabled

from gtpo.cli import console
from gtpo.cli.console import ProgressBar, ProgressLine, WarningHandler, hide_loading_bars

FORMAT = "{n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """The seconds that ProgressLine sees."""
    now = [0.0]
    monkeypatch.setattr("gtpo.cli.console.time.monotonic", lambda: now[0])
    return now


def test_a_capsys_gets_a_plain_line_now_and_then_and_one_at_the_end(clock, capsys):
    line = ProgressLine(100, 0, FORMAT)
    for step in range(1, 26):
        clock[0] += 1.0
        line.update(step, f"reward {step}")
    line.close()
    lines = ["10/100 00:10<01:30, reward 10", "20/100 00:20<01:20, reward 20", "25/100 00:25<01:15, reward 25"]
    assert capsys.readouterr().err == "".join(f"{text}\n" for text in lines)


def test_a_resumed_run_does_not_count_earlier_steps_into_its_speed(clock, capsys):
    line = ProgressLine(100, 80, FORMAT)
    clock[0] = 10.0
    line.update(90)
    assert capsys.readouterr().err == "90/100 00:10<00:10\n"


@pytest.mark.parametrize(("total", "seconds", "lines"), [(19, 100.0, 0), (20, 1.9, 0), (20, 100.0, 1)])
def test_a_handful_of_items_or_two_seconds_have_no_progress_line(total, seconds, lines, clock, capsys):
    with ProgressBar() as bar:
        bar("grading", 0, total)
        clock[0] = seconds
        bar("grading", total, total)
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_second_task_has_a_line_of_its_own(clock, capsys):
    with ProgressBar() as bar:
        for task in ("sampling", "grading"):
            bar(task, 0, 40)
            clock[0] += 10.0
            bar(task, 40, 40)
    assert capsys.readouterr().err == "sampling: 40/40 00:10<00:00\ngrading: 40/40 00:10<00:00\n"


def test_a_warning_is_not_glued_to_the_progress_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = WarningHandler(terminal)
    line = ProgressLine(10, 0, FORMAT)
    line.update(1, "conflict 40%")
    handler.emit(logging.LogRecord("gtpo", logging.WARNING, "", 0, "step 1, collapsing", None, None))
    line.close()
    before, _, after = terminal.getvalue().partition("step 1, collapsing")
    assert "1/10" in before or "0/10" in before
    assert before.endswith("\r")  # the line was cleared
    assert after.startswith("\n")


def test_a_warning_needs_no_tqdm(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    with console.above_progress():
        assert "tqdm" not in sys.modules


@pytest.mark.parametrize(("stderr", "is_shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_loading_a_model_has_no_bar_and_downloading_one_has_it_on_a_terminal(stderr, is_shown, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr)
    transformers.utils.logging.enable_progress_bar()
    try:
        hide_loading_bars()
        assert not transformers.utils.logging.is_progress_bar_enabled()
        assert are_progress_bars_disabled() != is_shown
    finally:
        transformers.utils.logging.enable_progress_bar()
