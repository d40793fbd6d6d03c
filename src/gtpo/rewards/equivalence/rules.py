r"""Whether two answers are equivalent: rules for numbers, bases, equations and structures, then math-verify.

math-verify alone parses "(1,2)" as an interval, "5 6" as 11 and "1000 dollars" as a product of letters. It takes the
last number of any prose, and rounds to six places. Here the complete answer must parse as one thing. Lists, tuples,
intervals, sets, unions and matrices are compared member by member, and numbers exactly.
"""

import re

from gtpo.rewards.equivalence.normalise import compact, normalise
from gtpo.rewards.equivalence.numbers import expand_number_words, parse_number, same_number
from gtpo.rewards.equivalence.structure import Parts, has_relation, split_top_level, take_apart, without_brackets
from gtpo.rewards.equivalence.symbolic import same_expression
from gtpo.rewards.equivalence.units import split_unit

_MAX_DEPTH = 30
_WORDS = re.compile(
    r"\\text\s*\{[^{}]*\}\.?|\([A-Z]\)|[A-Z]|(?i:yes|no|odd|none|all|\d+:\d+\s*(?:\\text\s*\{\s*)?[ap]\.?\s?m\.?\}?)|"
    r"[A-Za-z' .-]*[A-Za-z]{4,}[A-Za-z' .-]*"
)
_CHOICE = re.compile(r"\(?([A-Za-z])[).]?")
_BASED = re.compile(r"(?P<digits>-?[0-9A-Za-z.]+)_(?P<base>\d+)")
_LEADING_ZERO = re.compile(r"[-+]?0\d+")
_ASSIGNMENT = re.compile(r"[a-zA-Z]\s*=")
_OPERATION = re.compile(r"[\d)}\]!|]\s*(?:\+|-|(?:\*|\\cdot|\\times)(?!\s*10\s*\^))\s*[-\d.({\\\[|]")
_STEPS = re.compile(r"=|\\approx|\\equiv")
_NAME = re.compile(
    r"\(?(?:\\?[a-zA-Z]++(?:_\{?\w+\}?)?(?:\([a-zA-Z,]+\))?,?)+\)?|[fghpqFGHPQ](?:\^\{-1\})?\([-\w.,]+\)"
)


def equivalent(answer: str, gold: str) -> bool:
    r"""Whether the answer means the same as the gold answer.

    >>> equivalent("$\\dfrac12$", "0.5"), equivalent("15", "5"), equivalent("7, 3", "\\{3,7\\}")
    (True, False, True)
    """
    gold = expand_number_words(normalise(gold), k_is_letter=True)
    answer = expand_number_words(normalise(answer), k_is_letter="k" in gold.lower())
    if not answer or not gold or max(_depth(answer), _depth(gold)) > _MAX_DEPTH:
        return False
    if _is_unevaluated(answer) and parse_number(compact(split_unit(gold)[0])):
        return False
    return _same(answer, gold)


def _is_unevaluated(answer: str) -> bool:
    """Whether the answer is a sum or product of numbers without its value. The question may be that very sum."""
    sides = [compact(split_unit(side.strip())[0]) for side in _STEPS.split(answer)]
    return bool(_OPERATION.search(answer)) and not any(map(parse_number, sides))


def _same(answer: str, gold: str) -> bool:
    if compact(answer) == compact(gold):
        return True
    if (text := _text(gold)) is not None:
        return _same_text(answer, text)
    answer, gold = (re.sub(r"^\\text\s*\{([^{}]*)\}$", r"\1", side).strip() for side in (answer, gold))
    for rule in (_numbers_agree, _bases_agree, _equations_agree, _structures_agree):
        verdict = rule(answer, gold)
        if verdict is not None:
            return verdict
    return same_expression(answer, gold)


def _same_text(answer: str, gold: str) -> bool:
    choices = _CHOICE.fullmatch(_words(answer)), _CHOICE.fullmatch(gold)
    if choices[0] and choices[1]:
        letters = choices[0][1], choices[1][1]
        return letters[0] == letters[1] or (len(gold) > 1 and letters[0].lower() == letters[1].lower())
    return _spelled(_words(answer)) == _spelled(gold)


def _text(gold: str) -> str | None:
    r"""The words of a gold answer that is not mathematics: \text{(C)}, (C), Evelyn, June 20, 3:30 p.m. Else None."""
    words = _words(gold) if _WORDS.fullmatch(gold) else None
    return None if words and parse_number(compact(split_unit(words)[0])) else words


def _spelled(text: str) -> str:
    return re.sub(r"(?<!\d)[\s.]|[\s.](?!\d)", "", text).lower()


def _words(text: str) -> str:
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"\s+", " ", text).strip(" .'")


def _numbers_agree(answer: str, gold: str) -> bool | None:
    (answer_value, answer_unit), (gold_value, gold_unit) = split_unit(answer), split_unit(gold)
    if answer_unit and gold_unit and answer_unit != gold_unit:
        return False
    if (answer_value, gold_value) != (answer, gold):
        return _same(answer_value, gold_value)
    number, gold_number = parse_number(compact(answer)), parse_number(compact(gold))
    if number is None or gold_number is None:
        return None
    might_be_lists = "," in answer and "," in gold
    return same_number(number, gold_number) or (None if might_be_lists else False)


def _bases_agree(answer: str, gold: str) -> bool | None:
    based_gold, based_answer = _BASED.fullmatch(compact(gold)), _BASED.fullmatch(compact(answer))
    if based_gold:
        digits, base = based_answer.group("digits", "base") if based_answer else (compact(answer), based_gold["base"])
        return (digits.upper(), base) == (based_gold["digits"].upper(), based_gold["base"])
    return False if based_answer else None


def _equations_agree(answer: str, gold: str) -> bool | None:
    sides, gold_sides = split_top_level(answer, "="), split_top_level(gold, "=")
    if len(sides) == len(gold_sides) == 1 or _is_list(answer) or _is_list(gold):
        return None
    if len(gold_sides) == 1 and not has_relation(gold):
        if _NAME.fullmatch(compact(sides[0])):
            sides = sides[-1:]
        elif len(sides) == 2 and _NAME.fullmatch(compact(sides[1])):
            sides = sides[:1]
        return all(_same(side, gold) for side in sides)
    if len(sides) == 1 and len(gold_sides) == 2 and _NAME.fullmatch(compact(gold_sides[0])):
        return _same(answer, gold_sides[1])
    if len(sides) == len(gold_sides) == 2 and compact(sides[0]) == compact(gold_sides[0]):
        return _same(sides[1], gold_sides[1]) or same_expression(answer, gold)
    return same_expression(answer, gold)


def _is_list(text: str) -> bool:
    parts = take_apart(text)
    return parts is not None and parts.kind == "set" and len(parts.members) > 1


def _structures_agree(answer: str, gold: str) -> bool | None:
    parts, gold_parts = take_apart(answer), take_apart(gold)
    if parts is None and gold_parts is None:
        inner, gold_inner = without_brackets(answer), without_brackets(gold)
        return _same(inner, gold_inner) if (inner, gold_inner) != (answer, gold) else None
    if parts and gold_parts:
        return _same_parts(parts, gold_parts)
    if has_relation(answer) or has_relation(gold):
        return same_expression(answer, gold)
    if gold_parts and gold_parts.kind == "set" and len(gold_parts.members) == 1:
        return _same(answer, gold_parts.members[0])
    if parts and parts.kind == "set" and len(parts.members) == 1:
        return _same(parts.members[0], gold)
    return False


def _same_parts(parts: Parts, gold: Parts) -> bool:
    if gold.kind == "()" and parts.kind == "set" and all(_ASSIGNMENT.match(member) for member in parts.members):
        parts = Parts("()", tuple(member.partition("=")[2].strip() for member in sorted(parts.members)), True)
    if parts.kind != gold.kind or len(parts.members) != len(gold.members):
        return False
    if any(_LEADING_ZERO.fullmatch(member) for member in (*parts.members, *gold.members)):
        return parts.members == gold.members
    if gold.is_ordered:
        return all(map(_same, parts.members, gold.members))
    unmatched = list(gold.members)
    for member in parts.members:
        match = next((candidate for candidate in unmatched if _same(member, candidate)), None)
        if match is None:
            return False
        unmatched.remove(match)
    return True


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest
