"""The Critic-Discernment Game on the embedded tiny model: a warm start that knows the game, then the game, or a study.

    python examples/critic_discernment.py                                # two iterations from the warm start
    python examples/critic_discernment.py --training online              # rounds of the joint trainer
    python examples/critic_discernment.py --problems 48 --iterations 1   # any option of `countdown-selfplay cdg`
    python examples/critic_discernment.py --study                        # all arms, 5 seeds: hours on two cores
    python examples/critic_discernment.py --study --quick                # all arms, 1 seed, small: minutes

Arms of the study: the game as in the paper (cdg); expert iteration and Step-DPO on first answers; one critic alone;
DPO on the same play; and rounds of the joint trainer with RLOO (online) and with GRPO's clip (ppo) until as many texts
were sampled as cdg sampled. The retrained arms take as many optimizer steps as cdg. Start the command again and it
goes on where it stopped, phase by phase. Written to --folder: a run folder per arm and seed with what was measured,
`study.md`, `study.json`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from countdown_selfplay.cli import cdg, sft
from countdown_selfplay.cli.countdown_options import flag_value
from countdown_selfplay.cli.main import as_program
from countdown_selfplay.config.recipes import recipes
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.data.run_files import write_atomically
from countdown_selfplay.warm_starts.critiques import critique_demonstrations

WARM_START = Path("runs/tiny-cdg-start")
DEMONSTRATIONS = 12_288  # problems; three rows of each: an answer, a critique, a revision
RECIPE = "tiny/iterated_cdg"
ITERATED: dict[str, list[str]] = {  # arm -> options of `countdown-selfplay cdg`
    "cdg": [],
    "expert_iteration": ["--algorithm", "expert_iteration"],
    "step_dpo": ["--algorithm", "step_dpo"],
    "helpful_only": ["--leave_out", "misleading"],
    "misleading_only": ["--leave_out", "helpful"],
    "dpo": ["--algorithm", "dpo"],
}
PAIRS_RATE = 3e-5  # a tenth of the recipe's, as DPO's 1e-6 is below the paper's 5e-6
ONLINE = {"online": "tiny/cdg", "ppo": "tiny/cdg_ppo"}
FULL = {"seeds": [0, 1, 2, 3, 4], "problems": 512, "tested": 512, "items": 200, "met": 256}
QUICK = {"seeds": [0], "problems": 48, "tested": 64, "items": 20, "met": 24}
SAMPLING = {"temperature": 0.95, "top_k": 10, "max_new_tokens": 16, "batch_size": 1024}  # appendix C.1


def warm_start(folder: Path, demonstrations: int = DEMONSTRATIONS) -> None:
    """Weights that answer, criticise and revise in the game's words: supervised, on what the exact solver makes."""
    domain = CountdownDomain.tiny()
    wider = replace(domain, spec=replace(domain.spec, number_high=20))  # numbers up to 12 have too few problems
    rows = critique_demonstrations(demonstrations, wider)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "demonstrations.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"dataset_name": data, "keep_wrong": "true", "num_train_epochs": 2, "output_dir": folder}
    sft.main([text for name, value in options.items() for text in (f"--{name}", str(value))])


def load(path: str) -> tuple[Any, Any]:
    from countdown_selfplay.evaluation.model import load_model

    return load_model(path, "cpu")


def prepare(root: Path, size: dict[str, Any]) -> None:
    """What all runs are measured by besides the held-out problems: steps of the warm start's solutions."""
    from countdown_selfplay.evaluation.critics.policy import model_policy
    from countdown_selfplay.evaluation.critics.steps import eligible_solutions, write_solutions

    domain = CountdownDomain.tiny()
    policy = model_policy(*load(str(WARM_START)), domain, **SAMPLING)
    if not (root / "steps.jsonl").exists():
        write_solutions(
            root / "steps.jsonl", eligible_solutions(policy, domain, domain.held_out(4 * size["tested"])), domain
        )


def run(task: tuple[str, int, str, dict[str, Any]]) -> None:
    """Train one arm with one seed, or finish what an earlier call began, and measure it."""
    arm, seed, place, size = task
    root, folder = Path(place), Path(place) / arm / f"seed-{seed}"
    if (folder / "figures.json").exists():
        return
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    play = root / "cdg" / f"seed-{seed}"
    if arm in ITERATED:
        options = ["--recipe", RECIPE, "--model_name_or_path", str(WARM_START), "--output_dir", str(folder)]
        options += ["--seed", str(seed), "--problems", str(size["problems"]), "--eval_problems", "0", *ITERATED[arm]]
        if arm.endswith("dpo"):
            options += ["--role_training", json.dumps(on_pairs())]
        cdg.main([*options, *([] if arm == "cdg" else ["--budget_of", str(play)])])
    elif arm in ONLINE:
        from countdown_selfplay.iterated.budget import samples_of

        online(arm, seed, folder, samples_of(play))
    write_atomically(folder / "figures.json", json.dumps(measure(arm, seed, root, size), indent=1) + "\n")
    print(f"{arm:>16} seed {seed}: done", flush=True)


def on_pairs() -> dict[str, Any]:
    """The recipe's `role_training`, with what training on pairs needs."""
    written = yaml.safe_load(recipes("cdg")[RECIPE].read_text(encoding="utf-8"))["role_training"]
    return {kind: {**role, "learning_rate": PAIRS_RATE, "batch_size": 64} for kind, role in written.items()}


def online(arm: str, seed: int, folder: Path, samples: int) -> None:
    """Rounds of the joint trainer until `samples` texts were sampled."""
    from transformers import PrinterCallback, TrainerCallback

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.training.checkpoints import newest

    if (folder / "finished").exists():
        return
    args = JointSelfPlayConfig.from_recipe(
        ONLINE[arm], output_dir=str(folder), seed=seed, max_steps=100_000, use_cpu=True, disable_tqdm=True,
        report_to="none", guard=False, save_total_limit=1,
    )  # fmt: skip

    class Budget(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            round_ended = state.global_step % args.steps_per_round == 0
            control.should_training_stop |= round_ended and trainer.frame.generations >= samples

    trainer = JointConjecturerProverTrainer(str(WARM_START), args=args, callbacks=[Budget()])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    trainer.save_model()
    (folder / "finished").touch()


def measure(arm: str, seed: int, root: Path, size: dict[str, Any]) -> dict[str, Any]:
    """The prover's figures, and for cdg the win rates of all iterations. Without the supervised stage of appendix C.3:
    to check again is the tiny model's revision without a critique, which the warm start taught it."""
    from countdown_selfplay.evaluation.critics.figures import prover_figures
    from countdown_selfplay.evaluation.critics.iterations import Meetings, iterations_of
    from countdown_selfplay.evaluation.critics.policy import model_policy
    from countdown_selfplay.evaluation.critics.self_correction import self_correction
    from countdown_selfplay.evaluation.critics.steps import drawn_items, read_solutions
    from countdown_selfplay.evaluation.critics.win_rates import win_rates
    from countdown_selfplay.games import GAMES

    domain, folder = CountdownDomain.tiny(), root / arm / f"seed-{seed}"
    prover = str(WARM_START) if arm == "start" else iterations_of(folder)[-1].models["prover"]
    problems = domain.held_out(size["tested"])
    items = drawn_items(read_solutions(root / "steps.jsonl", domain), size["items"])
    policy = model_policy(*load(prover), domain, **SAMPLING)
    found = prover_figures(policy, domain, problems, items, seed=seed)
    found["self_correction"] = self_correction(policy, domain, problems, seed=seed)
    if arm == "cdg":
        meetings = Meetings(iterations_of(folder), domain, load, {**SAMPLING, "top_k": 0, "top_p": 0.95}, seed=seed)
        names = [one.name for one in meetings.iterations]
        game = GAMES.make("critic_discernment", {"samples_per_log": 0})
        found["win_rates"] = win_rates(names, names, meetings, game, domain.held_out(size["met"]), seed)
    return found


def tables(root: Path, arms: list[str], seeds: list[int]) -> str:
    """Markdown: each arm's figures, their differences to the warm start's and to cdg's, and who wins against whom."""
    from countdown_selfplay.evaluation.critics.study import FIGURES, arm_table, meeting_table

    found = {arm: [json.loads((root / arm / f"seed-{s}" / "figures.json").read_text()) for s in seeds] for arm in arms}
    values = {arm: {name: [of(one) for one in own] for name, of in FIGURES.items()} for arm, own in found.items()}
    (root / "study.json").write_text(json.dumps(values, indent=1) + "\n")
    parts = [arm_table(values, None), "Difference to the warm start", arm_table(values, "start")]
    if "cdg" in arms:
        parts += [
            "Difference to cdg",
            arm_table(values, "cdg"),
            meeting_table([one["win_rates"] for one in found["cdg"]]),
        ]
    return "\n\n".join(parts) + "\n"


def study(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The study of docs/critic_game.md.")
    parser.add_argument("--folder", type=Path, help="Default: runs/tiny-cdg-study, or runs/tiny-cdg-quick.")
    parser.add_argument(
        "--arms", nargs="+", choices=["start", *ITERATED, *ONLINE], default=["start", *ITERATED, *ONLINE]
    )
    parser.add_argument("--seeds", type=int, nargs="+", help="Default: 0 to 4, with --quick 0.")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help=f"Does everything work? {QUICK}")
    options = parser.parse_args(argv)
    size = QUICK if options.quick else FULL
    seeds = options.seeds or size["seeds"]
    root = options.folder or Path("runs/tiny-cdg-quick" if options.quick else "runs/tiny-cdg-study")
    root.mkdir(parents=True, exist_ok=True)
    prepare(root, size)
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=4) as pool:
        for batch in (["cdg"], [arm for arm in options.arms if arm != "cdg"]):  # the others take cdg's budget
            tasks = [(arm, seed, str(root), size) for seed in seeds for arm in batch if arm in options.arms]
            for _ in pool.imap_unordered(run, tasks):
                pass
    text = tables(root, options.arms, seeds)
    (root / "study.md").write_text(text)
    print(f"\n{text}\nAlso in {root}: study.md and study.json.")
    return 0


def main(argv: list[str]) -> int:
    if not (WARM_START / "model.safetensors").exists():
        warm_start(WARM_START)
    if "--study" in argv:
        return study([word for word in argv if word != "--study"])
    recipe = "tiny/cdg" if flag_value(argv, "--training") == "online" else RECIPE
    return cdg.main(["--recipe", recipe, "--model_name_or_path", str(WARM_START), *argv])


if __name__ == "__main__":
    as_program(main)
