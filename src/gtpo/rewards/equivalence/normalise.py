r"""One spelling for answers that differ only in notation: Unicode, LaTeX commands, wrappers.

Nothing here interprets or evaluates the text. Its length is bounded by the caller.
"""

import re
import unicodedata

from gtpo.text import BOX, box_at

_CHARACTERS = str.maketrans(
    dict.fromkeys("\u2212\u2012\u2013\u2014\u2010\u2011\ufe63", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000\t\r\n", " ")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
    | {
        "\u00d7": r"\times ",
        "\u00b7": r"\cdot ",
        "\u22c5": r"\cdot ",
        "\u2217": "*",
        "\u00f7": r"\div ",
        "\u2044": "/",
    }
    | {"\u03c0": r"\pi ", "\u221e": r"\infty ", "\u00b0": r"^\circ ", "\u00b1": r"\pm ", "\u03b8": r"\theta "}
    | {"\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ", "\u222a": r"\cup ", "\u2229": r"\cap "}
    | {"\u2208": r"\in ", "\u2205": r"\emptyset ", "\u2248": r"\approx ", "\u2019": "'", "\u2018": "'"}
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")

_REWRITES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|in)\s*\]|\\cr(?![a-zA-Z])", r"\\\\"),
        (r"\\(?:text|textbf|mathrm)\s*\{\s*(\\?[$%])\s*\}", r"\1"),
        (r"\\mathrm\s*\{\s*([ei])\s*\}", r"\1 "),
        (r"\\bigcup(?![a-zA-Z])", r"\\cup "),
        (r"(?<!\\)\\(?:[!,;:> ]|(?:q?quad|displaystyle|limits)(?![a-zA-Z]))|~", " "),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![a-zA-Z])\s*", ""),
        (r"\\[dtc](frac|binom)(?![a-zA-Z])", r"\\\1"),
        (r"\\(?:simeq|approxeq|doteq|cong|sim)(?![a-zA-Z])", r"\\approx "),
        (r"\\(?:textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)(?=\s*\{)", r"\\text"),
        (r"\\leq(?:slant)?(?![a-zA-Z])|<=", r"\\le "),
        (r"\\geq(?:slant)?(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\neq(?![a-zA-Z])", r"\\ne "),
        (r"\\varnothing(?![a-zA-Z])", r"\\emptyset "),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"(\\(?:begin|end))\{bmatrix\}", r"\1{pmatrix}"),
        (r"\\degree(?![a-zA-Z])|\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])", r"^\\circ "),
        (r"\\%", "%"),
        (r"\*\*", "^"),
        (r"\^\s*\(([^()]*)\)", r"^{\1}"),
        (r"\^\s*(-?\d+)", r"^{\1}"),
        (r"\^\s*([a-zA-Z])(?=\s*\^)", r"^{\1}"),
        (r"(?<=\})\s*\^\s*([a-zA-Z])", r"^{\1}"),
        (r"\^\s*\{([^{}]*)\}\s*\^\s*(\{[^{}]*\})(?!\s*\^)", r"^{\1^\2}"),
        (r"\^\s*\{([^{}]*)\}\s*\^\s*(\{(?:[^{}]|\{[^{}]*\})*+\})(?!\s*\^)", r"^{\1^\2}"),
        (r"(?<![\w.,})/^])(?<!\d )(\d+)\s*/\s*(\d+)(?=\s*(?:\\pi|\\sqrt|√|[a-zA-Z(]))", r"\\frac{\1}{\2}"),
        (r"(?:√|(?<![\\a-zA-Z])sqrt)\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"(?:√|(?<![\\a-zA-Z])sqrt)\s*(\d+(?:\.\d+)?|[a-zA-Z](?![a-zA-Z]))", r"\\sqrt{\1}"),
        (r"(?<![\\a-zA-Z])sqrt\s*(?=\{)", r"\\sqrt"),
        (r"(?<![\\a-zA-Z])((?:arc)?(?:sin|cos|tan)|cot|sec|csc|ln|log|exp)(?=\s*[\\({_^])", r"\\\1"),
        (r"(?<![\\a-zA-Z])(alpha|beta|theta|phi)(?![a-zA-Z])", r"\\\1 "),
        (r"\\mathbb\s*([A-Z])(?![a-zA-Z])", r"\\mathbb{\1}"),
        (
            r"[(\[]\s*\\begin\{(?:array\}\{[clr| ]*|matrix)\}(.*?)\\end\{(?:array|matrix)\}\s*[)\]]",
            r"\\begin{pmatrix}\1\\end{pmatrix}",
        ),
        (r"([(\[][^()\[\]]*,[^()\[\]]*[)\]])\s*U\s*(?=[(\[])", r"\1\\cup "),
        (r"^(-?\w+)\s*\(?\s*(?:in\s+)?base\s+(\d+)\s*\)?$", r"\1_\2"),
        (r"\\sqrt\s*([0-9a-zA-Z])", r"\\sqrt{\1}"),
        (r"(?<![\\a-zA-Z])pi(?![a-zA-Z])", r"\\pi "),
        (r"(?<![\\a-zA-Z])(?:infinity|inf)(?![a-zA-Z])", r"\\infty "),
        (r"\\frac\s*(\d|\s[a-zA-Z]|\\pi)\s*(\d|[a-zA-Z]|\\pi)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"\\frac\s*(\{(?:[^{}]|\{[^{}]*\})*+\})\s*(\d)", r"\\frac\1{\2}"),
        (r"_\s*\{\s*(\d+)\s*\}(?!\s*\d)", r"_\1"),
        (r"\s+", " "),
    )
]

_THOUSANDS = re.compile(r"(?<![\d.,}])[1-9]\d{0,2}(?:\s*(?:,\s*\\!|\{,\})\s*\d{3})+(?!\d)")
_WRAPPERS = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\$\$((?:[^$\\]|\\.)*)\$\$",
        r"\$((?:[^$\\]|\\.)*)\$",
        r"\\\((.*)\\\)",
        r"\\\[(.*)\\\]",
        r"\*\*([^*]+)\*\*",
        r"`([^`]+)`",
        r'"([^"]+)"',
        r"(?:=|\\approx|####)\s*(.+)",
        r"(?i:about|around|roughly|approximately)\s+(?=[-\\$£€\d])(.+)",
        r"(?i:(?:(?:so|thus|hence|therefore),?\s+)?(?:the\s+)?(?:final\s+)?answer\s*(?:is\s*:?|:|=))\s*(.+)",
    )
]
_INNER_PAIR = re.compile(
    r"((?:[^=*]*=\s*)?)(?:\\\(((?:(?!\\\)).)*)\\\)|\*\*([^*]+)\*\*)(?=\s*(?:[A-Za-z\\%]|[.,;]?$))((?:(?!\\\(|\*\*).)*)",
    re.DOTALL,
)
_BEFORE_VALUE = re.compile(r"(?:=|\\in|\\approx)\s*\$?$")


def normalise(text: str) -> str:
    r"""The answer in one spelling: ASCII signs, no wrappers, \frac{a}{b}, single spaces.

    >>> normalise("  $\\dfrac12$. "), normalise("\\boxed{1{,}000}"), normalise("−√3"), normalise("1½")
    ('\\frac{1}{2}', '1000', '-\\sqrt{3}', '1\\frac{1}{2}')
    """
    text = _unwrap(_plain_characters(text))
    text = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return _unwrap(text)


def compact(text: str) -> str:
    """Remove all spaces except those between digits: "1 1/2" is not "11/2".

    >>> compact("x + 1 = 2"), compact("1 1/2")
    ('x+1=2', '1 1/2')
    """
    return re.sub(r"(?<!\d) +| +(?!\d)", "", re.sub(r"\s+", " ", text.strip()))


def _open_box(text: str) -> str:
    r"""Drop a box around the complete text. A box inside an expression becomes brackets: the rest still counts.

    >>> _open_box("\\boxed{5}"), _open_box("-\\boxed{5}"), _open_box("\\boxed{5}^2"), _open_box("x = \\boxed{a,b}")
    ('5', '-5', '(5)^2', 'x = a,b')
    """
    boxes = list(BOX.finditer(text))
    box = box_at(text, boxes[0]) if boxes else None
    if box is None:
        return text
    content, end = box
    before, after = text[: boxes[0].start()], text[end:]
    if not before and not after:
        return content
    if len(boxes) > 1 or not content:
        return text
    touches = re.search(r"(?:\w|[\d.,)}\]]\s*)$", before) or re.match(r"[^\s,;.$)]|[.,]\d|\s*[\d(\{]", after)
    ends_equation = _BEFORE_VALUE.search(before) and re.fullmatch(r"[\s.,;$]*", after)
    if ends_equation or (not touches and re.fullmatch(r"[\d.,]*\d", content)):
        return before + content + after
    return f"{before}{{{content}}}{after}" if "," in content else f"{before}({content}){after}"


def _plain_characters(text: str) -> str:
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda match: "^{" + match[0].translate(_SUPERSCRIPTS) + "}", text)
    text = re.sub("[\u00bc-\u00be\u2150-\u215e]", _vulgar_fraction, text)
    text = re.sub("[\uff01-\uff5e]", lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text = re.sub(r"(\.\d*?)(\d)\2{2,}(?:\.{3}|…|\\l?dots)", r"\1\\overline{\2}", text)
    return text.translate(_CHARACTERS)


def _vulgar_fraction(match: re.Match[str]) -> str:
    numerator, denominator = unicodedata.normalize("NFKC", match[0]).split("\u2044")
    return rf"\frac{{{numerator}}}{{{denominator}}}"


def _unwrap(text: str) -> str:
    before = None
    while text != before:
        before = text
        text = text.strip()
        text = re.sub(r"(?<![.\\])(?<!\\right)[.,;]$", "", text).rstrip()
        for pattern in _WRAPPERS:
            if match := pattern.fullmatch(text):
                text = match[1].strip()
        if text == before:
            text = _open_box(text)
        if match := _INNER_PAIR.fullmatch(text):
            text = match[1] + (match[2] or match[3] or "").strip() + match[4]
    dollars = len(re.findall(r"(?<!\\)\$", text))
    are_money = dollars > 1 and len(re.findall(r"(?<!\\)\$(?=\d)", text)) == dollars
    return re.sub(r"(?<!\\)\$", "", text) if are_money or (dollars and dollars % 2 == 0) else text
