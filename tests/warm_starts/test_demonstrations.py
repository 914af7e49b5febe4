# Tests: warm_starts/demonstrations.py, warm_starts/readers.py, warm_starts/configs.py
"""Rows that a warm start is made of: how they ask, that they are right, and what is left out."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from tests.cli.stand_in import END, START, make_tokenizer
from tests.toy_domain import Sums

from countdown_selfplay.config.recipes import recipe_settings
from countdown_selfplay.contract.domain import Checked
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.countdown.critique import REJECT, first_mistake, steps_of
from countdown_selfplay.countdown.guide import is_step
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.evaluation.sampling import demonstration_ids
from countdown_selfplay.warm_starts.configs import IPOArguments, SFTArguments
from countdown_selfplay.warm_starts.demonstrations import critique_demonstrations, generated_rows
from countdown_selfplay.warm_starts.readers import clean_demonstrations
from countdown_selfplay.warm_starts.rows import ROW_SCHEMAS
from countdown_selfplay.warm_starts.training import asking

SMALL = ProblemSpec((3, 4), 1, 12, 1, 99)
MOVES = CountdownDomain(SMALL, Rules(answer_format="bare"), "compact_moves", "compact_any", answers="moves")
TINY = replace(CountdownDomain.tiny(), spec=ProblemSpec((2, 3, 4), 1, 12, 1, 99))
EASY = Problem((3, 5, 7), 22)


@pytest.mark.parametrize("given, schema", [
    ({"role": "conjecturer", "helping": True}, "helping_steps"),
    ({"role": "conjecturer", "variants": True}, "variant_steps"),
    ({"role": "guide"}, "reviewed_steps"),
])  # fmt: skip
def test_one_flag_leaves_distractors_out_of_every_warm_start_with_a_target(given, schema):
    assert SFTArguments(**given, distractors=False).schema == schema
    rows = generated_rows(40, given["role"], TINY, schema=schema)
    targets = [row["prompt"].split("like ")[1].split(" :")[0].split(" = ") for row in rows if "=" in row["prompt"]]
    helps = [Problem(tuple(row["numbers"]), row["target"]) for row in rows if "=" in row["prompt"]]
    steps = [is_step(Problem(tuple(map(int, numbers.split())), int(target)), help, TINY.rules)
             for (numbers, target), help in zip(targets, helps, strict=True)]  # fmt: skip
    # where no step lies in the ranges and on the training side it is any problem (1 in 16 of 240)
    assert sum(steps) >= 0.8 * len(steps)


def test_warm_starts_are_made_of_such_rows_and_one_in_five_has_no_target():
    rows = generated_rows(6, "conjecturer", TINY, schema="helping", per_problem=2)
    assert len(rows) == 12 and len(clean_demonstrations(rows, "conjecturer", TINY).rows) == 12
    # a step has fewer numbers than its target, so targets have more than the fewest: 3 or 4, with "=" and ":"
    assert {len(row["prompt"].split()) - 5 for row in rows if row["prompt"] != "propose like :"} <= {3, 4}
    reviews = generated_rows(6, "guide", TINY)
    kept = clean_demonstrations([*reviews, {**reviews[0], "completion": "6 0 0"}], "guide", TINY)
    assert len(kept.rows) == 6 and kept.left_out == {"wrong": 1}
    rows = generated_rows(300, "conjecturer", TINY, schema="helping")
    hidden = [row for row in rows if row["prompt"] == "propose like :"]
    # 60 of 300 by the odds, with a deviation of sqrt(300 * .2 * .8) = 6.9
    assert 39 <= len(hidden) <= 81 and all(row["prompt"].startswith("propose like ") for row in rows)
    # they are answered with problems of the same kinds: several counts of numbers, and no single problem over and over
    assert len({len(row["numbers"]) for row in hidden}) > 1
    assert len({(*row["numbers"], row["target"]) for row in hidden}) > len(hidden) // 2


def test_a_warm_start_says_its_schema_and_its_preset():
    assert IPOArguments(eval_preset="joint_rloo").evaluated_as["max_new_tokens"] == 2048
    assert SFTArguments(role="conjecturer", helping=True).schema == "helping" and SFTArguments().schema is None


def test_rows_for_a_warm_start_are_moves_and_none_is_left_out():
    rows = generated_rows(40, "prover", MOVES, seed=2, per_problem=2)
    assert len(rows) == sum(map(len, MOVES.demonstrations(80, 2)))
    assert set(rows[0]) == {"prompt", "completion", "numbers", "target"}
    kept = clean_demonstrations(rows, "prover", MOVES)
    assert len(kept.rows) == len(rows) and kept.rows[0]["prompt"] == rows[0]["prompt"]
    lie = {**rows[0], "completion": "1 + 1 = 3"}
    assert clean_demonstrations([lie], "prover", MOVES).left_out == {"wrong": 1}
    twenty = replace(MOVES, spec=ProblemSpec((3, 20), 1, 12, 1, 99))
    proposed = generated_rows(30, "conjecturer", twenty)
    assert {row["prompt"] for row in proposed} == {"propose :"}
    assert len(clean_demonstrations(proposed, "conjecturer", twenty).rows) == 30
    with pytest.raises(ConfigError, match=r"`answers` .moves. has no demonstrations 'helping'"):
        generated_rows(1, "conjecturer", MOVES, schema="helping")


def test_the_warm_start_of_stp_asks_as_the_game_does():
    row = ROW_SCHEMAS["variant"](EASY, TINY)
    shown = row["prompt"].removeprefix("propose like 3 5 7 = 22 : ").removesuffix(" :")
    assert TINY.verify([shown], [EASY])[0].correct
    assert TINY.parse([row["completion"]])[0].problem == Problem(tuple(row["numbers"]), row["target"]) != EASY
    rows = generated_rows(4, "conjecturer", TINY, schema="variant", per_problem=2)
    assert len(clean_demonstrations(rows, "conjecturer", TINY).rows) == 8
    own = dict(role="conjecturer", prover_prompt="compact", conjecturer_prompt="compact")
    script = SFTArguments(variants=True, **own)
    assert script.schema == "variant"
    (ask,) = asking(script, [EASY]).asks
    assert ask["variant_of"] == EASY and script.played.verify([ask["solution"]], [EASY])[0].correct
    for wrong, said in ((dict(role="prover"), "is for role=conjecturer"), (dict(helping=True), "ask in two ways")):
        with pytest.raises(ConfigError, match=said):
            SFTArguments(variants=True, **{**own, **wrong})


def test_the_reviews_that_warm_start_a_guide_fit_a_chat_template():
    """The recipe's demonstrations under a template of Qwen2.5's kind: the reply alone is learned, up to the end of its
    turn, and reads as the rubric's review."""
    written = recipe_settings("qwen2.5-0.5b/sft_sgs_guide", "sft")
    own = {name: value for name, value in written.items() if name in SFTArguments.__dataclass_fields__}
    domain, tokenizer = SFTArguments(**own).played, make_tokenizer()
    assert written["demonstrations"] == 2048 and written["role"] == "guide"
    rows = generated_rows(24, "guide", domain)
    for row in rows:
        (reply,), (*_, asked) = row["completion"], row["prompt"]
        assert (asked["role"], reply["role"]) == ("user", "assistant")
        ids = demonstration_ids(tokenizer, row["prompt"], row["completion"])
        learned = [label for label in ids["labels"] if label != -100]
        assert tokenizer.decode(learned) == reply["content"] + END
        assert tokenizer.decode(ids["input_ids"][: -len(learned)]).endswith(f"{START}assistant\n")
        target = Problem(**json.loads(asked["content"].splitlines()[1]))
        assert domain.helping.read_review(reply["content"]) == domain.helping.review(
            target, Problem(row["numbers"], row["target"])
        )
    assert clean_demonstrations(rows, "guide", domain, set(), False, "generated").rows == rows


def test_demonstrations_are_right_of_the_training_side_and_in_the_tiny_models_words():
    domain = CountdownDomain.tiny()
    rows = critique_demonstrations(20, domain, seed=1, per_problem=3)
    assert len(rows) == 240 and rows == critique_demonstrations(20, domain, seed=1, per_problem=3)
    assert len({str(row) for row in rows}) > 200  # a problem's three draws differ: 80 without, at most 240 with
    answers, critiques, revisions, checks = (rows[i::4] for i in range(4))
    assert all(domain.verify([r["completion"]], [domain.problem(r)])[0].correct for r in answers)
    assert not any(domain.is_held_out(domain.problem(row)) for row in rows)
    rights = 0
    for row in critiques:
        said = row["prompt"].removesuffix(" :").split(" : ")[-1]
        assert domain.critique.read_critique(row["completion"], said) == row["completion"]
        mistake = first_mistake(domain.problem(row), said, domain.rules)
        rights += mistake is None
        assert mistake is None or mistake.text == row["completion"]
    assert 13 <= rights <= 35  # .4 of 60: three standard deviations are 11.4
    for row in revisions:
        *_, said, _ = row["prompt"].removesuffix(" :").split(" : ")
        right = domain.verify([said], [domain.problem(row)])[0].correct
        assert (row["completion"] == REJECT) == right
        assert right or domain.verify([row["completion"]], [domain.problem(row)])[0].correct
    kept = 0
    for row in checks:  # the evaluation's own prompt; appendix C.3: right answers kept, wrong ones corrected
        problem, said = domain.problem(row), row["prompt"].removesuffix(" :").split(" : ")[-1]
        assert row["prompt"] == domain.critique.recheck_row(problem, said)["prompt"]
        right = domain.verify([said], [problem])[0].correct
        assert domain.verify([row["completion"]], [problem])[0].correct and right == (row["completion"] == said)
        kept += right
    assert 13 <= kept <= 35
    wrong = [
        (domain.problem(row), row["prompt"].removesuffix(" :").split(" : ")[1])
        for row in [*critiques, *revisions, *checks]
    ]
    off = [abs(steps_of(said)[-1].value - problem.target) for problem, said in wrong]
    assert sum(0 < distance <= 5 for distance in off) > sum(distance > 5 for distance in off) > 0


def test_answers_of_four_numbers_have_three_steps_and_other_prompts_are_refused():
    """As of three numbers: critiques name a first mistake or a step of a right answer; five numbers are refused."""
    domain = CountdownDomain.tiny()
    domain = replace(domain, spec=replace(domain.spec, operands=(4,)))
    rows = critique_demonstrations(8, domain, per_problem=2, critiques=3)
    assert len(rows) == 8 * 2 * 6
    answers, places = [row for row in rows if " :" in row["prompt"] and row["prompt"][0].isdigit()], Counter()
    assert len(answers) == 16
    assert all(domain.verify([r["completion"]], [domain.problem(r)])[0].correct for r in answers)
    for row in rows:
        if row["prompt"].startswith("critic"):
            said = row["prompt"].removesuffix(" :").split(" : ")[-1]
            mistake = first_mistake(domain.problem(row), said, domain.rules)
            assert mistake is None or mistake.text == row["completion"]
            places[[step.text for step in steps_of(said)].index(row["completion"])] += 1
    assert set(places) == {0, 1, 2} and sum(places.values()) == 48
    with pytest.raises(ConfigError, match="at most 4 numbers"):
        critique_demonstrations(1, replace(domain, spec=replace(domain.spec, operands=(4, 5))))
    with pytest.raises(ConfigError, match="`prover_prompt` is 'countdown_3to4'"):
        critique_demonstrations(1, CountdownDomain())


class Strict:
    """Of a domain whose `check` reads what was asked for without a look."""

    def __init__(self, domain):
        self.domain = domain

    def __getattr__(self, name):
        return getattr(self.domain, name)

    def check(self, problems, asked):
        return [Checked("ok") for _, ask in zip(problems, asked, strict=True) if ask["operands"]]


def test_a_demonstration_was_asked_for_by_nobody_and_a_check_that_needs_an_ask_is_named():
    domain = Sums(high=9)
    rows = [{**domain.propose_row(2), "completion": f"{a} + 4", "a": a, "b": 4} for a in (3, 12)]
    kept = clean_demonstrations(rows, "conjecturer", domain)
    assert [row["completion"] for row in kept.rows] == ["3 + 4"]  # 12 is out of range
    with pytest.raises(ConfigError, match=r"`check` of the domain 'sums' ended in TypeError .* `asked` is None"):
        clean_demonstrations(rows, "conjecturer", Strict(domain))
