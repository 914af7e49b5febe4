# Tests: evaluation/episodes.py, evaluation/answers.py, evaluation/roles.py, evaluation/summary.py
"""Episodes of a domain in moves: how they are sampled and counted, by written moves and by a known probability."""

import json

import pytest

from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.contract.metric import declaration_of
from countdown_selfplay.contract.trainer_metrics import LOG_METRICS
from countdown_selfplay.distributed.processes import Processes
from countdown_selfplay.domains import held_out_by_rung
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.evaluation import evaluate_prover
from countdown_selfplay.evaluation.answers import answer_batches
from countdown_selfplay.evaluation.episodes import rungs_of, sample_episodes
from countdown_selfplay.evaluation.summary import by_rung, differences_by_rung, ladder, pass_by_rung
from countdown_selfplay.evaluation.terminal import before_after_table
from countdown_selfplay.statistics.bootstrap import share_interval
from countdown_selfplay.testing import in_ranks
from countdown_selfplay.training.callbacks.progress import scores_text
from tests.unit.evaluation.stairs import Climber, Stair, Stairs, Written, words

DOMAIN = Stairs()
PROBLEMS = [Stair(1, 1), Stair(2, 2), Stair(3, 3)]
MOVES = {
    "1 : 1": "up, up, down, up",  # 3 of 4
    "2 : 2": "up, down down, up, up",  # three go on,
    "2 : 1": "down, up up, up",  # of which 2 arrive; one text is cut
    "3 : 3": "up, up, down, down",  # two go on,
    "3 : 2": "down, up",  # of which one
    "3 : 1": "down",  # falls
}


@pytest.fixture(scope="module")
def tokenizer():
    return words()


def test_episodes_are_counted_by_their_last_moves_only_live_ones_are_sampled_and_rows_are_whole(tokenizer):
    model = Written(tokenizer, MOVES)
    found = evaluate_prover(model, tokenizer, PROBLEMS, DOMAIN, n=4, ks=(1, 4), max_new_tokens=2)
    assert found.correct == [3, 2, 0]
    # 12 first moves, 3 + 2 second ones, 1 third one
    assert model.rows == [12, 5, 1]
    assert found.pass_at[1].value == pytest.approx((3 + 2 + 0) / 12)
    assert found.pass_at[4].value == pytest.approx(2 / 3)
    assert found.reasons == {"top": 5, "fell": 7}
    # Of two tokens "up up" and "down down" have no room for the end token; the second one holds two answers.
    assert found.truncated_rate == 2 / 12 and found.several_answers_rate == 1 / 12
    assert found.rungs == [1, 2, 3]
    loaded = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {rung: figures["correct"] for rung, figures in loaded["by_rung"].items()} == {"1": [3], "2": [2], "3": [0]}
    assert "ladder" not in loaded  # no rung from 4 to 10
    batches = list(answer_batches(Written(tokenizer, MOVES), tokenizer, PROBLEMS, DOMAIN, 4, max_new_tokens=2))
    assert len(batches) == 1
    second = [row for row in batches[0] if row.index == 1]
    assert [row.completion for row in second] == ["up\ndown", "down down", "up\nup up", "up\nup"]
    assert [row.reason for row in second] == ["fell", "fell", "correct", "correct"]
    assert [row.truncated for row in second] == [False, True, True, False]
    assert [row.tokens for row in second] == [2, 2, 3, 2]


def test_memory_is_bounded_by_the_batch_and_progress_never_goes_back(tokenizer):
    model = Climber(tokenizer, 1.0)
    sample_episodes(model, tokenizer, [Stair(1, 2), Stair(2, 1)], DOMAIN, 5, batch_size=4)
    assert model.rows == [4, 4, 2, 4, 1]  # ten first moves, then five second ones
    told = []
    model = Climber(tokenizer, 0.7)
    problems = held_out_by_rung(DOMAIN, None, 3)
    sample_episodes(model, tokenizer, problems, DOMAIN, 4, batch_size=16, progress=lambda *pair: told.append(pair))
    done = [pair[0] for pair in told]
    assert done == sorted(done) and told[-1] == (108, 108) and {pair[1] for pair in told} == {108}
    assert rungs_of(DOMAIN, [Stair(1, 2), Stair(2, 2)]) is None
    assert rungs_of(BaseDomain(), [1, 2]) is None
    assert rungs_of(DOMAIN, [Stair(1, 2), Stair(2, 3)]) == [2, 3]


def test_processes_that_must_keep_step_call_the_model_equally_often(tokenizer):
    """Rank 0 has the episode of nine moves, rank 1 one of a single move; both generate nine times."""
    models = [Climber(tokenizer, 1.0) for _ in range(2)]

    class InStep(Processes):
        pass

    def play(rank, gather):
        processes = InStep(rank, 2, in_step=True)
        object.__setattr__(processes, "gather", gather)
        found = evaluate_prover(
            models[rank], tokenizer, [Stair(1, 9), Stair(2, 1)], DOMAIN, 3, (1,), processes=processes
        )
        return found.correct

    assert in_ranks(2, play) == [[3, 3], [3, 3]]
    assert [model.rows for model in models] == [[3] * 9, [3] * 9]


def test_figures_by_rung_are_those_of_a_plain_recount_with_a_stratified_interval_of_the_ladder():
    correct, rungs = [1, 0, 2, 4, 1, 3], [5, 4, 5, 4, 4, 7]
    found = by_rung(correct, rungs, 4, (1, 2))
    assert list(found) == ["4", "5", "7"]
    assert [one["problems"] for one in found.values()] == [3, 2, 1]
    assert found["4"]["correct"] == [0, 4, 1]
    # pass@2 with c of 4 right: 1 - C(4 - c, 2) / 6: c = 0 0, 1 1/2, 2 5/6, 3 and 4 1
    recount = {"4": (5 / 12, (0 + 1 + 0.5) / 3), "5": (3 / 8, (0.5 + 5 / 6) / 2), "7": (3 / 4, 1)}
    for rung, (one, two) in recount.items():
        assert found[rung]["pass_at"]["1"]["value"] == pytest.approx(one)
        assert found[rung]["pass_at"]["2"]["value"] == pytest.approx(two)
    # The ladder weighs rungs equally, whatever their problems: (5/12 + 3/8 + 3/4) / 3.
    score = ladder(found, (1, 2))
    assert score["rungs"] == [4, 5, 7]
    assert score["pass_at"]["1"]["value"] == pytest.approx((5 / 12 + 3 / 8 + 3 / 4) / 3)
    assert ladder(found, (1,), (7, 5, 9))["pass_at"]["1"]["value"] == pytest.approx((3 / 8 + 3 / 4) / 2)
    assert ladder(found, (1,), (5, 9)) is None
    # Two rungs, half of the problems of each right in all answers: the standard error of a rung's mean is (1/4 /
    # 100)^.5 = .05, of the mean of two .05 / 2^.5 = .0354. Resampling all problems together would give the same; with
    # rungs at 0 and at 1, which differ in nothing within, it gives Wilson's width for 0 of 200, 3.8415 / 203.84.
    mixed = by_rung([1, 0] * 100, [4] * 100 + [5] * 100, 1, ())
    found = ladder(mixed, (1,))["pass_at"]["1"]
    assert found["value"] == 0.5
    assert (found["high"] - found["low"]) / 2 == pytest.approx(1.96 * 0.0354, rel=0.05)
    apart = by_rung([0] * 100 + [1] * 100, [4] * 100 + [5] * 100, 1, ())
    found = ladder(apart, (1,))["pass_at"]["1"]
    assert (found["low"], found["high"]) == pytest.approx((0.5 - 0.018845 / 2, 0.5 + 0.018845 / 2), abs=1e-6)


def test_held_out_problems_are_equally_many_of_each_rung():
    assert [p.steps for p in held_out_by_rung(DOMAIN, (3, 5, 3), 2)] == [3, 3, 5, 5]
    assert len(held_out_by_rung(DOMAIN, None, 2)) == 18
    with pytest.raises(ConfigError, match=r"`--rungs` has 12, and the rungs of this domain are 1, 2"):
        held_out_by_rung(DOMAIN, (3, 12), 2)
    with pytest.raises(ConfigError, match="no problems by rung"):
        held_out_by_rung(BaseDomain(), None, 2)


def test_changes_by_rung_are_paired_and_rungs_that_nobody_solves_are_one_row_of_the_table():
    """Two problems a rung, one answer each. Rung 4 goes from 0 and 1 right to 1 and 1: +1/2; rung 5 stays at 1/2."""
    rungs = [4, 4, 5, 5, 6, 6]

    def side(correct):
        figures = by_rung(correct, rungs, 1, (1,))
        pass_at = {"1": share_interval([float(c) for c in correct]).to_dict()}
        return {"by_rung": figures, "ladder": ladder(figures, (1,)), "pass_at": pass_at, "correct": correct, "n": 1}

    before, after = side([0, 1, 1, 0, 0, 0]), side([1, 1, 1, 0, 0, 0])
    changes = differences_by_rung(before, after)
    assert {rung: change["1"][0] for rung, change in changes.items()} == pytest.approx(
        {"4": 1 / 2, "5": 0, "6": 0, "ladder": (1 / 2 + 0 + 0) / 3}
    )
    assert changes["4"]["1"][1:] == [0, 1]  # both problems may be drawn twice
    result = {"before": {"prover": before}, "after": {"prover": after}, "difference": {"pass@1": [1 / 6, 0, 0.5]}}
    lines = before_after_table({**result, "difference_by_rung": changes}).splitlines()
    assert [line[: line.index("  ")] for line in lines[2:]] == [
        "prover pass@1", "prover pass@1, rungs 4 to 6", "prover pass@1, rung 4", "prover pass@1, rung 5",
        "prover, rung 6",
    ]  # fmt: skip
    assert "prover pass@1, rungs 4 to 6  0.333" in "\n".join(lines)
    assert differences_by_rung({"correct": [1]}, {"correct": [0]}) == {}


def test_a_training_log_has_the_rungs_and_the_mean_of_those_from_4_to_10():
    """Of two answers each: rung 3 2/2, rung 4 1/2 and 0/2, rung 10 1/2, rung 11 2/2; the ladder is (1/4 + 1/2) / 2."""
    found = pass_by_rung([2, 1, 0, 1, 2], [3, 4, 4, 10, 11], 2, (1, 2))
    ones = {name: value for name, value in found.items() if name.startswith("pass@1/")}
    assert ones == pytest.approx(
        {"pass@1/rung_3": 1, "pass@1/rung_4": 1 / 4, "pass@1/rung_10": 1 / 2, "pass@1/rung_11": 1,
         "pass@1/ladder": 3 / 8}
    )  # fmt: skip
    assert found["pass@2/ladder"] == (1 / 2 + 1) / 2
    for name in found:
        assert "rung" in declaration_of(f"eval_{name}", LOG_METRICS).help
    assert scores_text({f"eval_{name}": value for name, value in ones.items()}) == "pass@1/ladder 0.375"
