# Tests: training/plan.py, training/learners.py, training/losses.py
"""A step's gradient does not depend on its cut: it is that of one pass over all rows, written out here."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.joint_config import joint_config

from countdown_selfplay.objectives import OBJECTIVES, make_objective
from countdown_selfplay.objectives.base import LossInputs, normalise
from countdown_selfplay.training.learners import ReplayQueue
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.plan import REFERENCE, Counts, Planner, Room, Sample, collate, equal_steps

from .test_samples import sample

V, OLD = 11, "old_per_token_logps"
GIVEN = {"output_dir": "runs/none", "per_device_train_batch_size": 8, "use_cpu": True, "prover_num_generations": 4}
GIVEN |= {"prover_max_completion_length": 8, "conjecturer_players": 0}
SETTINGS = {
    "plain": {},
    "regularised": {"prover_beta": 0.05, "prover_entropy_coef": 0.01},  # rows without credit have a gradient
    "imitated": {"prover_sft_coef": 3.0, "prover_demonstrations_per_step": 2},
}
LAYOUTS = [  # processes, in step, mixed, most tokens of a pass
    (1, False, False, 0), (2, False, False, 0), (3, False, False, 40), (2, True, False, 0), (3, True, False, 40),
    (2, False, True, 0),
]  # fmt: skip


def samples_of(objective, seed, moves, demonstrated=False):
    """Four groups of four, of 0 to 6 tokens a row, one of them without credit; behind them two demonstrations."""
    rng = np.random.default_rng(seed)
    rewards = torch.tensor(rng.choice([0.0, 0.5, 1.0], (4, 4)))
    rewards[0], rewards[1] = 0.0, torch.tensor([1.0, 0.0, 0.0, 0.0])
    selected = objective.select(rewards, (rewards == 1).double())
    advantages = (objective.advantages(rewards, (rewards == 1).double()) * selected).flatten().tolist()
    found = []
    for i in range(16 + 2 * demonstrated):
        shown = i >= 16
        for _ in range(1 + moves * int(rng.integers(3))):
            ids, prompt = rng.integers(0, V, rng.integers(7)), rng.integers(0, 5, rng.integers(1, 4))
            logps = {OLD: rng.normal(-2.4, 0.3, len(ids)), REFERENCE: -2 * np.ones(len(ids))}
            credit, trained = (0.0, False) if shown else (advantages[i], bool(selected.flatten()[i]))
            group, taught = -i if shown else i // 4, shown or (demonstrated and i % 3 == 0)
            found.append(
                Sample(prompt, ids, credit, group, -i if shown else i, trained, taught, {} if shown else logps)
            )
    return [s for s in found if s.answer >= 0], [s for s in found if s.answer < 0]


def scored(table, batch):
    """(B, T) log-probs and entropies of a policy that draws each token from the logits of the prompt's last one."""
    logps = table[batch["prompt_ids"][:, -1]].log_softmax(-1)
    entropies = -(logps.exp() * logps).sum(-1, keepdim=True).expand(batch["completion_ids"].shape)
    return logps.gather(1, batch["completion_ids"]), entropies


def in_one_pass(loss, table, samples, moves):
    """The gradient and the loss of all rows in one batch, padded and counted here."""
    width = max(1, *(s.tokens for s in samples))

    def padded(values, kind=torch.long, fill=0):
        return torch.stack([torch.tensor([*own, *[fill] * (width - len(own))], dtype=kind) for own in values])

    trained = [s for s in samples if s.trained]
    batch = {
        "prompt_ids": torch.tensor([[s.prompt[-1]] for s in samples]),
        "completion_ids": padded([s.completion for s in samples]),
        "completion_mask": padded([[int(s.trained)] * s.tokens for s in samples]),
        "sft_mask": padded([[int(s.imitated)] * s.tokens for s in samples]),
        "advantages": torch.tensor([s.advantage for s in samples], dtype=torch.float32),
        "group_tokens": torch.tensor([sum(t.tokens for t in trained if t.group == s.group) for s in samples]),
    }
    for name in (OLD, REFERENCE):
        if any(name in s.logps for s in samples):
            blank = np.nan if name == OLD else 0.0
            batch[name] = padded([s.logps.get(name, [blank] * s.tokens) for s in samples], torch.float64)
    if moves:
        batch["sequence"] = torch.tensor([s.answer for s in samples])
    tokens, taught = sum(s.tokens for s in trained), sum(s.tokens for s in samples if s.imitated)
    counts = Counts(len({s.answer for s in trained}), tokens, len({s.group for s in trained}), taught)
    loss.normalise_by(counts, counts)
    table.grad = None
    loss(*scored(table, batch), batch).backward()
    assert float(table.grad.abs().max()) > 1e-3
    return table.grad.clone(), loss.pop_sums()


def in_passes(losses, tables, made, beside, layout, moves):
    """By role, gradient and loss of a step that is planned for several processes."""
    world, in_step, mixes, tokens = layout
    total = {role: torch.zeros_like(table) for role, table in tables.items()}
    sums = {role: {} for role in tables}
    for rank in range(world):
        room, alone = Room(4, tokens, world=world, in_step=in_step), {role: frozenset({role}) for role in made}
        episodes = frozenset(made if moves else ())
        step = Planner(room, rank, alone, lambda r: losses[r].proportional, episodes, True, mixes).step(made, beside)
        for role, table in tables.items():
            table.grad = None
            losses[role].normalise_by(step.counts[role], step.measured[role])
        for one in step.passes:
            for role, rows in one.parts:
                batch = collate(rows, group_tokens=step.group_tokens[role])
                with torch.set_grad_enabled(one.graph):
                    found = losses[role](*scored(tables[role], batch), batch)
                if one.graph:
                    found.backward()
        for role, table in tables.items():
            total[role] += (0 if table.grad is None else table.grad) / world
            for name, value in losses[role].pop_sums().items():
                sums[role][name] = sums[role].get(name, 0.0) + value / world
    return total, sums


CASES = [(name, "plain", moves) for name in sorted(OBJECTIVES) for moves in (False, True)]
CASES += [(name, "regularised", name == "grpo") for name in ("rloo", "grpo", "cispo", "rest")]
CASES += [("rloo", "imitated", True), ("cispo", "imitated", False)]


@pytest.mark.parametrize("name, how, moves", CASES)
def test_gradients_of_a_steps_passes_are_those_of_one_pass_over_all_its_rows(name, how, moves):
    """Two roles, whose round is two steps that cut groups; lengths from 0, and 1 to 3 moves an episode."""
    settings = joint_config(**GIVEN, **SETTINGS[how]).role("prover")
    torch.manual_seed(0)
    objective = make_objective(name, {"k": 2} if name == "pass_at_k" else {})
    losses = {role: RoleLoss(objective, settings, 3 if moves else 1) for role in "ab"}
    tables = {role: torch.randn(5, V, dtype=torch.float64, requires_grad=True) for role in "ab"}
    cut, beside = {}, {}
    for i, role in enumerate("ab"):
        made, beside[role] = samples_of(objective, i, moves, how == "imitated")
        queue = objective.replay and ReplayQueue(objective.replay, SimpleNamespace(
            beta=0.05, temperature=1.0, role=role, sequences_per_step=0
        ))  # fmt: skip
        cut[role] = queue.steps(made, 0, 2, ("key",)) if queue else equal_steps(made, 2, 5)
    for index in range(2):
        made = {role: own[index] for role, own in cut.items()}
        whole = {role: in_one_pass(losses[role], tables[role], [*made[role], *beside[role]], moves) for role in made}
        for layout in LAYOUTS:
            found, sums = in_passes(losses, tables, made, beside, layout, moves)
            for role, (gradient, one_sums) in whole.items():
                torch.testing.assert_close(found[role], gradient, rtol=0, atol=1e-9)
                for metric in ("loss",) if moves else ("loss", "entropy", "kl"):  # episodes without credit are unread
                    one = one_sums.get(metric, torch.zeros(()))
                    assert float(sums[role].get(metric, 0.0)) == pytest.approx(float(one), abs=1e-9), (layout, metric)


@pytest.mark.parametrize("how, mean", [
    ("sequence", 9.5), ("sequence_mean", 2.5), ("token", 19 / 6), ("group", 8 / 3), ("length_cap", 38 / 32),
])  # fmt: skip
@pytest.mark.parametrize("moves", [1, 2])
@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_means_are_those_by_hand_however_answers_are_dealt(how, mean, moves, world):
    """Four answers of 1, 2, 3 and 6 tokens, each of whose tokens counts 1, 2, 3 and 4: 38 over all, in two groups of
    two, with 5 over 3 tokens and 33 over 9. `length_cap`: 8. With moves the last two are two rows each."""
    lengths = {1: [1], 2: [2], 3: [3], 4: [6]} if moves == 1 else {1: [1], 2: [2], 3: [1, 2], 4: [4, 2]}
    made = [sample(n, tokens, group=n // 3) for n, own in lengths.items() for tokens in own]
    made += [sample(9, 5, 0.0, group=1, trained=False)]  # not selected: in no mean
    total = 0.0
    for rank in range(world):
        roles = {"a": frozenset("a")}
        step = Planner(Room(2, world=world), rank, roles, lambda _: True, frozenset(), True).step({"a": made})
        for one in step.passes:
            batch = collate(one.parts[0][1], group_tokens=step.group_tokens["a"])
            counts, mask = step.counts["a"], batch["completion_mask"].double()
            inputs = LossInputs(
                mask, mask, batch["advantages"], mask, counts.sequences, counts.tokens, counts.groups, length_cap=8,
                group_tokens_B=batch["group_tokens"], sequence_B=batch.get("sequence"),
            )  # fmt: skip
            total += float(normalise(batch["completion_ids"].double(), inputs, how)) / world
    assert total == pytest.approx(mean, rel=1e-12)
