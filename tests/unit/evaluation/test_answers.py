# Tests: evaluation/answers.py, evaluation/sampling.py, evaluation/summary.py
"""The answer file: what a kill at any byte leaves, how it goes on, and what it refuses."""

import pytest

from countdown_selfplay.countdown import Problem, Rules, verify
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.evaluation.answers import AnswerFile, AnswerSet, batch_key, batches_of, read_answers
from countdown_selfplay.evaluation.summary import powers_of_two, summarise
from tests.made_up_answers import SETTING, answer

SET = {**SETTING, "n": 2, "n_problems": 5}
BATCHES = [[3, 0], [1, 4], [2]]


def run(path, setting=SET, until=None):
    """An evaluation whose answers are known; `until`: batches after which it stops."""
    with AnswerFile(path, setting, BATCHES) as file:
        for batch in BATCHES[file.batches_done : until]:
            file.append([answer(i, j, (i + j) % 3 == 0) for i in batch for j in range(2)])
        return file.batches_done


def test_batches_are_whole_problems_by_length_and_known_by_their_problems_and_a_repeated_one_by_its_number():
    prompts = ["ccc", "a", "bb", "d"]
    assert batches_of(prompts, n=4, batch_size=8) == [[1, 3], [2, 0]]
    assert batches_of(prompts, n=4, batch_size=3) == [[1], [3], [2], [0]]  # at least one problem at a time
    twice = [((1, 2), 3), ((2, 2), 4), ((1, 2), 3)]
    assert batch_key(twice, [0]) != batch_key(twice, [2])
    assert batch_key(twice, [0, 1]) == batch_key(twice[:2], [0, 1])


def test_a_file_that_was_cut_at_any_byte_ends_as_if_it_had_not_been(tmp_path):
    whole = tmp_path / "whole.jsonl"
    assert run(whole) == 0
    expected = whole.read_bytes()
    ends = [0]  # bytes at which the header and each batch are complete
    for lines in (1, 5, 9, 11):
        ends.append(len(b"".join(expected.splitlines(keepends=True)[:lines])))
    for cut in range(0, len(expected) + 1, 17):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(expected[:cut])
        done = run(path)
        assert path.read_bytes() == expected
        assert done == max(0, sum(end <= cut for end in ends) - 2)  # minus "0" and the header
    assert run(whole) == 3 and whole.read_bytes() == expected  # a finished file is left as it is


def test_an_unfinished_file_is_not_compared_and_rows_come_back_in_the_order_of_the_problems(tmp_path):
    run(tmp_path / "a.jsonl", until=1)
    with pytest.raises(DataError, match="holds 4 of 10 answers: the evaluation is not finished"):
        read_answers(tmp_path / "a.jsonl")
    with AnswerFile(tmp_path / "a.jsonl", SET, BATCHES), pytest.raises(ConfigError, match="by another process"):
        run(tmp_path / "a.jsonl")
    run(tmp_path / "a.jsonl")
    found = read_answers(tmp_path / "a.jsonl")
    assert [(row.index, row.sample) for row in found.rows] == [(i, j) for i in range(5) for j in range(2)]
    assert found.rows[0].completion == "<answer>é</answer>" and found.setting == {**SET}


@pytest.mark.parametrize(("begun", "changes", "message"), [
    (2, {"temperature": 1.0}, r"was begun with temperature 0\.6 and this evaluation has 1\.0"),
    (2, {"seed": 1}, r"was begun with seed 0 and this evaluation has 1"),
    (2, {"rules": Rules(answer_rule="any").to_dict()}, r"rules\.answer_rule 'last' and this evaluation has 'any'"),
    (2, {"weights": "abc"}, r"weights None and this evaluation has 'abc'"),
    ('{"nums": [1, 2], "target": 3}\n', {}, "is not a file of `countdown-selfplay eval`"),
    ("x", {}, "is not a file of `countdown-selfplay eval`"),
    ('{"record": "setting", "n": 2}\n', {}, "no whole number 'n_problems'"),
    ('{"record": "setting", \n', {}, "line 1: this is not a JSON object"),
])  # fmt: skip
def test_a_file_of_another_setting_or_of_something_else_is_never_written_to(tmp_path, begun, changes, message):
    path = tmp_path / "a.jsonl"
    run(path, until=begun) if begun == 2 else path.write_text(begun)
    before = path.read_bytes()
    with pytest.raises(ConfigError if begun == 2 else DataError, match=message):
        run(path, {**SET, **changes})
    assert path.read_bytes() == before


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    run(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "{oops\n", *lines[4:]]))
    with pytest.raises(DataError, match="line 4: this is not a JSON object"):
        run(path)
    path.write_text("".join([*lines[:3], *lines[4:]]))
    with pytest.raises(DataError, match="its rows are not in the order they are written in"):
        run(path)
    with pytest.raises(DataError, match="holds 9 of 10 answers"):
        read_answers(path)


def test_votes_are_exact_values_and_a_broken_rule_never_shares_a_right_vote():
    def vote(text):
        return verify(text, Problem((2, 4, 8), 1), Rules(answer_format="bare")).vote

    assert vote("4 * 2 / 8") == vote("8 / (2 * 4)") == "1"
    assert vote("2 / 4 + 8") == vote("8 + 2 / 4") == "17/2"
    assert vote("8 / 8") == "wrong_numbers: 8/8"  # its value is the target, and it is not right
    assert vote("2 +") is None and vote("") is None


def test_the_summary_counts_by_hand_and_strata_apart(tmp_path):
    # Three problems, n = 2: 2, 1 and 0 right. pass@1 = (1 + .5 + 0) / 3, pass@2 = 2/3. majority@2: the tie of the
    # second counts half: (1 + .5 + 0) / 3. One of 6 answers is malformed and has no vote, one is cut.
    rows = [answer(i, j, j < c, operands=2 + i // 2) for i, c in enumerate((2, 1, 0)) for j in range(2)]
    rows[5] = answer(2, 1, False, operands=3, reason="malformed", answer=None, score=0.0, truncated=True)
    found = summarise(AnswerSet({"n": 2}, rows))
    assert (found["pass_at"]["1"]["value"], found["pass_at"]["2"]["value"]) == pytest.approx((0.5, 2 / 3))
    assert found["majority_at"]["2"]["value"] == pytest.approx(0.5) and list(found["majority_at"]) == ["2"]
    assert found["format"]["value"] == pytest.approx(5 / 6) and found["truncated_rate"] == pytest.approx(1 / 6)
    assert found["score"]["value"] == pytest.approx(3 / 6) and found["tokens"]["value"] == 3
    assert found["correct"] == [2, 1, 0] and found["reasons"] == {"correct": 3, "wrong_value": 2, "malformed": 1}
    assert {k: v["pass_at"]["1"]["value"] for k, v in found["by_operands"].items()} == {"2": 0.75, "3": 0.0}
    assert "by_stratum" not in found
    rows = [answer(i, 0, i < 2, stratum=("easy", "hard", None)[i]) for i in range(3)]
    found = summarise(AnswerSet({"n": 1}, rows))["by_stratum"]
    assert {k: (v["problems"], v["pass_at"]["1"]["value"]) for k, v in found.items()} == {
        "easy": (1, 1.0), "hard": (1, 1.0), "None": (1, 0.0),
    }  # fmt: skip
    assert [powers_of_two(n) for n in (1, 6, 16)] == [[1], [1, 2, 4], [1, 2, 4, 8, 16]]


def test_a_rate_of_0_or_1_has_wilsons_interval_over_the_problems():
    """3 of 3 problems: Wilson's lower end is 3 / (3 + z^2) = 3 / 6.84146, and of 0 of 3 the upper one z^2 / 6.84146; a
    mean of tokens is no rate, and 1 of 3 problems no certainty."""
    for right, expected in (
        (2, {"value": 1.0, "low": 0.438503, "high": 1.0}), (0, {"value": 0.0, "low": 0.0, "high": 0.561497}),
    ):  # fmt: skip
        found = summarise(AnswerSet({"n": 2}, [answer(i, j, bool(right)) for i in range(3) for j in range(2)]))
        for name in ("pass_at", "majority_at"):
            for estimate in found[name].values():
                assert estimate == pytest.approx(expected, abs=1e-6)
        assert found["tokens"]["low"] == found["tokens"]["high"] == 3
    mixed = summarise(AnswerSet({"n": 1}, [answer(i, 0, i == 0) for i in range(3)]))["pass_at"]["1"]
    assert (mixed["low"], mixed["high"]) == (0.0, 1.0)  # the bootstrap's: draws of 3 with none and with all right
