"""One of several processes under an engine: rounds of hand-made samples, without generation."""

from pathlib import Path

import torch

from countdown_selfplay.training.plan import Sample
from tests.distributed.engine_worker import weights
from tests.trainer.conftest import After, digest, make_trainer

OPTIMIZERS = {
    # A step of rate 1 and no momentum moves by the gradient.
    "sgd": dict(optim="sgd", learning_rate=1.0, max_grad_norm=0.0),
    # At an epsilon of 1e-8 a first step is the gradient's sign. The norms of both players are far below the clip.
    "adamw_torch": dict(adam_epsilon=1e-3, weight_decay=0.1, max_grad_norm=100.0),
}
LOGGED = ("loss", "entropy", "signal", "lr/")


def rows(seed, count, credit=1.0):
    """Samples of 4 to 20 tokens in groups of two."""
    draw = torch.Generator().manual_seed(seed)

    def ids(low, high):
        length = int(torch.randint(low, high, (1,), generator=draw))
        return torch.randint(5, 25, (length,), generator=draw).numpy()

    credits = (0.002 * credit * torch.randn(count, generator=draw)).tolist()
    return [Sample(ids(3, 9), ids(1, 13), credits[i], group=i // 2, answer=i) for i in range(count)]


ROUNDS = {  # of each the optimizer steps of the prover, and of the conjecturer
    "unlike counts of passes": ([rows(1, 9)], [rows(2, 5)]),
    "a process with rows of one role only": ([rows(3, 1)], [rows(4, 7)]),
    "one row": ([[]], [rows(5, 1)]),
    "no row": ([[]], [[]]),
    "a role without signal": ([rows(6, 6)], [rows(7, 6, credit=0.0)]),
    "a role that is through": ([rows(8, 6), rows(9, 4), rows(10, 2)], [rows(11, 5)]),
    "both again": ([rows(12, 8), rows(13, 1)], [rows(14, 3), rows(15, 9)]),
}
STEPS = [(name, i) for name, both in ROUNDS.items() for i in range(max(map(len, both)))]


def play(output, optimizer, **config):
    """The weights after each optimizer step, the first being those at the start, and what each round logged."""
    config |= dict(max_steps=len(ROUNDS), steps_per_round=3, sequences_per_step=8, logging_steps=1)
    trainer = make_trainer(output, **OPTIMIZERS[optimizer], **config)
    loop, after, left = trainer.round_loop, [weights(trainer)], iter(ROUNDS.values())

    def played(anchors):
        loop.counts.rounds += 1
        loop.buffer.rounds.append({})
        cut = dict(zip(("prover", "conjecturer"), next(left), strict=True))
        return loop.planner.steps(cut, {})

    loop.play = played
    see = After(None)
    see.on_optimizer_step = lambda *_, **__: after.append(weights(trainer))
    see.on_step_end = lambda *_, **__: None
    trainer.add_callback(see)
    trainer.train()
    lines = [line for line in trainer.state.log_history if "loss" in line]
    return trainer, after, [{k: v for k, v in line.items() if any(part in k for part in LOGGED)} for line in lines]


def main(output, config):
    found = {}
    for optimizer in OPTIMIZERS:
        trainer, after, lines = play(Path(output) / optimizer, optimizer, **config)
        if trainer.accelerator.process_index == 0:
            torch.save(after, Path(output) / f"{optimizer}.pt")
        kind = {"engine": trainer.engine.name, "processes": trainer.accelerator.num_processes}
        found[optimizer] = {"digests": [digest(one) for one in after], "lines": lines, **kind}
    return found
