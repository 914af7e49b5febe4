"""Joint self-play in one file: a conjecturer writes problems, a prover solves them, RLOO trains both.

    python examples/one_file.py            # 30 rounds of the embedded model, a minute of one CPU core
    python examples/one_file.py --rounds 4 --seed 1

The round of the recipe tiny/default on torch, transformers and this library's Countdown (prompts, parser, exact solver
and verifier) alone, without a trainer. Each comment "library:" names what does that part in a run of
`countdown-selfplay joint`: the file shows what a round is, the library makes it resumable, distributed and measured.
"""

import argparse
import copy
import math
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.tiny import load_tiny_model

PROBLEMS = 16  # slots of a round
ANSWERS = 16  # the prover's samples of a problem
PROPOSALS = 64  # the conjecturer's samples, one group
MAX_NEW_TOKENS = 16
NOVELTY_WINDOW = 20  # rounds in which a problem is not played again
LEARNING_RATE, WARMUP = 1e-4, 10
BETA = {"prover": 0.1, "conjecturer": 0.05}  # weight of the KL to the start
INVALID_REWARD = -1.0


@dataclass
class Sampled:
    """Texts of a policy: prompts and completions as ids (B, L), the mask of real tokens (B, L), the length of the
    padded prompts, and which completion tokens count (B, L - length): those up to the end token, itself included."""

    ids: torch.Tensor
    attention: torch.Tensor
    length: int
    counted: torch.Tensor
    texts: list[str]


def sample(policy, tokenizer, prompts: list[str], n: int) -> Sampled:
    """`n` completions of each prompt at temperature 1. library: generation/, policies/decode.py."""
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    length = batch["input_ids"].shape[1]
    with torch.no_grad():
        ids = policy.generate(
            **batch, do_sample=True, top_k=0, max_new_tokens=MAX_NEW_TOKENS, num_return_sequences=n,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
    is_end = (ids[:, length:] == tokenizer.eos_token_id).long()
    counted = is_end.cumsum(1) - is_end == 0
    attention = torch.cat([batch["attention_mask"].repeat_interleave(n, 0), counted.long()], 1)
    return Sampled(ids, attention, length, counted, tokenizer.batch_decode(ids[:, length:], skip_special_tokens=True))


def log_probs(policy, sampled: Sampled) -> torch.Tensor:
    """Log-prob of each completion token, (B, T). library: policies/forward.py."""
    positions = (sampled.attention.cumsum(1) - 1).clamp(min=0)
    kept = sampled.ids.shape[1] - sampled.length + 1
    logits = policy(
        input_ids=sampled.ids, attention_mask=sampled.attention, position_ids=positions, logits_to_keep=kept
    ).logits
    return -F.cross_entropy(logits[:, :-1].transpose(1, 2), sampled.ids[:, sampled.length :], reduction="none")


def rloo(rewards_PG: torch.Tensor) -> torch.Tensor:
    """Reward less the mean of the other samples of the group, (P, G); 0 where the reward is NaN, which is then no part
    of a mean either. library: objectives/rloo.py."""
    known = ~rewards_PG.isnan()
    value_PG = rewards_PG.nan_to_num()
    others = (known.sum(1, keepdim=True) - 1).clamp(min=1)
    return torch.where(known, value_PG - (value_PG.sum(1, keepdim=True) - value_PG) / others, 0.0)


def train_step(policy, reference, optimizer, sampled: Sampled, advantages_B: torch.Tensor, beta: float) -> None:
    """One optimizer step: REINFORCE with a KL to the start (k3). library: training/losses.py, training/learners.py."""
    logps = log_probs(policy, sampled)
    with torch.no_grad():
        reference_logps = log_probs(reference, sampled)
    gap = reference_logps - logps
    kl_B = ((gap.exp() - gap - 1) * sampled.counted).sum(1)
    loss = (beta * kl_B - advantages_B * (logps * sampled.counted).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()


def admit(domain: CountdownDomain, texts: list[str], recent: set[str]) -> tuple[list[bool], list[int | None], list]:
    """Whether each proposal is a solvable problem, the slot in which it is played (None: in none), and the problems of
    the slots: solvable, not held out, not played lately, each once. library: curriculum/admission.py."""
    problems = [proposal.problem for proposal in domain.parse(texts)]
    checks = iter(domain.check([problem for problem in problems if problem is not None]))
    solvable = [problem is not None and next(checks).reason == "ok" for problem in problems]
    slots: list[int | None] = [None] * len(texts)
    played: dict[str, Problem] = {}
    for i, problem in enumerate(problems):
        if not solvable[i] or domain.is_held_out(problem) or len(played) == PROBLEMS:
            continue
        key = domain.key(problem)
        if key not in recent and key not in played:
            slots[i] = len(played)
            played[key] = problem
    return solvable, slots, list(played.values())


def conjecturer_rewards(solvable: list[bool], slots: list[int | None], solve_rate_P: torch.Tensor) -> torch.Tensor:
    """4 p (1 - p) of a played problem, INVALID_REWARD of one without a solution, NaN where no slot was left,
    (1, PROPOSALS). library: rewards/solve_rate.py, games/propose_and_solve.py."""
    rewards = torch.full((1, len(slots)), math.nan)
    for i, slot in enumerate(slots):
        if slot is not None:
            rewards[0, i] = 4 * solve_rate_P[slot] * (1 - solve_rate_P[slot])
        elif not solvable[i]:
            rewards[0, i] = INVALID_REWARD
    return rewards


def correct(domain: CountdownDomain, texts: list[str], problems: list[Problem], n: int) -> torch.Tensor:
    """The verifier's bit of each answer, (problems, n)."""
    verdicts = domain.verify(texts, [problem for problem in problems for _ in range(n)])
    return torch.tensor([float(verdict.correct) for verdict in verdicts]).view(len(problems), n)


def pass_at(policy, tokenizer, domain: CountdownDomain, held_out: list[Problem], n: int = 4) -> tuple[float, float]:
    """pass@1 and pass@n on held-out problems. library: evaluation/, with intervals."""
    answers = sample(policy, tokenizer, [domain.prove_row(problem)["prompt"] for problem in held_out], n)
    correct_PG = correct(domain, answers.texts, held_out, n)
    return correct_PG.mean().item(), correct_PG.amax(1).mean().item()


def main(argv: list[str] | None = None) -> tuple[tuple[float, float], tuple[float, float]]:
    """Train; pass@1 and pass@4 before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eval_problems", type=int, default=256)
    options = parser.parse_args(argv)
    torch.manual_seed(options.seed)
    domain = CountdownDomain.tiny()
    start, tokenizer = load_tiny_model()
    policies = {role: copy.deepcopy(start) for role in BETA}  # library: policies/, which also shares weights (LoRA)
    optimizers = {role: torch.optim.AdamW(p.parameters(), weight_decay=0.0) for role, p in policies.items()}
    data_set = iter(domain.random(PROBLEMS * options.rounds, options.seed + 1))
    held_out = domain.held_out(options.eval_problems)
    recent: deque[set[str]] = deque(maxlen=NOVELTY_WINDOW)
    before = pass_at(policies["prover"], tokenizer, domain, held_out)
    print("before: pass@1 {:.3f}, pass@4 {:.3f}".format(*before))
    for step in range(options.rounds):
        decay = 0.5 * (1 + math.cos(math.pi * step / options.rounds))
        for optimizer in optimizers.values():
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1, (step + 1) / WARMUP) * decay
        # propose
        proposals = sample(policies["conjecturer"], tokenizer, [domain.propose_row(3)["prompt"]], PROPOSALS)
        solvable, slots, problems = admit(domain, proposals.texts, set().union(*recent))
        conjectured = len(problems)
        problems += [next(data_set) for _ in range(PROBLEMS - conjectured)]  # open slots: fixed problems
        recent.append({domain.key(problem) for problem in problems})
        # solve
        answers = sample(policies["prover"], tokenizer, [domain.prove_row(p)["prompt"] for p in problems], ANSWERS)
        correct_PG = correct(domain, answers.texts, problems, ANSWERS)
        # learn
        credit = {
            "prover": (answers, rloo(correct_PG)),
            "conjecturer": (proposals, rloo(conjecturer_rewards(solvable, slots, correct_PG.mean(1)))),
        }
        for role, (sampled, advantages) in credit.items():
            train_step(policies[role], start, optimizers[role], sampled, advantages.flatten(), BETA[role])
        valid = sum(solvable) / PROPOSALS
        print(f"round {step + 1}: solved {correct_PG.mean():.2f}, solvable {valid:.2f}, played {conjectured}")
    after = pass_at(policies["prover"], tokenizer, domain, held_out)
    print("after: pass@1 {:.3f}, pass@4 {:.3f}".format(*after))
    return before, after


if __name__ == "__main__":
    main()
