# Tests: countdown/helping.py, countdown/guide.py
"""The prompts of seed 003, appendix E, for Countdown, reviews as texts, and demonstrations of both."""

from dataclasses import replace

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, is_solvable
from countdown_selfplay.countdown.guide import Review, is_step, rubric
from countdown_selfplay.countdown.helping import helping_problem, read_review, review_text
from countdown_selfplay.countdown.problem import heldout_key
from countdown_selfplay.countdown.rows import ROW_SCHEMAS

TARGET, STEP = Problem((3, 5, 7), 22), Problem((3, 5), 15)
TINY = replace(CountdownDomain.tiny(), spec=ProblemSpec((2, 3, 4), 1, 12, 1, 99))
STYLES = ("json", "completion", "compact")
RULES_OF_E1 = ("useful for", "simpler to solve than the target problem", "NOT be identical", "NOT be equivalent")


@pytest.mark.parametrize("style", ["json", "completion"])
def test_a_prompt_for_a_target_has_the_sentences_of_the_paper(style):
    domain = CountdownDomain(conjecturer_prompt=style)
    text = str(domain.propose_row(target=TARGET)["prompt"])
    assert all(words in text for words in RULES_OF_E1) and "22" in text
    free = str(domain.propose_row()["prompt"])
    assert "non-trivial, but not too difficult" in free and not any(words in free for words in RULES_OF_E1)


def test_the_tiny_forms_are_words_of_its_vocabulary_and_the_domain_reviews_as_the_rubric_does():
    assert TINY.propose_row(target=TARGET) == {"prompt": "propose like 3 5 7 = 22 :"}
    assert TINY.propose_row() == {"prompt": "propose like :"}
    assert TINY.helping.review_row(TARGET, STEP) == {"prompt": "score 3 5 = 15 like 3 5 7 = 22 :"}
    assert TINY.propose_row(3)["prompt"] == "propose 3 :"  # what other games ask for stays as it was
    assert TINY.helping.review(TARGET, STEP) == rubric(TARGET, STEP)
    one = Problem((1, 3, 5), 16)  # 1 + 3 * 5: every number is needed
    assert TINY.helping.review(TARGET, one, "3 * 5 + 1").redundancy == 0


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("review", [Review(5, 0, 0), Review(0, 1, 4)])
def test_a_review_is_read_as_it_was_written(style, review):
    assert read_review(review_text(review, style), style) == review


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "text",
    ["", "good", None, "6 0 0", "5 2 0", "5 0 5", "5 0", "5 0 0 0", "-1 0 0", "5 0 \u0660", "1" * 6000]
    + [
        f'<answer>{{"relevance": {n}, "redundancy": 0, "complexity": 0}}</answer>'
        for n in ("6", "true", '"5"', "NaN", "4.5")
    ]
    + ["<answer>[5, 0, 0]</answer>", '<answer>{"relevance": 5}</answer>', "<answer>" + "[" * 5000 + "</answer>"],
)
def test_what_is_no_review_on_the_scales_is_none(text, style):
    assert read_review(text, style) is None


def test_demonstrations_are_solvable_of_the_training_side_and_half_or_all_of_them_steps():
    target = Problem((2, 4, 9, 5), 31)  # 2 * (4 + 9) + 5
    found = [helping_problem(target, TINY.spec, TINY.rules, str(seed)) for seed in range(60)]
    assert all(is_solvable(p) and TINY.spec.admits(p) and not heldout_key(p.key) for p in found)
    assert target.key not in {p.key for p in found}
    steps = sum(is_step(target, p, TINY.rules) for p in found)
    assert 20 <= steps <= 50  # half by their odds, and some of the others by chance
    assert found[0] == helping_problem(target, TINY.spec, TINY.rules, "0")
    # 2 4 9 5 = 31 has steps in every size, so that none of 60 has to be another problem.
    target = Problem((2, 4, 9, 5), 31)
    found = [helping_problem(target, TINY.spec, TINY.rules, str(seed), ("step",)) for seed in range(60)]
    assert all(is_step(target, p, TINY.rules) for p in found) and len({p.key for p in found}) > 5


@pytest.mark.parametrize("schema", ["helping", "reviewed"])
def test_rows_ask_as_the_game_asks(schema):
    row = ROW_SCHEMAS[schema](Problem((2, 4, 9, 5), 31), TINY)
    assert row["prompt"].endswith("like 2 4 9 5 = 31 :")
    if schema == "helping":
        assert TINY.parse([row["completion"]])[0].problem == Problem(tuple(row["numbers"]), row["target"])
    else:
        assert TINY.helping.read_review(row["completion"]) is not None
