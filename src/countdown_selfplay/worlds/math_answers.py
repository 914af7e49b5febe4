"""Reader of mathematical answers: the last box, its relations, its unit and its value. math-verify is lenient:
it drops units (`2ab` is 2), takes the right side of any equation (`1=2=5` is 5) and the left side of an
approximation, and reads a per cent as a number and as its hundredth. This module decides these cases;
math-verify compares values only."""

import re
from dataclasses import dataclass
from functools import lru_cache

MAX_ANSWER = 256
"""Largest number of characters of an answer, which bounds the time."""
MAX_DEPTH = 12
"""Largest depth of braces, including the box's."""

_BOX = re.compile(
    r"\\(?:boxed|fbox)(?![A-Za-z])\s*"
    r"(?:\{|(?P<bare>\\[A-Za-z]+(?:\{[^{}]*\})*|[0-9]+(?:[.,][0-9]+)*|[A-Za-z](?![A-Za-z])))"
)
r"""Box with braces, or with a command with its groups, a number or a letter: MATH writes \boxed 9."""
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
"""Brace that is not escaped: an escaped one is a symbol, as in a set."""
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:(?:,|\\,)[0-9]{3})+(?:\.[0-9]+)?")
_BLANK = re.compile(r"\\(?:text|mbox)\s*\{\s*\}|\\q?quad(?![A-Za-z])|~|(?<!\\)\\[,;: ]")
_GAP = re.compile(r"[0-9] [0-9]")

_SIGNS = {
    "=": "=", "<": "< \\lt", ">": "> \\gt", "\\le ": "≤ <= \\le \\leq \\leqslant",
    "\\ge ": "≥ >= \\ge \\geq \\geqslant", "\\ne ": "≠ != \\ne \\neq \\not=", "\\in ": "∈ \\in",
}  # fmt: skip
_SPELLED = {spelled: sign for sign, words in _SIGNS.items() for spelled in words.split()}
_OTHERS = (
    r"approx(?:eq)?|sim(?:eq)?|cong|equiv|doteq|asymp|propto|ll|gg|notin|ni|(?:sub|sup)set(?:eq)?|to|gets|mapsto|implies"
    r"|iff|(?:long)?(?:left|right|leftright)arrow|(?:Long)?(?:Left|Right|Leftright)arrow"
)
_RELATION = re.compile(
    r"\\not\s*(?:\\[A-Za-z]+|[=<>])|[<>!]=|[=<>≠≤≥∈≈∼≅≡∝→⇒]"
    rf"|\\(?:lt|gt|le|leq|leqslant|ge|geq|geqslant|ne|neq|in|{_OTHERS})(?![A-Za-z])"
)
_ASSIGNED = re.compile(
    r"(?:\\angle |\\triangle )?(?:[A-Za-z]|[A-Z]{2,4}|\\[A-Za-z]+|\\(?:text|mathrm|operatorname)\{[^{}]*\})"
    r"'*(?:_(?:[A-Za-z0-9]|\{[^{}]*\}))?'*(?:\([^()]*\))?(?:=|\\in )(?P<value>.+)",
    re.DOTALL,
)
"""One symbol, or a function, and its value: x=5, x_1=5, f(x)=x^2, AB=5."""

_WORDS = re.compile(
    r"\\(?:text|mbox|textrm|textbf|textit|mathrm)\s*\{(?P<words>[^{}0-9]*[A-Za-z][^{}0-9]*)\}(?:\^\{?(?P<power>[0-9])\}?)?"
)
_BARE_WORDS = re.compile(r"(?<![A-Za-z\\])(?P<words>[A-Za-z]+(?:[ /.][A-Za-z/. ]*)?)(?:\^\{?(?P<power>[0-9])\}?)?")
_DEGREES = re.compile(r"(?:\^\{?(?:\\circ|°)\}?|°|\\degree)")
_UNITS = (
    "meter m metre, kilometer km kilometre, centimeter cm centimetre, millimeter mm millimetre, inch in, "
    "foot ft feet, yard yd, mile mi, gram g gm, kilogram kg, pound lb, ounce oz, liter l litre, "
    "milliliter ml millilitre, second s sec, minute min, hour h hr, day, week, month, year yr, dollar, cent, "
    "degree deg, unit"
)
"""Units with their other spellings."""
_UNIT_OF = {alias: unit for unit, *more in map(str.split, _UNITS.split(", ")) for alias in (unit, *more)}
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_FACTORS = {"dozen", "hundred", "thousand", "million", "billion", "trillion"}


@dataclass(frozen=True)
class Reading:
    """Parts of an answer."""

    text: str
    """Text without its unit; relations in one spelling."""
    unit: str
    """Unit in one spelling, such as centimeter^2; "%" for a per cent, "" for none."""
    relations: tuple[str, ...]
    """Types of its relations, sorted; an inequality and its mirror image are one type."""
    value: str
    """`text` without "x =", if every part between commas with a relation is an assignment."""
    assigned: bool
    """Whether `value` has no relations."""


def last_box(text: str) -> tuple[str | None, int, bool]:
    """Return the content of the last box (None: it does not end, is empty, or absent), the number of boxes, and
    whether it is too long or too deep."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None, 0, False
    answer, inside, depth, deepest = boxes[-1]["bare"], boxes[-1].end(), 1, 1
    for brace in _BRACE.finditer(text, inside) if answer is None else ():
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        deepest = max(deepest, depth)
        if depth == 0:
            answer = text[inside : brace.start()].strip()
            break
    return answer or None, len(boxes), answer is not None and (len(answer) > MAX_ANSWER or deepest > MAX_DEPTH)


def balanced(text: str) -> bool:
    """Return whether its unescaped braces are balanced."""
    braces = [brace[0] for brace in _BRACE.finditer(text)]
    return braces.count("{") == braces.count("}")


def plain(answer: str) -> str:
    """Remove dollars and thousands separators, and all spaces that do not separate two words or numbers: "10, 100" is
    not a number, and "1 2" is not 12."""
    text = re.sub(r"(?<=[0-9])(?:\{,\}|,\s*\\!)\s*(?=[0-9]{3})", "", answer.strip())
    text = re.sub(r"\\?\$|(?<!\\)\\!\s*", "", text)
    if _THOUSANDS.fullmatch(text):
        return re.sub(r"[^0-9.+-]", "", text)
    spaced = " ".join(_BLANK.sub(" ", text).split())
    return re.sub(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])", "", spaced)


def values_of(gold: str, answer: str) -> tuple[str, str] | None:
    """Return the two texts whose values must be equal for `answer` to be right, or None if it is wrong. The same text
    is always right. Wrong are a gap between digits ("1 2" is neither a number nor a list); another unit than the right
    answer's, and a per cent if that has no unit; other relations than the right answer's, in type or number. But "x ="
    is ignored in one of them if the other has no relation, and an interval may represent an inequality."""
    if plain(gold) == plain(answer):
        return gold, gold
    wanted = reading(gold)
    parts = reading(answer, wanted.unit)
    if _GAP.search(wanted.text) or _GAP.search(parts.text):
        return None
    if parts.unit != wanted.unit and parts.unit and (wanted.unit or parts.unit == "%"):
        return None
    if wanted.relations == parts.relations:
        return wanted.text, parts.text
    if not wanted.relations:
        return (wanted.text, parts.value) if parts.assigned else None
    if not parts.relations and (wanted.assigned or set(wanted.relations) <= {"<", "\\le "}):
        return wanted.value, parts.text
    return None


@lru_cache(maxsize=4096)
def reading(answer: str, known: str = "") -> Reading:
    r"""Return the parts of an answer. known: unit of the right answer, which counts without \text too."""
    text = re.sub(r"(?<!\\right)\.$", "", plain(answer))
    text, unit = _unit(text, known)
    if not unit and re.match(r"\s*-?\\\$", answer):
        unit = "dollar"
    text = re.sub(r",?\\text\{(?:and|or)\}|,? ?(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]) ?", ",", text)
    text = _RELATION.sub(lambda sign: _SPELLED.get(sign[0].replace(" ", ""), sign[0] + " "), text)
    text = re.sub(r"(?<=[=<> ]) +", "", text)
    parts = [_value(part) for part in _parts(text)]
    value = ", ".join(parts)
    return Reading(", ".join(_parts(text)), unit, _relations(text), value, not _relations(value))


def _value(part: str) -> str:
    """Return the right side of an assignment, else the part."""
    match = _ASSIGNED.fullmatch(part)
    return part if match is None or _relations(match["value"]) else match["value"]


def _relations(text: str) -> tuple[str, ...]:
    r"""Return the types of the relations outside groups, sorted; those of sums and limits (i=1, x \to 0)
    are in groups."""
    outside = re.sub(r"\\[{}]", " ", text)
    while outside != (outside := re.sub(r"\{[^{}]*\}", "", outside)):
        pass
    kinds = [_SPELLED.get(sign.strip(), sign.strip()) for sign in _RELATION.findall(outside)]
    return tuple(sorted({">": "<", "\\ge ": "\\le "}.get(kind, kind) for kind in kinds))


def _parts(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def _unit(text: str, known: str) -> tuple[str, str]:
    """Return `text` without the unit at its end, and the unit. A per cent sign counts anywhere."""
    text = re.sub(r"\\text\s*\{\s*(per ?cent(?:age)?|pct)\s*\}", "%", text)
    without, signs = re.subn(r" ?(?:\\?%|(?<![A-Za-z])(?:per ?cent(?:age)?|pct)(?![A-Za-z]))", "", text)
    if signs:
        return without, "%"
    for pattern in (_WORDS, _BARE_WORDS, _DEGREES):
        for match in pattern.finditer(text):
            body = text[: match.start()].rstrip()
            if match.end() != len(text) or not re.search(r"[0-9A-Za-z)}\]]$", body):
                continue
            if pattern is _DEGREES:
                return (text, "") if re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", body) else (body, "degree")
            unit, sure = _named(match["words"], match["power"])
            if unit and (pattern is _WORDS or sure or unit == known):
                return body, unit
    return text, ""


def _named(words: str, power: str | None) -> tuple[str, bool]:
    """Return a unit in one spelling ("": none), and whether the table has it, with two letters or more."""
    spelled = re.sub(r"(?<![a-z])per(?![a-z])", "/", words.lower().replace(".", "").replace("mph", "miles/hour"))
    names, known = [], True
    for word in re.findall(r"[a-z']+|/", spelled):
        if word in _FACTORS:
            return "", False
        if word in _POWERS:
            power = _POWERS[word]
            continue
        one = next((w for w in (word, word[:-1], word[:-2]) if w in _UNIT_OF), None) if word != "/" else "/"
        known &= one is not None
        names.append(_UNIT_OF.get(one or "", one or word.removesuffix("s")))
    name = " ".join(names)
    return (f"{name}^{power}" if power else name), known and len(words.strip()) > 1
