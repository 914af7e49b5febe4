# Tests: warm_starts/iterated/engine.py, warm_starts/iterated/retrain.py, warm_starts/iterated/collecting.py
"""Iterated play on several processes, without starting any: the batches of each, and bad settings."""

import os
from types import SimpleNamespace

import pytest
from tests.unit.evaluation.stairs import Climber, Stair, Stairs, Written, words

from countdown_selfplay import _trl
from countdown_selfplay.distributed.processes import Processes
from countdown_selfplay.errors import ConfigError, MissingExtraError
from countdown_selfplay.evaluation.model import load_model
from countdown_selfplay.evaluation.sampling import prompt_ids, sample_completions
from countdown_selfplay.warm_starts.iterated import IteratedSettings, RoleTraining
from countdown_selfplay.warm_starts.iterated.collecting import CollectingRound, Player
from countdown_selfplay.warm_starts.iterated.engine import VLLMPlay, _launch_kept
from countdown_selfplay.warm_starts.iterated.retrain import shares
from countdown_selfplay.warm_starts.iterated.settings import check_sizes

from .test_driver import DOMAIN, PROBLEMS, driver


class Heard(Processes):
    """One process of several whose others have said nothing."""

    def gather(self, items):
        self.__dict__["made"] = list(items)
        return list(items)


@pytest.mark.parametrize("world", [2, 3, 7])
def test_each_batch_is_generated_on_one_process_and_is_that_of_one_process_alone(world):
    """12 prompts x 3 in batches of 8: 5 batches, the last one of 4; of 7 processes two have nothing to do."""
    model, tokenizer = load_model("tiny", "cpu")
    prompts = [DOMAIN.prove_row(problem)["prompt"] for problem in PROBLEMS]
    how = dict(batch_size=8, seed=3, max_new_tokens=8)
    alone = Heard()
    whole = sample_completions(model, tokenizer, prompts, 3, spread=alone, **how)
    assert whole == sample_completions(model, tokenizer, prompts, 3, **how)
    parts = []
    for rank in range(world):
        one = Heard(rank, world)
        sample_completions(model, tokenizer, prompts, 3, spread=one, **how)
        assert len(one.made) == len(range(rank, 5, world))
        parts += one.made
    assert sorted(parts) == alone.made and [len(batch) for _, batch in alone.made] == [8, 8, 8, 8, 4]


@pytest.mark.parametrize(
    ("size", "rows", "world", "expected"),
    [(32, 4, 8, (4, 1)), (256, 4, 8, (4, 8)), (32, 8, 1, (8, 4)), (32, 8, 16, (2, 1)), (48, 8, 2, (8, 3))],
)
def test_a_step_is_shared_out_evenly(size, rows, world, expected):
    settings = IteratedSettings("run", {"prover": RoleTraining(batch_size=(size,))}, per_device_train_batch_size=rows)
    processes = Processes(0, world)
    check_sizes(settings, world)
    on_device, passes = shares(size, settings, processes)
    assert (on_device, passes) == expected and on_device * passes * world == size


def test_an_engine_that_accelerate_did_not_start_is_refused_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    with pytest.raises(ConfigError, match=r"asked for FSDP and accelerate started DistributedType.NO"):
        driver(tmp_path / "run").run()
    assert not (tmp_path / "run").exists()


def test_an_engine_that_cannot_run_here_is_refused_before_anything_is_played(tmp_path, monkeypatch):
    """Whole weights reach a server over NCCL; and vLLM must be installed."""
    cases = ((False, "vllm", "needs vLLM, which is not"), (True, "vllm_server", "on cpu"))
    for installed, backend, said in (*cases, (False, "vllm_server", "on cpu")):  # nothing is installed in vain
        monkeypatch.setattr(_trl, "vllm_installed", lambda there=installed: there)
        with pytest.raises((ConfigError, MissingExtraError), match=said):
            driver(tmp_path / "run", generation_backend=backend, use_cpu=True).run()
    assert not (tmp_path / "run").exists()


def test_a_run_may_go_on_with_another_sampler():
    """Both draw from one distribution: nothing of the engine is compared on a resume."""
    settings = [IteratedSettings("run", {"prover": RoleTraining()}, **more).to_dict()
                for more in ({}, {"generation_backend": "vllm", "vllm_gpu_memory_utilization": 0.9})]  # fmt: skip
    assert settings[0] == settings[1]


class Together(Processes):
    """One process of two that hold one engine together, after the other was asked for `others`."""

    def gather(self, items):
        self.__dict__["handed"] = list(items)
        return [one for rank in range(self.world) for one in (items if rank == self.rank else self.others.handed)]


def test_processes_that_hold_one_engine_together_lose_no_answer_where_their_number_does_not_divide():
    """3 prompts once each on two processes. TRL's VLLMGeneration (colocate, tensor parallel) samples the prompts of
    both and hands process r the part from r x its own count on, which for 1 and 2 of them loses one. The engine here
    answers with the prompt, so that an answer in another's place shows."""
    player = Player(*load_model("tiny", "cpu"), 1, {})
    prompts = [DOMAIN.prove_row(problem)["prompt"] for problem in PROBLEMS[:3]]
    ranks, asked = [Together(rank, 2) for rank in range(2)], {}
    for one, other in (ranks, ranks[::-1]):
        one.__dict__["others"], one.__dict__["handed"] = other, []

    def play(one):
        def generate(role, mine, images, n):
            asked[one.rank] = mine
            both = [ids for rank in sorted(asked) for ids in asked[rank]]
            first = one.rank * len(mine)
            return mine, both[first : first + len(mine)], None, None

        engine = VLLMPlay(IteratedSettings("run", {"prover": RoleTraining()}), one)
        engine.sampler = SimpleNamespace(begin=lambda role, step: None, generate=generate)
        return [[c.text for c in own] for own in engine.draw("prover", player, prompts, 1, 0, None)]

    for one in ranks:
        play(one)  # so that each knows what the other asks for
    found = [play(one) for one in ranks]
    expected = [[player.tokenizer.decode(prompt_ids(player.tokenizer, p), skip_special_tokens=True)] for p in prompts]
    assert found[0] == found[1] == expected and len(asked[0]) == len(asked[1]) == 2


def test_what_an_engine_changes_of_a_launch_is_as_before_afterwards(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with _launch_kept():
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1"}
    assert os.environ["RANK"] == "1" and "WORLD_SIZE" not in os.environ


def test_a_collected_round_plays_episodes_too_equal_ones_for_equal_keys():
    tokenizer = words()
    moves = {"1 : 2": "up, up, down down", "1 : 1": "up up, up", "2 : 1": "down, up, up"}
    player = Player(Written(tokenizer, moves), tokenizer, 3, {"max_new_tokens": 2})
    round = CollectingRound(Stairs(), {"prover": player}, 0, ("key",))
    problems = [Stair(1, 2), Stair(2, 1)]
    found = round.sample("prover", [Stairs().prove_row(p) for p in problems], problems=problems)
    assert found.texts == ["up\nup up", "up\nup", "down down", "down", "up", "up"]
    assert [v.correct for v in found.verdicts] == [True, True, False, False, True, True]
    assert found.rewards_B.tolist() == [1, 1, 0, 0, 1, 1]
    # Two tokens leave no room for the end: the second move of the first episode and the first of the third.
    assert round.truncated[id(found)] == [True, False, True, False, False, False]
    tokenizer = words()

    def texts(key):
        player = Player(Climber(tokenizer, 0.7), tokenizer, 8, {"max_new_tokens": 2})
        round = CollectingRound(Stairs(), {"prover": player}, 0, (key,))
        return round.sample("prover", [{"prompt": "1 : 9"}], problems=[Stair(1, 9)]).texts

    assert texts("a") == texts("a") != texts("b")
