"""A second checker of condensed detachment, which shares nothing with the package's: Robinson's."""

from itertools import product

AXIOMS = {
    "1": ("C", "a", ("C", "b", "a")),
    "2": ("C", ("C", "a", ("C", "b", "c")), ("C", ("C", "a", "b"), ("C", "a", "c"))),
    "3": ("C", ("C", ("N", "a"), ("N", "b")), ("C", "b", "a")),
}


def proved(proof):
    """The theorem of a proof; None if a unification fails; ValueError for a text that is no proof."""
    theorem, rest = _proved(proof, 0)
    if rest != len(proof):
        raise ValueError(proof)
    return theorem


def _proved(proof, at):
    if at >= len(proof):
        raise ValueError(proof)
    if proof[at] != "D":
        if proof[at] not in AXIOMS:
            raise ValueError(proof)
        return tidy(AXIOMS[proof[at]]), at + 1
    major, at = _proved(proof, at + 1)
    minor, at = _proved(proof, at)
    return (None if major is None or minor is None else detached(major, minor)), at


def detached(major, minor):
    if major[0] != "C":
        return None
    bound = unified(_renamed(major[1], "x"), _renamed(minor, "y"), {})
    return None if bound is None else tidy(_put(_renamed(major[2], "x"), bound))


def unified(one, other, bound):
    one, other = _seen(one, bound), _seen(other, bound)
    if one == other:
        return bound
    if isinstance(one, str):
        return None if _occurs(one, other, bound) else {**bound, one: other}
    if isinstance(other, str):
        return unified(other, one, bound)
    if one[0] != other[0]:
        return None
    for left, right in zip(one[1:], other[1:], strict=True):
        bound = unified(left, right, bound)
        if bound is None:
            return None
    return bound


def _seen(term, bound):
    while isinstance(term, str) and term in bound:
        term = bound[term]
    return term


def _occurs(name, term, bound):
    term = _seen(term, bound)
    return name == term if isinstance(term, str) else any(_occurs(name, part, bound) for part in term[1:])


def _put(term, bound):
    term = _seen(term, bound)
    return term if isinstance(term, str) else (term[0], *(_put(part, bound) for part in term[1:]))


def _renamed(term, mark):
    return term + mark if isinstance(term, str) else (term[0], *(_renamed(part, mark) for part in term[1:]))


def tidy(term, names=None):
    """Variables renamed to v0, v1, ... in the order of their appearance."""
    names = {} if names is None else names
    if isinstance(term, str):
        return names.setdefault(term, f"v{len(names)}")
    return (term[0], *(tidy(part, names) for part in term[1:]))


def matches(general, term, bound):
    """Whether a substitution of `general` makes `term`; `bound` is filled."""
    if isinstance(general, str):
        return bound.setdefault(general, term) == term
    if isinstance(term, str) or general[0] != term[0]:
        return False
    return all(matches(g, t, bound) for g, t in zip(general[1:], term[1:], strict=True))


def polish(term, letters="pqrstuvwxyzabcdefghijklmno"):
    if isinstance(term, str):
        return letters[int(term[1:])]
    return term[0] + "".join(polish(part, letters) for part in term[1:])


def of_polish(text):
    """The tuple of a text in Polish notation, tidied."""

    def one(at):
        if text[at] == "C":
            left, at = one(at + 1)
            right, at = one(at)
            return ("C", left, right), at
        if text[at] == "N":
            part, at = one(at + 1)
            return ("N", part), at
        return text[at], at + 1

    term, end = one(0)
    assert end == len(text)
    return tidy(term)


def always_true(term):
    names = sorted(_names(term))
    return all(_value(term, dict(zip(names, row, strict=True))) for row in product((False, True), repeat=len(names)))


def _names(term):
    return {term} if isinstance(term, str) else set().union(*(_names(part) for part in term[1:]))


def _value(term, row):
    if isinstance(term, str):
        return row[term]
    if term[0] == "N":
        return not _value(term[1], row)
    return not _value(term[1], row) or _value(term[2], row)
