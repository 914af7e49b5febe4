# Tests: tools/gym_tasks.py, docs/gym_tasks.md
"""The table of reasoning-gym's tasks: what is refused and why, and the page that is made of it."""

import json

import pytest

from countdown_selfplay.worlds.gym_tasks import TABLE, table
from countdown_selfplay.worlds.workers import Unchecked
from tools import gym_tasks


def found(score=1.0, answer="1", question="?"):
    return {"score": score, "answer": answer, "question": question, "make_ms": 1.0, "score_ms": 1.0}


GOOD = [found(question=str(i)) for i in range(28)]


@pytest.mark.parametrize(("first", "again", "why"), [
    (GOOD, GOOD[:12], None),
    ([*GOOD[:12], Unchecked("error", "none")], GOOD[:12], None),  # a generator may refuse higher levels
    ([Unchecked("error", "ValueError: no\n"), *GOOD[1:]], GOOD[:12],
     "1 of 12 problems at its lowest levels are not made or scored in time: ValueError: no"),
    ([Unchecked("timed_out")] * 12, GOOD[:12],
     "12 of 12 problems at its lowest levels are not made or scored in time: timed out"),
    ([found(0.0), found(0.5), *GOOD[2:]], GOOD[:12],
     "2 of 28 answers that it gives itself score less than 1, the least 0"),
    ([found(0.0, None), *GOOD[1:]], GOOD[:12], "1 of 28 problems come without an answer to them"),
    ([found(question="!"), *GOOD[1:]], GOOD[:12], "1 of 12 problems differ when they are made again"),
])  # fmt: skip
def test_what_is_refused_says_why(first, again, why):
    assert gym_tasks.refusal(first, again) == why


def test_the_packaged_table_has_all_tasks_and_the_page_is_made_of_it():
    tasks = table()["tasks"]
    assert len(tasks) == 106 and table()["reasoning_gym"] == "0.1.25"
    played = {task: row for task, row in tasks.items() if not row["refused"]}
    assert all(row["right"] == row["problems"] >= 12 for row in played.values())
    assert all("scorer" in row and row["ran"] == 0 and "constant" in row["junk"] for row in played.values())
    assert tasks["chain_sum"]["knobs"] == {"num_terms": [10, 11], "num_digits": [9, 10]}
    assert "without an answer" in tasks["propositional_logic"]["refused"]
    assert gym_tasks.PAGE.read_text(encoding="utf-8") == gym_tasks.page(json.loads(TABLE.read_text(encoding="utf-8")))
