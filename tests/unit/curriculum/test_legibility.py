# Tests: curriculum/guard.py
"""The judgement on a run's first rounds, from metrics alone."""

from countdown_selfplay.contract.metric import Metric
from countdown_selfplay.curriculum.guard import Legibility

READ = [
    Metric("a/read_rate", "", cure="Warm-start a.", legible=True),
    Metric("b/format_rate", "", cure="Teach b its format.", legible=True),
    Metric("b/correct_rate", ""),
]


def said(rows, declared=READ, rounds=3):
    legibility = Legibility(declared, rounds)
    return [legibility.observe(number, row) for number, row in enumerate(rows, start=1)], legibility


def test_what_can_hardly_be_read_in_the_first_rounds_is_one_sentence_said_once():
    """a: (0 + .1 + .05) / 3 = .05; b in the rounds that have it: (.05 + .11) / 2 = .08. Both are under .1."""
    rows = [{"a/read_rate": 0.0, "b/format_rate": 0.05}, {"a/read_rate": 0.1}, {"a/read_rate": 0.05}]
    rows[2]["b/format_rate"] = 0.11
    found, legibility = said([*rows, rows[0]])
    assert found == [
        None,
        None,
        "Hardly anything can be read in the first rounds (a/read_rate 0.05, b/format_rate 0.08): warm-start a; teach "
        "b its format.",
        None,
    ]
    assert legibility.judge() is None and legibility.observe(3, rows[0]) is None  # played again after a rollback


def test_a_run_of_fewer_rounds_is_judged_when_it_ends_and_one_that_is_resumed_later_is_not():
    found, legibility = said([{"a/read_rate": 0.0}])
    assert found == [None] and legibility.judge().startswith("Hardly anything can be read")
    assert said([{"a/read_rate": 0.0}], rounds=1)[0][0].endswith("(a/read_rate 0): warm-start a.")
    resumed = Legibility(READ)
    assert resumed.observe(9, {"a/read_rate": 0.0}) is None and resumed.judge() is None
