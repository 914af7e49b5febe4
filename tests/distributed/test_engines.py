# Tests: distributed/ddp.py, distributed/sharded.py, policies/full.py, policies/lora.py
"""DDP, ZeRO-2, ZeRO-3 and FSDP2 x full, lora and tied, on two real processes; one launch per engine."""

import json

import pytest
import torch
from safetensors.torch import load_file

from tests.distributed.two_processes import ranks_of
from tests.trainer.conftest import After, make_trainer, on_sample, weights
from tests.trainer.test_round import LORA, problems

pytestmark = pytest.mark.distributed

ENGINES, SHARINGS = ("ddp", "zero2", "zero3", "fsdp2"), ("full", "lora", "tied")
SCENARIOS = ("lonely", "flat", "collapse", "lengths")
ROUNDS, RESUME_AT = 4, 3  # two rounds an epoch: the resume is inside the second
# No clip (DeepSpeed's is joint, the others' per role), and an epsilon at which AdamW is smooth: at 1e-8 its first step
# is the gradient's sign, which turns a difference of 1e-9 in a gradient near zero into one of 1e-3 in the weight.
CONFIG = dict(
    max_steps=ROUNDS, save_strategy="steps", save_steps=2, guard=True, novelty_window=3, beta=0.05,
    max_grad_norm=100.0, adam_epsilon=1e-3, gradient_checkpointing=True, seed=8,
)  # fmt: skip


@pytest.fixture(scope="module", params=ENGINES)
def launched(request, tmp_path_factory):
    engine, output = request.param, tmp_path_factory.mktemp(request.param)
    job = dict(sharings=SHARINGS, scenarios=SCENARIOS, resume_at=RESUME_AT, config=CONFIG)
    return engine, output, ranks_of(engine, "engine_worker", output, **job)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_the_engine_is_on_ranks_are_equal_every_role_moves_and_a_resume_is_exact(launched, sharing):
    engine, _, ranks = launched
    own, zero = ranks[0][sharing], ("DEEPSPEED", "DeepSpeedEngine")
    other = {"ddp": ("MULTI_CPU", "DistributedDataParallel"), "fsdp2": ("FSDP", "FSDPModule")}
    kind, wrapped = other.get(engine, zero)
    for rank in ranks:  # or a silent fallback would pass
        assert rank[sharing]["processes"] == 2 and rank[sharing]["distributed_type"].endswith(kind)
        assert wrapped in rank[sharing]["wrapped"] and rank[sharing]["engine"] == engine
        assert (rank[sharing]["sharded"] > 0) == (engine in ("zero3", "fsdp2"))
    assert ranks[0][sharing] == ranks[1][sharing]
    assert all(own["moved"].values()) and len(own["moved"]) == (1 if sharing == "tied" else 2)
    assert own["remembered"]["frame"]["rounds"] == ROUNDS
    # A turn gathers what it samples with; of small models DeepSpeed keeps what the last passes have read.
    alone = any(len(names) < len(own["moved"]) for names in own["whole"])
    assert alone == (engine == "zero3" and sharing == "full")
    assert own["resumed"] == {key: own[key] for key in ("weights", "remembered", "guard")}


@pytest.mark.parametrize("sharing", SHARINGS)
def test_the_updates_are_those_of_one_process_on_the_same_samples(launched, sharing, tmp_path):
    """An independent reference: one process, without any wrapper, plays the two processes' recorded samples."""
    _, output, _ = launched
    recorded = [torch.load(output / sharing / f"rollouts{r}.pt", weights_only=False) for r in (0, 1)]
    expected = torch.load(output / sharing / "weights.pt")
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    config = {**CONFIG, "problems_per_round": 16, "proposals_per_round": 32, "save_strategy": "no", "guard": False}
    config |= {"gradient_checkpointing": False, "mixed_adapters": "off"}
    extra |= {"train_dataset": problems(53).select(range(5, 53)), "eval_dataset": problems(5)}  # the workers' own
    trainer = make_trainer(tmp_path, trainer=extra, policy_sharing=sharing, **config)
    after = replay(trainer, recorded)
    trainer.train()
    assert len(after) == ROUNDS
    for ours, theirs in zip(after, expected["after"], strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            # learning rate 1e-3: a wrong average over processes or a stale gradient would be off by 1e-4 and more
            torch.testing.assert_close(value, theirs[name], rtol=0, atol=2e-6)


def replay(trainer, recorded):
    """Let `trainer` play what two processes sampled; the weights after each round."""
    after, pad = [], trainer.processing_class.pad_token_id
    turns = iter(zip(*recorded, strict=True))

    def join(role, found):
        parts = next(turns)
        assert [part[0] for part in parts] == [role, role]
        found.texts = [text for part in parts for text in part[1]]
        found.rewards_B = torch.cat([part[2] for part in parts])
        found.tensors = {key: together(key, [part[3][key] for part in parts], pad) for key in parts[0][3]}
        if found.verdicts is not None:
            problems = [trainer.domain.problem(row) for row in found.rows for _ in range(found.n)]
            found.verdicts = trainer.domain.verify(found.texts, problems)

    on_sample(trainer, join)
    trainer.add_callback(After(lambda: after.append(weights(trainer))))
    return after


def together(key, tensors, pad):
    """Rows of both processes, padded to one width: prompts on the left, completions on the right."""
    if tensors[0].dim() == 1:
        return torch.cat(tensors)
    width = max(t.size(1) for t in tensors)
    fill = pad if key.endswith("_ids") else 0
    sides = [(width - t.size(1), 0) if key.startswith("prompt") else (0, width - t.size(1)) for t in tensors]
    return torch.cat([torch.nn.functional.pad(t, side, value=fill) for t, side in zip(tensors, sides, strict=True)])


@pytest.mark.parametrize("sharing", SHARINGS)
def test_checkpoints_and_exports_hold_each_policy_as_a_plain_folder(launched, sharing):
    _, output, _ = launched
    after = torch.load(output / sharing / "weights.pt")["after"][-1]
    names = dict.fromkeys(key.split(":")[0] for key in after)
    for name in names:
        for folder in (f"straight/checkpoint-{ROUNDS}", "exported"):
            file = "adapter_model.safetensors" if sharing == "lora" else "model.safetensors"
            held = load_file(output / sharing / folder / name / file)
            own = {key.split(":")[1]: value for key, value in after.items() if key.startswith(f"{name}:")}
            if sharing == "lora":
                own = {key.replace(f".{name}.", "."): value for key, value in own.items()}
            assert held.keys() == own.keys()
            assert all(torch.equal(held[key], value) for key, value in own.items())


def test_a_process_without_valid_proposals_plays_the_other_processes(launched):
    _, _, ranks = launched
    assert ranks[0]["lonely"] == ranks[1]["lonely"]
    assert ranks[0]["lonely"]["step"] == ROUNDS and ranks[0]["lonely"]["remembered"]["archive"]["starved_rounds"] == 0


def test_a_role_with_equal_rewards_everywhere_stays_where_it_is(launched):
    _, _, ranks = launched
    assert ranks[0]["flat"] == ranks[1]["flat"]
    assert ranks[0]["flat"]["moved"] == {"prover": True, "conjecturer": False}
    assert ranks[0]["flat"]["resumed"] == ranks[0]["flat"]["weights"]


def test_a_collapse_is_rolled_back_in_the_same_launch(launched):
    _, output, ranks = launched
    assert ranks[0]["collapse"] == ranks[1]["collapse"]
    record = json.loads((output / "collapse" / "rollbacks.jsonl").read_text())
    assert record["step"] == 3 and record["to"] == "checkpoint-2"
    assert ranks[0]["collapse"]["step"] == ROUNDS and ranks[0]["collapse"]["remembered"]["frame"]["attempt"] == 1


def test_a_process_with_short_answers_waits_for_the_others(launched):
    _, _, ranks = launched
    assert ranks[0]["lengths"] == ranks[1]["lengths"] and ranks[0]["lengths"]["step"] == ROUNDS
