r"""Units before or after a number. They are ignored, unless both answers have a known unit and the units differ.

A percent sign is a unit too: the gold answer alone sets the scale of the number.
"""

import re

from gtpo.rewards.equivalence.normalise import compact
from gtpo.rewards.equivalence.numbers import parse_number

_SPELLINGS = {
    "%": "% percent percentage pct percentage-points",
    "$": "$ dollar dollars usd buck bucks",
    "c": "cent cents ¢",
    "£": "£ gbp",
    "€": "€ euro euros eur",
    "°": "° degree degrees deg",
    "rad": "radian radians rad",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "mg": "mg milligram milligrams",
    "g": "g gm gram grams",
    "kg": "kg kilogram kilograms",
    "lb": "lb lbs pound pounds",
    "oz": "oz ounce ounces",
    "ml": "ml milliliter milliliters millilitre",
    "l": "l liter liters litre litres",
    "gal": "gal gallon gallons",
    "s": "s sec second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years yr yrs",
    "mi/h": "mph milesperhour mileperhour miles/hour mi/h",
    "km/h": "kph kmh km/h kilometersperhour",
    "m/s": "m/s meterspersecond",
    "unit": "unit units",
}
_MEASURES = {word: name for name, words in _SPELLINGS.items() for word in words.split()}
_LONG = sorted((word for word in _MEASURES if len(word) > 1 and word.isalpha()), key=len, reverse=True)

# Words that change the value of the number before them. They cannot be ignored like a noun.
_VALUE_WORDS = """
    hundred hundreds thousand thousands k bn mn mil mils mill mills tens grand gross lakh lakhs lac crore crores kilo
    kilos dozen dozens score scores pair pairs half halves third thirds quarter quarters twice thrice one two three
    four five six seven eight nine ten eleven twelve zero twenty thirty forty fifty sixty seventy eighty ninety plus
    minus times over divided multiplied by squared cubed factorial root sqrt pi power to mod modulo base less
    than or and not no nor but if is are wrong false incorrect negative sin cos tan log ln exp double triple point
    from between least most up down remainder first last without except excluding unless instead rather below under
    never
"""
_NOT_NOUNS = frozenset(_VALUE_WORDS.split())
_VALUE_FORMS = re.compile(
    r"\w*illions?|\w*fold|\w+n't|"
    r"(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|\w+teen|\w+tie|hundred|thousand|\w+illion)ths?"
)

_POWER = r"(?:\s*\^\s*\{?\s*(?P<power>[23])\s*\}?)?"
_TEXT_UNIT = re.compile(r"(?P<value>.+?)\s*\\text\s*\{(?P<unit>[^{}\d]*)\}" + _POWER)
_SIGN_UNIT = re.compile(r"(?P<value>.+?)\s*(?P<unit>%|\^\\circ(?:\s*[CF](?![a-z]))?|¢|£|€|\\?\$)")
_NOUN_UNIT = re.compile(
    r"(?P<value>[-+]?[\d.,/\s]*(?:\d|\\frac\{\d+\}\{\d+\}))\s*(?P<unit>/?[A-Za-z][A-Za-z.' /-]*)" + _POWER
)
_BRACKETED_UNIT = re.compile(r"(?P<value>[-+]?[\d.,/\s]*\d)\s+\((?P<unit>[A-Za-z][A-Za-z ]*)\)")
_LONG_UNIT = re.compile(
    rf"(?P<value>.+?)(?<![A-Za-z\\])\s*(?P<unit>(?:sq(?:uare|\.)? |cubic )?(?:{'|'.join(_LONG)}))" + _POWER
)
_MONEY = re.compile(r"(?P<sign>-?)\s*(?:US)?(?P<unit>\\?\$|£|€|(?:USD|EUR|GBP)(?=\s*\d))\s*(?P<value>.+)")


def split_unit(text: str) -> tuple[str, str | None]:
    r"""The answer without its unit, and the name of the unit; None for a noun that is not a known unit.

    >>> split_unit("1000 dollars"), split_unit("\\$ 10"), split_unit("50%"), split_unit("18 eggs")
    (('1000', '$'), ('10', '$'), ('50', '%'), ('18', None))
    >>> split_unit("2 \\pi cm^2")
    ('2 \\pi', 'cm^2')
    >>> split_unit("5 million"), split_unit("5 x")
    (('5 million', None), ('5 x', None))
    """
    if match := _MONEY.fullmatch(text):
        value, unit = split_unit(match["value"])
        return match["sign"] + value, unit or _MEASURES.get(match["unit"].removeprefix("\\").lower())
    for pattern in (_SIGN_UNIT, _TEXT_UNIT, _NOUN_UNIT, _BRACKETED_UNIT, _LONG_UNIT):
        match = pattern.fullmatch(text)
        if match and _is_unit(match, pattern):
            return match["value"].strip(), _measure(match)
    return text, None


def _is_unit(match: re.Match[str], pattern: re.Pattern[str]) -> bool:
    if pattern is _SIGN_UNIT or pattern is _LONG_UNIT:
        return not re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", match["value"])
    unit = match["unit"].strip()
    words = re.findall("[a-z']+", unit.lower().replace(".", "").replace("left over", "left"))
    if not words or re.search(r"[^A-Za-z' ./-]|\b[MBK]\b", unit):
        return False
    if unit.startswith("/"):
        return len(words[0]) > 1 and " ".join(words) in _MEASURES
    spelling = unit.lower().replace(".", "").replace(" ", "")
    if spelling in _MEASURES:
        return pattern is _TEXT_UNIT or len(spelling) > 1
    if len(words) > 4 or any(word in _NOT_NOUNS or _VALUE_FORMS.fullmatch(word) for word in words):
        return False
    nouns = [word for word in words if word not in ("a", "an", "the", "of", "per")]
    if not nouns or any(len(word) == 1 and word not in _MEASURES for word in nouns):
        return False
    is_apart = match.string[match.start("unit") - 1] in " ("
    is_noun = len(nouns[0]) > 2 and re.search("[aeiou]", nouns[0]) is not None
    return pattern is _TEXT_UNIT or (is_apart and is_noun and parse_number(compact(match["value"])) is not None)


def _measure(match: re.Match[str]) -> str | None:
    unit = match["unit"].strip().lower().replace(".", "").removeprefix("\\")
    if unit.startswith("^\\circ"):
        return "°"
    power = match.groupdict().get("power")
    for prefix, implied in (("square ", "2"), ("sq ", "2"), ("cubic ", "3")):
        if unit.startswith(prefix):
            unit, power = unit.removeprefix(prefix), implied
    name = _MEASURES.get(unit.replace(" ", ""))
    return f"{name}^{power}" if name and power else name
