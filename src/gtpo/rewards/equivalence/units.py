r"""Units before or after a number. They may be left out or added, but two different units are two answers.

A percent sign is a unit too: the gold answer alone sets the scale of the number.
"""

import re
from collections.abc import Set
from functools import lru_cache

from gtpo.rewards.equivalence.numbers import parse_number

_SPELLINGS = {
    "%": "% percent percentage pct percentage-points percentagepoints",
    "$": "$ dollar dollars usd buck bucks",
    "c": "cent cents ¢",
    "£": "£ gbp",
    "€": "€ euro euros eur",
    "°": "° degree degrees deg",
    "°c": "celsius degreescelsius",
    "°f": "fahrenheit degreesfahrenheit",
    "rad": "radian radians rad",
    "nm": "nm nanometer nanometers nanometre nanometres",
    "um": "micrometer micrometers micrometre micrometres micron microns",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "dm": "dm decimeter decimeters decimetre decimetres",
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "acre": "acre acres",
    "ha": "hectare hectares",
    "mg": "mg milligram milligrams",
    "g": "g gm gram grams",
    "kg": "kg kilogram kilograms",
    "t": "ton tons tonne tonnes",
    "lb": "lb lbs pound pounds",
    "oz": "oz ounce ounces",
    "ml": "ml milliliter milliliters millilitre millilitres",
    "cl": "cl centiliter centiliters centilitre centilitres",
    "l": "l liter liters litre litres",
    "gal": "gal gallon gallons",
    "qt": "qt quart quarts",
    "pt": "pint pints",
    "cup": "cup cups",
    "tbsp": "tbsp tablespoon tablespoons",
    "tsp": "tsp teaspoon teaspoons",
    "ms": "ms millisecond milliseconds",
    "s": "s sec second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years yr yrs yearsold",
    "decade": "decade decades",
    "century": "century centuries",
    "bit": "bit bits",
    "byte": "byte bytes",
    "kb": "kb kilobyte kilobytes",
    "mb": "mb megabyte megabytes",
    "gb": "gb gigabyte gigabytes",
    "tb": "tb terabyte terabytes",
    "cal": "calorie calories",
    "w": "watt watts",
    "kw": "kw kilowatt kilowatts",
    "v": "volt volts",
    "j": "joule joules",
    "n": "newton newtons",
    "hz": "hz hertz",
    "mi/h": "mph",
    "km/h": "kph kmh",
    "unit": "unit units",
}
_MEASURES = {word: name for name, words in _SPELLINGS.items() for word in words.split()}
_LONG = sorted((word for word in _MEASURES if len(word) > 1 and word.isalpha()), key=len, reverse=True)

# Words that change the value of the number before them, or take it back. They are not nouns, even in the question.
_VALUE_WORDS = """
    hundred hundreds thousand thousands k bn mn mil mils mill mills tens grand gross lakh lakhs lac crore crores kilo
    kilos mega giga nano micro myriad dozen dozens score scores pair pairs half halves third thirds quarter quarters
    twice thrice one two three four five six seven eight nine ten eleven twelve zero twenty thirty forty fifty sixty
    seventy eighty ninety plus minus times over divided multiplied by squared cubed factorial root sqrt pi power to mod
    modulo base less than or and not no nope nor but if is are was wrong false incorrect invalid impossible negative
    negated imaginary sin cos tan log ln exp double doubled triple tripled halved quadruple quadrupled squares
    reciprocal inverse opposite binary hex hexadecimal octal point from between least most up down remainder first last
    without except excluding unless instead rather below under above never fewer approximately about
"""
_CHANGING = """
    doubles triples quadruples cube cubes reciprocal reciprocals negative negatives opposite opposites conjugate
    complement short shy missing maybe perhaps possibly wait actually otherwise wrong not no nope never false error
    incorrect invalid however alternatively oops sorry ago backwards beyond
"""
CHANGING_WORDS = frozenset(_CHANGING.split())
"""Words that change a value or take it back. They are neither nouns nor names."""
_NOT_NOUNS = CHANGING_WORDS.union(_VALUE_WORDS.split())
_VALUE_FORMS = re.compile(
    r"\w*illions?|\w*fold|\w+n't|"
    r"(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|\w+teen|\w+tie|hundred|thousand|\w+illion)ths?"
)
_FILLERS = frozenset(
    ["a", "an", "the", "of", "per", "each", "in", "every", "left", "more", "total", "altogether", "remaining"]
)
_IRREGULAR = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "teeth": "tooth",
    "mice": "mouse",
}

_COUNTED = re.compile(
    r"how many (?:[a-z-]+ )??(fewer|less|times?|pairs?|dozens?|quarters?|halves|thirds|scores?|kilos?|squares|cubes)\b"
)
_PARTICIPLE = re.compile(r"\w\w[^e]ed$")

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
_MONEY_TAIL = re.compile(
    r"\s*(?:\\text\s*\{\s*)?"
    r"(?:\b(?:left(?: over)?|remaining|more|each|apiece|altogether|overall|(?:in )?total|in all)\b\s*)+\}?$"
)
_MONEY = re.compile(r"(?P<sign>-?)\s*(?:US)?(?P<unit>\\?\$|£|€|(?:USD|EUR|GBP)(?=\s*\d))\s*(?P<value>.+)")
_ARTICLE = re.compile("^of (?:an? |the )?")
_DIMENSION = re.compile("square |sq |cubic ")
_RATE = re.compile(r"\s*/\s*|(?:^|\s+)(?:per|an?|each|every)\s+")

Unit = str | frozenset[str]
"""The name of a known unit such as "cm^2", or the stems of other nouns."""


def split_unit(text: str, nouns: Set[str] | None = None, counted: Set[str] = frozenset()) -> tuple[str, Unit | None]:
    r"""The answer without its unit, and the unit. Only `nouns` (stems) count as nouns; None: all words do.

    `counted` are the stems that the question asks for ("How many pairs …?"): they are nouns even if they could change
    the value.

    >>> split_unit("1000 dollars"), split_unit("\\$ 10"), split_unit("50%"), split_unit("18 eggs")
    (('1000', '$'), ('10', '$'), ('50', '%'), ('18', frozenset({'egg'})))
    >>> split_unit("2 \\pi cm^2"), split_unit("60 miles per hour")
    (('2 \\pi', 'cm^2'), ('60', 'mi/h'))
    >>> split_unit("5 million"), split_unit("5 x"), split_unit("18 eggs", frozenset({"hen"})), split_unit("5%%")
    (('5 million', None), ('5 x', None), ('18 eggs', None), ('5%%', None))
    >>> split_unit("$18 left"), split_unit("5 pairs", {"pair"}), split_unit("5 pairs", {"pair"}, {"pair"})
    (('18', '$'), ('5 pairs', None), ('5', frozenset({'pair'})))
    """
    if match := _MONEY.fullmatch(text):
        value, unit = split_unit(_MONEY_TAIL.sub("", match["value"]), nouns, counted)
        money = _MEASURES[match["unit"].removeprefix("\\").lower()]
        is_money = unit is None or unit == money or not isinstance(unit, str) or unit.startswith("/")
        return (match["sign"] + value, money) if is_money else (text, None)
    for pattern in (_SIGN_UNIT, _TEXT_UNIT, _NOUN_UNIT, _BRACKETED_UNIT, _LONG_UNIT):
        match = pattern.fullmatch(text)
        unit = _unit(match, pattern, nouns, counted) if match else None
        if match and unit:
            value = match["value"].strip()
            return (value, unit) if split_unit(value)[0] == value else (text, None)
    return text, None


@lru_cache(maxsize=4096)
def noun_stems(text: str) -> frozenset[str]:
    """The words of a text in the singular.

    >>> sorted(noun_stems("Six children share the 12 cherries."))
    ['cherry', 'child', 'share', 'six', 'the']
    """
    return frozenset(map(_stem, re.findall("[a-z']+", text.lower())))


def _stem(word: str) -> str:
    word = re.sub("'s?$", "", word)
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if re.search("(?:[sxz]|ch|sh|o)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


@lru_cache(maxsize=4096)
def counted_stems(question: str) -> frozenset[str]:
    """The stems of the words that the question asks to count, which would otherwise change a number.

    >>> sorted(counted_stems("How many more pairs are there? How many dozen eggs?"))
    ['dozen', 'pair']
    """
    return frozenset(map(_stem, _COUNTED.findall(question.lower())))


def _unit(match: re.Match[str], pattern: re.Pattern[str], nouns: Set[str] | None, counted: Set[str]) -> Unit | None:
    """The unit that the pattern found; None if it is not a unit."""
    measure = _measure(match)
    if pattern is _SIGN_UNIT or pattern is _LONG_UNIT:
        return None if re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", match["value"]) else measure
    unit = match["unit"].strip()
    words = re.findall("[a-z']+", unit.lower().replace(".", "").replace("left over", "left"))
    if not words or re.search(r"[^A-Za-z' ./-]|\b[MBK]\b", unit):
        return None
    spelling = unit.lower().replace(".", "").replace(" ", "").removeprefix("/")
    if measure is not None:
        return measure if pattern is _TEXT_UNIT or len(spelling) > 1 else None
    named = [word for word in words if word not in _FILLERS]
    if unit.startswith("/") or not named or len(words) > 4:
        return None
    uncounted = [word for word in named if _stem(word) not in counted]
    if any(word in _NOT_NOUNS or _VALUE_FORMS.fullmatch(word) or len(word) == 1 for word in uncounted):
        return None
    if len(named) == 1 and len(named[0]) > 1 and named[0] in _MEASURES:
        return _MEASURES[named[0]]
    stems = frozenset(map(_stem, named))
    others = stems.difference(map(_stem, _MEASURES))
    if nouns is not None and (_PARTICIPLE.search(named[-1]) or not others or not others <= nouns):
        return None
    is_apart = match.string[match.start("unit") - 1] in " ("
    is_noun = len(named[0]) > 2 and re.search("[aeiou]", named[0]) is not None
    return stems if pattern is _TEXT_UNIT or (is_apart and is_noun and parse_number(match["value"])) else None


def _measure(match: re.Match[str]) -> str | None:
    """The name of a known unit, such as cm^2 or mi/h; None for other words."""
    text = _ARTICLE.sub("", match["unit"].strip().lower().replace(".", "").removeprefix("\\"))
    if text.startswith("^\\circ"):
        return "°" + text.removeprefix("^\\circ").strip()
    names: list[str] = []
    for part in _RATE.split(text):
        dimension = _DIMENSION.match(part)
        name = _MEASURES.get(part[dimension.end() if dimension else 0 :].replace(" ", "")) if part else ""
        if name is None:
            return None
        names.append(name + (("^3" if dimension[0] == "cubic " else "^2") if dimension else ""))
    power = match.groupdict().get("power")
    names[-1] += f"^{power}" if power and "^" not in names[-1] else ""
    return "/".join(names) if any(names) else None
