"""What the verifier does with a text, counted: characters, lines of Python, calls of C; on any machine."""

import re
import sys

from countdown_selfplay.countdown import verifier

LONGEST = 256
"""Characters: the default `max_chars`."""


class Counted(str):
    """A text that counts the characters that its methods look at; its pieces count too."""

    looked = 0

    def _count(self, characters, result):
        Counted.looked += characters
        if isinstance(result, str):
            return Counted(result)
        return [Counted(part) for part in result] if isinstance(result, list | tuple) else result

    def find(self, sub, start=0, end=sys.maxsize):
        at = super().find(sub, start, end)
        return self._count((at if at >= 0 else min(end, len(self))) - start + len(sub), at)

    def rfind(self, sub, start=0, end=sys.maxsize):
        at = super().rfind(sub, start, end)
        return self._count(min(end, len(self)) - (at if at >= 0 else start) + len(sub), at)

    def startswith(self, prefix, *places):
        return self._count(len(prefix), super().startswith(prefix, *places))

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return self._count(len(found), found)


def _whole(name):
    def method(self, *arguments):
        return self._count(len(self), getattr(str, name)(self, *arguments))

    return method


for _name in ("split", "rsplit", "splitlines", "partition", "rpartition", "strip", "lstrip", "rstrip", "replace",
              "translate", "lower", "count", "index", "rindex", "isascii", "isdigit", "__contains__", "__iter__",
              "endswith", "removeprefix", "removesuffix", "__add__"):  # fmt: skip
    setattr(Counted, _name, _whole(_name))


def work(text, problem, rules, monkeypatch):
    """Characters looked at + lines run + calls of C in `verify`. AssertionError if a regular expression is given more
    than the longest expression: what it looks at is not counted."""
    monkeypatch.setattr(verifier, "completion_text", lambda completion: completion)  # which would make it a plain str
    events, before = [0], Counted.looked

    def lines(frame, event, argument):
        events[0] += event == "line"
        return lines

    def calls(frame, event, function):
        if event == "c_call":
            events[0] += 1
            if isinstance(getattr(function, "__self__", None), re.Pattern):
                given = [value for value in frame.f_locals.values() if isinstance(value, str)]
                assert given and max(map(len, given)) <= LONGEST, function

    counted, old = Counted(text), (sys.gettrace(), sys.getprofile())
    sys.settrace(lines)
    sys.setprofile(calls)
    try:
        verifier.verify(counted, problem, rules)
    finally:
        sys.settrace(old[0])
        sys.setprofile(old[1])
    return events[0] + Counted.looked - before
