# Tests: contract/game.py, contract/round.py, training/round.py, games/critic_discernment.py, training/losses.py
"""Games that the frame was not written for, by the real trainer: who learns moves, and nobody else."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from countdown_selfplay.contract.metric import declaration_of
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.countdown.critique import CountdownCritique, steps_of
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.losses import RoleLoss
from tests.probe_games import TRAINED, probe

from .conftest import After, equal, goes_on, held, make_trainer, on_sample, ran, rounds, weights
from .test_round import LORA

GAMES = [("pool", "full"), ("pool", "lora"), ("debate", "full"), ("symbolic", "full"), ("frozen", "lora")]
MORE = [("pool", "tied"), ("debate", "lora"), ("frozen", "full"), ("frozen", "tied")]
GAMES = [*map("-".join, GAMES), *(pytest.param("-".join(more), marks=pytest.mark.matrix) for more in MORE)]
SAVING = dict(max_steps=3, save_strategy="steps", save_steps=2, beta=0.02)


def settings(name, sharing="full", **more):
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    return probe(name, policy_sharing=sharing, trainer=extra, **{**SAVING, **more})


def everything(trainer):
    """Every tensor of the module, trained or not."""
    return {name: value.detach().clone() for name, value in trainer.policies.module.state_dict().items()}


@pytest.fixture(scope="module", params=GAMES)
def played(request, tmp_path_factory):
    name, sharing = request.param.split("-")
    output = tmp_path_factory.mktemp(name)
    trainer = make_trainer(output / "straight", **settings(name, sharing))
    seen, start, trained = [], everything(trainer), weights(trainer)
    on_sample(trainer, lambda role, rollout: seen.append((trainer.counts.rounds, role, rollout)))
    trainer.train()
    return name, sharing, trainer, start, trained, seen


def test_every_trained_player_moves_and_nothing_frozen_does(played):
    name, sharing, trainer, start, trained, _ = played
    assert trainer.trained == TRAINED[name]
    after = weights(trainer)
    owners = {trainer.policies.weights_of[player] for player in TRAINED[name]}
    assert set(trainer.policies.weight_names) == owners
    for owner in owners:
        own = [key for key in after if key.startswith(f"{owner}:")]
        moved = [key for key in own if not torch.equal(trained[key], after[key])]
        least = 0.5 if sharing == "lora" else 0.9  # A moves from the second step with a signal on: its gradient is B's
        assert len(moved) >= least * len(own), f"{owner}: {len(moved)} of {len(own)} tensors moved"
    learning = {id(p) for owner in owners for _, p in trainer.policies.named_parameters(owner)}
    frozen = [key for key, p in trainer.policies.module.named_parameters() if id(p) not in learning]
    assert bool(frozen) == (sharing == "lora" or name == "frozen")
    end = everything(trainer)
    assert all(torch.equal(start[key], end[key]) for key in frozen)


def test_a_resume_is_the_straight_run_bit_for_bit(played, tmp_path):
    name, sharing, straight, *_ = played
    again = goes_on(straight, make_trainer(tmp_path / "again", **settings(name, sharing)), 2)
    assert equal(everything(straight), everything(again)) and held(again)["frame"]["rounds"] == 3


def test_every_players_metrics_are_logged_and_declared(played):
    name, _, trainer, *_ = played
    lines = rounds(trainer.args.output_dir)
    declared = trainer.guard.metrics
    for player in TRAINED[name]:
        for metric in ("loss", "signal", "trained_samples", "entropy", "kl", "completion_length"):
            assert any(f"{player}/{metric}" in line for line in lines), f"{player}/{metric}"
    for player in trainer.roles:
        assert any(f"{player}/truncated_rate" in line for line in lines)
        assert (f"{player}/loss" in lines[0]) == (player in TRAINED[name])
    ours = {key for line in lines for key in line if "/" in key and not key.startswith("eval")}
    ours -= {key for key in ours if "/rewards/" in key}  # of reward functions: not known to a round
    assert [key for key in sorted(ours) if declaration_of(key, declared) is None] == []


def test_each_player_is_exported_with_a_card_of_its_own(played, tmp_path):
    name, sharing, trainer, *_ = played
    trainer.save_model(str(tmp_path))
    owners = ["policy"] if sharing == "tied" else [player.replace("/", "_") for player in TRAINED[name]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(owners)
    for owner in owners:
        players = json.loads((tmp_path / owner / ROLES_FILE).read_text())["roles"]
        assert players == (list(TRAINED[name]) if sharing == "tied" else [owner.replace("_", "/")])
        card = (tmp_path / owner / "README.md").read_text()
        assert all(f"| {player}: samples | {trainer.counts.samples[player]} |" in card for player in players)
        weights_file = "adapter_model.safetensors" if sharing == "lora" else "model.safetensors"
        assert (tmp_path / owner / weights_file).is_file()


def test_no_two_turns_draw_the_same_samples(played):
    """Also where they ask the same: the debate's second turn and the pool's second prover in round 0."""
    name, _, _, _, _, seen = played
    turns = [(index, tuple(rollout.texts)) for index, role, rollout in seen if role.startswith("prover")]
    assert len({texts for _, texts in turns}) == len(turns) == (6 if name in ("pool", "debate") else 3)
    if name in ("pool", "debate"):
        (_, first), (_, second), *_ = turns
        assert len(first) == len(second)


def test_a_role_that_has_no_row_in_a_round_is_not_measured_and_not_moved(tmp_path):
    """Round 1: the misleading critic says nothing, so its step has no signal; its weights stay under weight decay and
    KL too. 4, 3, 2 and again 4 problems."""
    trainer = make_trainer(tmp_path, **settings("debate", max_steps=4, save_strategy="no", weight_decay=0.1))
    after = []
    trainer.add_callback(After(lambda: after.append({r: weights(trainer, r) for r in TRAINED["debate"]})))
    trainer.train()
    assert [line["debate/problems"] for line in rounds(tmp_path)] == [4, 3, 2, 4]
    for index, line in enumerate(rounds(tmp_path)):
        silent = index == 1
        assert line["misleading/signal"] == (not silent) and line["misleading/trained_samples"] == 2 * (not silent)
        assert ("misleading/completion_length" in line) == ("misleading/entropy" in line) == (not silent)
        assert line["helpful/trained_samples"] == 1 + index % 3
        # All first answers and as many second ones: problems x 4 x 2.
        assert line["prover/trained_samples"] == line["debate/problems"] * 8
    assert equal(after[0]["misleading"], after[1]["misleading"])
    assert not equal(after[0]["helpful"], after[1]["helpful"])
    assert not equal(after[1]["misleading"], after[2]["misleading"])


class Talkative(CountdownCritique):
    """The shipped weights do not know the game: whatever a critic writes names the answer's first step, and a revision
    of an odd length rejects it."""

    def read_critique(self, text, answer):
        return next((step.text for step in steps_of(answer)), None)

    def rejections(self, text):
        return len(text.split()) % 2


class Game(CountdownDomain):
    critique = property(lambda self: Talkative(self.rules, self.prover_prompt))


CRITIC = {"num_generations": 2}
GAME = dict(
    game="critic_discernment", game_kwargs={"revisions": 2}, problems_per_round=8,
    conjecturer_num_generations=None, num_generations=2,
    roles={"helpful": CRITIC, "misleading": CRITIC}, trainer={"domain": Game.tiny()},
)  # fmt: skip


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    trainer = make_trainer(tmp_path_factory.mktemp("cdg") / "run", **GAME, save_steps=2, save_strategy="steps")
    before = weights(trainer)
    trainer.train()
    return trainer, before


def test_three_roles_learn_from_two_turns(straight):
    trainer, before = straight
    after, lines = weights(trainer), rounds(trainer.args.output_dir)
    for role in ("prover", "helpful", "misleading"):
        moved = [key for key in after if key.startswith(f"{role}:") and not after[key].equal(before[key])]
        # The shipped weights never mend an answer, so that the helpful critic may have nothing to learn from.
        assert bool(moved) == any(line[f"{role}/signal"] for line in lines) == (role != "helpful"), role
    assert len(lines) == 4 and all(0 <= line["helpful/read_rate"] <= 1 for line in lines)
    assert any(line["prover/trained_samples"] > 16 for line in lines)  # 8 x 2 first answers, and revisions
    samples = [json.loads(line) for line in Path(trainer.args.output_dir, "samples.jsonl").read_text().splitlines()]
    assert {sample["role"] for sample in samples} == {"prover", "helpful", "misleading"}
    assert any(sample["prompt"].startswith("again ") for sample in samples)


def test_a_resumed_run_is_the_straight_run(straight, tmp_path):
    goes_on(straight[0], make_trainer(tmp_path / "again", **GAME, save_strategy="no"), 2)


def test_the_supervised_term_reads_rows_that_the_objective_did_not_select(tmp_path, monkeypatch):
    """Appendix B's term, a mean over the tokens of right first answers. REINFORCE^1/2 drops questions of which both
    are right. Their log-probs are taken again row by row, without padding, by the model as transformers loads it: a
    run of one step has its weights still."""
    marked = []
    call = RoleLoss.__call__

    def watched(self, logps, entropies, batch):
        if self.settings.role == "prover":
            for i in batch.get("sft_mask", torch.zeros(1, 1)).any(1).nonzero().flatten().tolist():
                prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
                answer = batch["completion_ids"][i][batch["sft_mask"][i].bool()]
                marked.append((prompt, answer, bool(batch["completion_mask"][i].any())))
        return call(self, logps, entropies, batch)

    monkeypatch.setattr(RoleLoss, "__call__", watched)
    roles = {**GAME["roles"], "prover": {"sft_coef": 0.5, "objective": "reinforce_half"}}
    trainer = ran(make_trainer(tmp_path / "run", **{**GAME, "roles": roles, "max_steps": 1}, save_strategy="no"))
    (line,) = rounds(tmp_path / "run")
    assert {selected for *_, selected in marked} == {True, False}
    assert len(marked) == round(line["prover/correct_rate"] * 16)  # 8 questions x 2 answers
    model, temperature = AutoModelForCausalLM.from_pretrained(TINY_MODEL_PATH), trainer.roles["prover"].temperature
    total = 0.0
    for prompt, answer, _ in marked:
        with torch.no_grad():
            logits = model(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1] / temperature
        total -= float(logits.log_softmax(-1).gather(1, answer[:, None]).sum())
    tokens = sum(len(answer) for _, answer, _ in marked)
    assert line["prover/sft_loss"] == pytest.approx(total / tokens, rel=1e-4)
