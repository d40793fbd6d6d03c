"""Stand-ins for the grader and the problem sets, for as long as the package does not have them."""

import importlib.util
import json
import re
import sys
import types
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import gtpo
from gtpo.errors import ConfigError


@dataclass(frozen=True)
class _Problem:
    question: str
    answer: str
    source: str
    solution: str = ""
    subject: str | None = None
    level: int | None = None


def _value(text):
    try:
        return Fraction(text.replace("\\frac12", "1/2"))
    except ValueError:
        return text


def _extract(text):
    found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found[-1] if found else None


def _load(name, *, split="test", data_dir=None, limit=None):
    path = Path(name)
    if not name.endswith(".jsonl"):
        path = Path(data_dir or "/nowhere") / f"{name}.jsonl"
    if not path.is_file():
        raise ConfigError(f"unknown problem set {name!r}")
    lines = path.read_text().splitlines()[:limit]
    return [_Problem(**{"source": name} | json.loads(line)) for line in lines]


def _messages(problem, system_prompt="Think."):
    return [{"role": "system", "content": system_prompt}, {"role": "user", "content": problem.question}]


def install():
    if "gtpo.rewards" not in sys.modules and importlib.util.find_spec("gtpo.rewards") is None:
        rewards = types.ModuleType("gtpo.rewards")
        rewards.are_correct = lambda answers, golds: [
            _value(a) == _value(g) for a, g in zip(answers, golds, strict=True)
        ]
        rewards.extract_answer = _extract
        rewards.has_format = lambda text: bool(
            re.fullmatch(r"\s*<reasoning>.+</reasoning>\s*<answer>.+</answer>\s*", text, re.DOTALL)
        )
        sys.modules["gtpo.rewards"] = gtpo.rewards = rewards
    if "gtpo.problems" not in sys.modules and importlib.util.find_spec("gtpo.problems") is None:
        problems = types.ModuleType("gtpo.problems")
        problems.Problem, problems.load_problems, problems.to_messages = _Problem, _load, _messages
        problems.SYSTEM_PROMPT = "Think."
        sys.modules["gtpo.problems"] = gtpo.problems = problems
