"""How the default run's setting was chosen: candidates on tuning seeds and tuning problems, scored before and after.

    python benchmarks/choose_default.py pass4_first --seed 102
    python benchmarks/choose_default.py start --temperature 0.8      # the shipped weights, not trained
    python benchmarks/choose_default.py                              # every candidate; about 4 minutes of CPU each

Scored on 32 answers each to the 126 held-out problems with numbers up to 12 that are not among the 512 of the default
evaluation, and to 384 problems of the training side that the run is kept from playing. The table is in
docs/results/default_run.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TUNING, SEEN, ANSWERS = 126, 384, 32


def candidate(objective: str, answers: int = 16, beta: float = 0.1, rate: float = 1e-4, **more: Any) -> dict[str, Any]:
    """Half of the problems fixed and a tent for the conjecturer, unless `more` says otherwise."""
    same: dict[str, Any] = dict(conjecturer_reward="tent", anchor_fraction=0.5, lr_scheduler_type="cosine")
    return same | dict(
        prover_objective=objective, num_generations=answers, prover_beta=beta, prover_learning_rate=rate, **more
    )


CANDIDATES: dict[str, dict[str, Any]] = {
    "start": candidate("rloo", max_steps=0),
    "pass8": candidate("pass_at_k", prover_objective_kwargs={"k": 8}),
    "pass4": candidate("pass_at_k"),
    "pass4_first": candidate("pass_at_k", conjecturer_reward="learnability", anchor_fraction=0.0),
    "pass4_kl2": candidate("pass_at_k", beta=0.2),
    "pass8_fast": candidate("pass_at_k", rate=3e-4, prover_objective_kwargs={"k": 8}),
    "maxrl": candidate("maxrl"),
    "maxrl_kl2_fast": candidate("maxrl", beta=0.2, rate=2e-4),
    "maxrl_32": candidate("maxrl", answers=32),
    "half": candidate("reinforce_half", beta=0.05),
    "half_fast": candidate("reinforce_half", rate=3e-4),
    "expert": candidate("expert_iteration", beta=0.05, prover_objective_kwargs={"solved_limit": 5, "rounds": 3}),
}


def score(name: str, seed: int, temperature: float, folder: str, rounds: int | None) -> dict[str, list[float]]:
    """pass@1, pass@4 and pass@16 on both sets of tuning problems after the candidate's rounds."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for tools/
    import datasets
    import torch
    from tools.make_tiny_model.figures import held_out_problems

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.countdown import generate_problems
    from countdown_selfplay.domains import domain_from, held_out_of
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.tiny import TINY_MODEL_PATH
    from countdown_selfplay.training.rollouts import sampling_as

    torch.set_num_threads(1)
    changes = dict(CANDIDATES[name])
    steps = changes.pop("max_steps", rounds or 200)
    quiet: dict[str, Any] = dict(use_cpu=True, disable_tqdm=True, report_to="none", guard=False, save_strategy="no")
    args = JointSelfPlayConfig.from_recipe(
        "tiny/default", output_dir=folder, seed=seed, max_steps=max(steps, 1), **quiet, **changes
    )
    domain: Any = domain_from(args)
    scored = {domain.key(problem) for problem in held_out_of(domain, 512)}
    tuning = [problem for problem in held_out_problems(domain.spec) if domain.key(problem) not in scored]
    assert len(tuning) == TUNING, len(tuning)
    sets = {"tuning": tuning, "seen": generate_problems(SEEN, domain.spec, seed=7)}
    rows = [{"nums": list(p.numbers), "target": p.target} for problems in sets.values() for p in problems]
    trainer = JointConjecturerProverTrainer(
        str(TINY_MODEL_PATH), args=args, eval_dataset=datasets.Dataset.from_list(rows)
    )
    if steps:
        trainer.train()
    ks, found = (1, 4, 16), {}
    with sampling_as(trainer.engine, "prover"):
        for label, problems in sets.items():
            policy = trainer.policies.module, trainer.processing_class
            result = evaluate_prover(
                *policy, problems, domain, n=ANSWERS, ks=ks, max_new_tokens=16, temperature=temperature
            )
            found[label] = [result.pass_at[k].value for k in ks]
    return found


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"Of {', '.join(CANDIDATES)}; default: all.")
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--temperature", type=float, default=1.0, help="Of the answers that are scored.")
    parser.add_argument("--rounds", type=int, help="Default: 200.")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(CANDIDATES))
    if unknown:
        parser.error(f"unknown candidate {', '.join(unknown)}; choose from {', '.join(CANDIDATES)}")
    for name in options.names or CANDIDATES:
        with tempfile.TemporaryDirectory() as folder:
            found = score(name, options.seed, options.temperature, folder, options.rounds)
        shown = "  ".join(f"{k} " + " ".join(f"{v:.3f}" for v in values) for k, values in found.items())
        print(f"{name} seed {options.seed}: {shown}", flush=True)


if __name__ == "__main__":
    main()
