r"""Whether two answers are equivalent: rules for numbers, bases, equations and structures, then math-verify.

math-verify alone parses "(1,2)" as an interval, "5 6" as 11 and "1000 dollars" as a product of letters. It takes the
last number of any prose, and rounds to six places. Here the complete answer must parse as one thing. Lists, tuples,
intervals, sets, unions and matrices are compared member by member, and numbers exactly.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from gtpo.rewards.equivalence.forms import has_numeric_work, is_value
from gtpo.rewards.equivalence.names import is_name, is_solved
from gtpo.rewards.equivalence.normalise import compact, normalise
from gtpo.rewards.equivalence.numbers import ExactNumber, expand_number_words, parse_number, same_number
from gtpo.rewards.equivalence.question import is_asked, is_copied
from gtpo.rewards.equivalence.structure import Parts, has_relation, split_top_level, take_apart, without_brackets
from gtpo.rewards.equivalence.symbolic import is_rounding, same_expression
from gtpo.rewards.equivalence.units import Unit, counted_stems, noun_stems, split_unit

_MAX_DEPTH = 30
_WORDS = re.compile(
    r"\\text\s*\{[^{}]*\}\.?|\([A-Z]\)|[A-Z]|(?i:yes|no|odd|red|none|all|\d+:\d+\s*(?:\\text\s*\{\s*)?[ap]\.?\s?m\.?\}?)|"
    r"[A-Za-z' .-]*[A-Za-z]{4,}[A-Za-z' .-]*"
)
_CHOICE = re.compile(r"(?:(?i:option|choice) )?\(?([A-Za-z])[).]?")
_BASED = re.compile(r"(?P<digits>-?[0-9A-Za-z.]+)_(?P<base>\d+)")
_LEADING_ZERO = re.compile(r"[-+]?0\d+")
_GROUP_OF_THOUSANDS = re.compile(r"(?<=\d),(\d{3})(?!\d)")
_DIVISION = re.compile(r"[-+]?(?:\\frac\{[^{}]*\}\{[^{}]*\}|[\d.,]+/[\d.,]+)")
_SIGN_OF_UNIT = re.compile(r"\^\\circ|\\?\$")
_OPERATION = re.compile(r"[-+*/]|\\(?:times|cdot|frac|div)")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")
_ASSIGNMENT = re.compile(r"[a-zA-Z]\s*=")
_APPROXIMATELY = re.compile(r"\\approx(?![a-zA-Z])")
_LETTER = re.compile(r"(?<![\\a-zA-Z])(?![ei](?![a-zA-Z]))[a-zA-Z]")


@dataclass(frozen=True)
class _Context:
    """The question, the nouns that may follow a number, and whether the answer is a step of a calculation."""

    question: str
    nouns: frozenset[str]
    counted: frozenset[str]
    is_step: bool = False

    def split_unit(self, answer: str) -> tuple[str, Unit | None]:
        return split_unit(answer, self.nouns, self.counted)

    def is_label(self, side: str) -> bool:
        """Whether a side of an equation is a name, or what the question asks for."""
        return is_name(side) or (bool(self.question) and is_asked(side, self.question))


def equivalent(answer: str, gold: str, question: str | None = None) -> bool:
    r"""Whether the answer means the same as the gold answer, and is not a formula copied from the question.

    >>> equivalent("$\\dfrac12$", "0.5"), equivalent("15", "5"), equivalent("7, 3", "\\{3,7\\}")
    (True, False, True)
    >>> equivalent("(2x)^3", "8x^3"), equivalent("(2x)^3", "8x^3", "Simplify $(2x)^3$.")
    (True, False)
    """
    gold = _normalised_gold(gold)
    counted = counted_stems(question or "")
    answer = expand_number_words(normalise(answer), k_is_letter="k" in gold.lower(), counts_dozens="dozen" in counted)
    if not answer or not gold or max(_depth(answer), _depth(gold)) > _MAX_DEPTH:
        return False
    if compact(answer) == compact(gold):
        return True
    if question and is_copied(answer, gold, question):
        return False
    context = _Context(question or "", noun_stems(gold) | noun_stems(question or ""), counted)
    verdict = _plain_numbers_agree(answer, gold, context)
    return _same(answer, gold, context) if verdict is None else verdict


@lru_cache(maxsize=4096)
def _normalised_gold(gold: str) -> str:
    return expand_number_words(normalise(gold), k_is_letter=True)


def _same(answer: str, gold: str, context: _Context) -> bool:
    if compact(answer) == compact(gold):
        return True
    if (text := _text(gold)) is not None:
        return _same_text(answer, text)
    answer, gold = (re.sub(r"^\\text\s*\{([^{}]*)\}$", r"\1", side).strip() for side in (answer, gold))
    for rule in (_numbers_agree, _bases_agree, _approximations_agree, _equations_agree, _structures_agree):
        verdict = rule(answer, gold, context)
        if verdict is not None:
            return verdict
    if not context.is_step and _leaves_more_work(answer, gold):
        return False
    return same_expression(answer, gold)


def _leaves_more_work(answer: str, gold: str) -> bool:
    """Whether the answer is left to be computed, while the gold answer is a value."""
    if is_value(gold):
        return not is_value(answer)
    return bool(_LETTER.search(gold)) and has_numeric_work(answer) and not has_numeric_work(gold)


def _same_text(answer: str, gold: str) -> bool:
    choices = _CHOICE.fullmatch(_words(answer)), _CHOICE.fullmatch(gold)
    if choices[0] and choices[1]:
        letters = choices[0][1], choices[1][1]
        return letters[0] == letters[1] or (len(gold) > 1 and letters[0].lower() == letters[1].lower())
    return _spelled(_words(answer)) == _spelled(gold)


def _text(gold: str) -> str | None:
    r"""The words of a gold answer that is not mathematics: \text{(C)}, (C), Evelyn, June 20, 3:30 p.m. Else None."""
    words = _words(gold) if _WORDS.fullmatch(gold) else None
    return None if words and parse_number(split_unit(words)[0]) else words


def _spelled(text: str) -> str:
    return re.sub(r"(?<!\d)[\s.]|[\s.](?!\d)", "", text).lower()


def _words(text: str) -> str:
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"\s+", " ", text).strip(" .'")


def _numbers_agree(answer: str, gold: str, context: _Context) -> bool | None:
    if len(split_top_level(answer, "=")) > 1:
        return None
    (answer_value, answer_unit), (gold_value, gold_unit) = context.split_unit(answer), split_unit(gold)
    if answer_unit and gold_unit and not _same_unit(answer_unit, gold_unit):
        return False
    if (answer_value, gold_value) != (answer, gold):
        return _same(answer_value, gold_value, context)
    return _plain_numbers_agree(answer, gold, context)


def _plain_numbers_agree(answer: str, gold: str, context: _Context) -> bool | None:
    number, gold_number = parse_number(answer), parse_number(gold)
    if number is None or gold_number is None:
        return None
    if context.question and not context.is_step and _is_undone_division(answer, number, gold_number):
        return False
    might_be_lists = "," in answer and "," in gold
    return same_number(number, gold_number) or (None if might_be_lists else False)


def _is_undone_division(answer: str, number: ExactNumber, gold: ExactNumber) -> bool:
    """Whether the answer is a fraction like 240/4, and the gold answer an integer. 0/4 is a way to write 0."""
    is_fraction = _DIVISION.fullmatch(compact(answer)) is not None
    return is_fraction and gold.num_decimals == 0 and number.value.denominator == 1 and number.value != 0


def _same_unit(unit: Unit, gold: Unit) -> bool:
    if isinstance(unit, str) or isinstance(gold, str):
        return unit == gold
    return not unit.isdisjoint(gold)


def _bases_agree(answer: str, gold: str, _: _Context) -> bool | None:
    if "=" in answer:
        return None
    based_gold, based_answer = _BASED.fullmatch(compact(gold)), _BASED.fullmatch(compact(answer))
    if based_gold:
        digits, base = based_answer.group("digits", "base") if based_answer else (compact(answer), based_gold["base"])
        return (digits.upper(), base) == (based_gold["digits"].upper(), based_gold["base"])
    return False if based_answer else None


def _approximations_agree(answer: str, gold: str, context: _Context) -> bool | None:
    r"""In 10\pi \approx 31.4 the first side must be right, and the others must round it correctly."""
    exact, *rounded = (side.strip() for side in _APPROXIMATELY.split(answer))
    gold_sides = [side.strip() for side in _APPROXIMATELY.split(gold)]
    if len(gold_sides) > 1 and not rounded:
        return any(_same(answer, side, context) for side in gold_sides)
    if not rounded:
        return None
    gold = gold_sides[0]
    if context.is_label(exact) and not is_name(gold):
        exact, *rounded = rounded
    values = [context.split_unit(side)[0] for side in rounded]
    if not all(is_rounding(value, split_unit(gold)[0]) for value in values):
        return False
    is_right = _same(exact, gold, replace(context, is_step=True))
    return is_right and any(_same(side, gold, context) for side in (exact, *rounded))


def _equations_agree(answer: str, gold: str, context: _Context) -> bool | None:
    sides, gold_sides = split_top_level(answer, "="), split_top_level(gold, "=")
    if len(sides) == len(gold_sides) == 1 or _is_list(answer) or _is_list(gold):
        return None
    if len(gold_sides) == 1 and not has_relation(gold):
        sides, gold = [_GROUP_OF_THOUSANDS.sub(r"\1", side) for side in sides], _GROUP_OF_THOUSANDS.sub(r"\1", gold)
        if context.is_label(sides[0]):
            sides = [side for side in sides[1:-1] if not _LETTER.search(side)] + sides[-1:]
        elif context.is_label(sides[-1]):
            sides = sides[:-1]
        are_right = all(_is_right_step(side, gold, replace(context, is_step=True)) for side in sides)
        return are_right and (context.is_step or any(_same(side, gold, context) for side in sides))
    return _equals_gold_equation(answer, sides, gold, gold_sides, context)


def _is_right_step(side: str, gold: str, context: _Context) -> bool:
    r"""Whether a side of an equation has the value of the gold answer, perhaps with $ or ° behind each number."""
    if _same(side, gold, context):
        return True
    if not _OPERATION.search(side) or not _SIGN_OF_UNIT.search(side) or _TRIGONOMETRY.search(side):
        return False
    bare, bare_gold = (_SIGN_OF_UNIT.sub("", text).strip() for text in (side, gold))
    return split_unit(bare)[1] is None and _same(bare, bare_gold, context)


def _equals_gold_equation(answer: str, sides: list[str], gold: str, gold_sides: list[str], context: _Context) -> bool:
    if len(gold_sides) != 2 or not is_name(gold_sides[0]):
        return same_expression(answer, gold)
    name, value = compact(gold_sides[0]), gold_sides[1]
    if len(sides) == 1:
        return _same(answer, value, context)
    others = sides[1:] if compact(sides[0]) == name else sides[:-1] if compact(sides[-1]) == name else []
    if others and _same(" = ".join(others), value, context):
        return True
    return not is_value(value) and same_expression(answer, gold)


def _is_list(text: str) -> bool:
    parts = take_apart(_GROUP_OF_THOUSANDS.sub(r"\1", text))
    return parts is not None and parts.kind == "set" and len(parts.members) > 1


def _structures_agree(answer: str, gold: str, context: _Context) -> bool | None:
    parts, gold_parts = take_apart(answer), take_apart(gold)
    if has_relation(answer) and is_solved(gold) and not is_solved(without_brackets(answer)):
        return False
    if parts is None and gold_parts is None:
        inner, gold_inner = without_brackets(answer), without_brackets(gold)
        return _same(inner, gold_inner, context) if (inner, gold_inner) != (answer, gold) else None
    if parts and gold_parts:
        return _same_parts(parts, gold_parts, context)
    if has_relation(answer) or has_relation(gold):
        return (has_relation(gold) or is_solved(answer)) and same_expression(answer, gold)
    if gold_parts and gold_parts.kind == "set" and len(gold_parts.members) == 1:
        return _same(answer, gold_parts.members[0], context)
    if parts and parts.kind == "set" and len(parts.members) == 1:
        return _same(parts.members[0], gold, context)
    return False


def _same_parts(parts: Parts, gold: Parts, context: _Context) -> bool:
    if gold.kind == "()" and parts.kind == "set" and all(_ASSIGNMENT.match(member) for member in parts.members):
        parts = Parts("()", tuple(member.partition("=")[2].strip() for member in sorted(parts.members)), True)
    if parts.kind != gold.kind or len(parts.members) != len(gold.members):
        return False
    if any(_LEADING_ZERO.fullmatch(member) for member in (*parts.members, *gold.members)):
        return parts.members == gold.members
    if gold.is_ordered:
        return all(
            _same(member, gold_member, context)
            for member, gold_member in zip(parts.members, gold.members, strict=True)
        )
    unmatched = list(gold.members)
    for member in parts.members:
        match = next((candidate for candidate in unmatched if _same(member, candidate, context)), None)
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
