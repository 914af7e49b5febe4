# Tests: distributed/ddp.py, distributed/sharded.py, training/round.py
"""The probe games on two processes, one launch per engine: they agree, resume and wait for nobody."""

import pytest

from tests.probe_games import TRAINED

from .test_engines import ENGINES
from .two_processes import ranks_of

pytestmark = pytest.mark.distributed

ROUNDS, RESUME_AT = 3, 2
CONFIG = dict(
    max_steps=ROUNDS, save_strategy="steps", save_steps=RESUME_AT, max_grad_norm=1.0, gradient_checkpointing=True
)
TWO_STEPS = {"steps_per_round": 2, "prover_objective": "grpo"}
GAMES = {
    "pool": ("pool", "full", {}), "tiers": ("tiers", "full", {}), "debate": ("debate", "full", {"beta": 0.02}),
    "frozen": ("frozen", "full", {}), "symbolic": ("symbolic", "full", {}), "pool_lora": ("pool", "lora", {}),
    "frozen_lora": ("frozen", "lora", {"beta": 0.02}), "debate_two_steps": ("debate", "full", TWO_STEPS),
}  # fmt: skip


# Each engine meets each game, one and two steps a round, and full and lora weights; nightly plays the other cells.
CELLS = dict.fromkeys(("ddp", "fsdp2"), ("pool", "tiers", "debate_two_steps", "frozen_lora", "symbolic"))
CELLS |= dict.fromkeys(("zero2", "zero3"), ("pool_lora", "tiers", "debate_two_steps", "frozen", "symbolic"))
LAUNCHES = [pytest.param((engine, CELLS[engine]), id=engine) for engine in ENGINES]
for engine in ENGINES:
    rest = tuple(GAMES.keys() - CELLS[engine] | {"tiers"})
    LAUNCHES.append(pytest.param((engine, rest), id=f"{engine}-rest", marks=pytest.mark.nightly))


@pytest.fixture(scope="module", params=LAUNCHES)
def launched(request, tmp_path_factory):
    engine, names = request.param
    job = dict(games={name: GAMES[name] for name in sorted(names)}, resume_at=RESUME_AT, config=CONFIG)
    return engine, ranks_of(engine, "workers:games", tmp_path_factory.mktemp(engine), **job)


def test_processes_agree_learners_move_the_frozen_stay_and_a_resume_is_exact(launched):
    engine, ranks = launched
    for name, played in ranks[0].items():
        game, sharing, _ = GAMES[name]
        own = played["shared"]
        assert own == ranks[1][name]["shared"], name
        assert own["processes"] == 2 and own["engine"] == engine
        assert own["steps"] == ROUNDS, name
        assert own["moved"] == dict.fromkeys(TRAINED[game], True), name
        before, after, count = own["frozen"]
        assert before == after and (count > 0) == (sharing == "lora" or game == "frozen"), name
        assert own["memory"]["frame"]["rounds"] == ROUNDS, name
        assert own["resumed"] == {"weights": own["weights"], "memory": own["memory"]}, name


def test_processes_with_other_numbers_of_rows_or_none_play_the_same_turns(launched):
    """Problems: 4, 3, 2 of the first process and 3, 2, 2 of the second; second answers: 4 times as many. The
    misleading critic has no row on any process in round 1, and none on the second in round 2."""
    _, ranks = launched
    (name,) = ranks[0].keys() & {"debate", "debate_two_steps"}
    rows = [[(index, role, count) for index, role, count, _ in rank[name]["turns"]] for rank in ranks]
    for rank, problems in enumerate(((4, 3, 2), (3, 2, 2))):
        for index, count in enumerate(problems):
            turns = {(role, found) for at, role, found in rows[rank] if at == index}
            helped, misled = 1 + index + 2 * rank, ((2, 0, 2), (3, 0, 0))[rank][index]
            assert turns == {
                ("prover", count), ("prover", 4 * count), ("helpful", helped), ("misleading", misled)
            }  # fmt: skip


def test_a_pool_moves_its_tiers_alike_on_both_processes_by_the_rates_of_both(launched):
    """The paper's rule counted again from what was logged: 3 operands each at first, up above .7, down below .2."""
    _, ranks = launched
    (count, logged), other = (rank["tiers"]["shared"]["tiers"] for rank in ranks)
    assert other == [count, logged] and len(logged) == ROUNDS
    expected = [3, 3]
    for line in logged:
        for tier, rate in enumerate(line):
            if rate is not None:
                expected[tier] = min(max(expected[tier] + (rate > 0.7) - (rate < 0.2), 2), 4)
    assert count == expected


def test_each_process_draws_different_samples(launched):
    _, ranks = launched
    for name in ranks[0]:
        first, second = ([texts for *_, texts in rank[name]["turns"]] for rank in ranks)
        assert len(first) == len(second) and all(a != b or not a for a, b in zip(first, second, strict=True)), name
