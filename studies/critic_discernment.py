"""The Critic-Discernment Game on the embedded tiny model: a warm start that knows the game, then the game, or a study.

    python studies/critic_discernment.py                                # two iterations from the warm start
    python studies/critic_discernment.py --training online              # rounds of the joint trainer
    python studies/critic_discernment.py --problems 48 --iterations 1   # any option of `countdown-selfplay cdg`
    python studies/critic_discernment.py --warm_start                   # only what `cdg` can start from
    python studies/critic_discernment.py --study                        # all arms, 5 seeds: hours on two cores
    python studies/critic_discernment.py --study --quick                # all arms, 1 seed, small: minutes
    python studies/critic_discernment.py --study --operands 4 --arms start cdg_1 cdg expert_iteration --seeds 0 1 2

Arms of the study: the game as in the paper (cdg) and its first iteration (cdg_1); expert iteration and Step-DPO on
first answers; one critic alone; DPO on the same play; and rounds of the joint trainer with RLOO (online) and with
GRPO's clip (ppo) on the same problems until as many texts were sampled as cdg sampled. The retrained arms take as many
optimizer steps as cdg. Start the command again and it goes on where it stopped, phase by phase. Written to --folder: a
run folder per arm and seed with what was measured, `study.md`, `study.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from many_runs import finish, finished, play_all, run_folder

from countdown_selfplay.cli.commands import TRAINERS
from countdown_selfplay.cli.help import help_text
from countdown_selfplay.cli.main import as_program, program, resolved
from countdown_selfplay.cli.sources import HELP_FLAGS, check_early
from countdown_selfplay.config.recipes import recipes, underscored
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.data.run_files import append_lines, read_lines
from countdown_selfplay.errors import DataError
from countdown_selfplay.warm_starts.cli import cdg
from countdown_selfplay.warm_starts.starts import CDG, CDG_PROBLEMS, Job, cdg_start, fine_tune, made

RECIPE = "tiny/iterated_cdg"
ITERATED: dict[str, list[str]] = {  # arm -> options of `countdown-selfplay cdg`
    "cdg": [],
    "expert_iteration": ["--algorithm", "expert_iteration"],
    "step_dpo": ["--algorithm", "step_dpo"],
    "helpful_only": ["--leave_out", "misleading"],
    "misleading_only": ["--leave_out", "helpful"],
    "dpo": ["--algorithm", "dpo"],
}
PAIRS_RATE = 6e-5  # a fifth of the recipe's, as DPO's 1e-6 is of the paper's 5e-6
ONLINE = {"online": "tiny/cdg", "ppo": "tiny/cdg_ppo"}
OF_STUDY = {"each": 3, "critiques": 1}  # the warm start of the published study
ARMS = ["start", "cdg_1", *ITERATED, *ONLINE]  # start: the warm start; cdg_1: what cdg's first iteration left
# solved: problems whose solutions' steps are judged, of the 638 held-out ones that there are
FULL = {"problems": 512, "tested": 512, "solved": 638, "items": 200, "met": 256, "demonstrations": CDG_PROBLEMS}
FOUR = {"problems": 512, "tested": 256, "solved": 384, "items": 150, "met": 128, "demonstrations": 2048}
OF_FOUR = {"each": 2, "critiques": 3}  # of four numbers, from a prover that knows them: more on critiques
PROVER_OF_FOUR = {"operands": 4, "demonstrations": 40_000, "num_train_epochs": 2, "eval_problems": 256}
QUICK = {"problems": 24, "tested": 48, "solved": 192, "items": 20, "met": 8, "demonstrations": 640}
SAMPLING: dict[str, Any] = {"temperature": 0.95, "top_k": 10, "max_new_tokens": 16, "batch_size": 1024}  # appendix C.1
FIGURES = "figures.json"
NOTE = (
    "Means over training seeds with Student's 95% intervals (one seed: the value alone). All seeds share the warm "
    "start, the held-out problems and the steps, so the intervals hold the noise of training and of sampled answers, "
    "not that of other held-out problems or of another warm start; except that differences of pass@1 and majority "
    "(from two seeds on) have two-level intervals, over seeds and problems."
)


def domain_of(settings: Mapping[str, Any]) -> CountdownDomain:
    """The embedded model's domain with the study's count of numbers."""
    domain = CountdownDomain.tiny()
    return replace(domain, spec=replace(domain.spec, operands=(settings["operands"],)))


def load(path: str) -> tuple[Any, Any]:
    from countdown_selfplay.evaluation.model import load_model

    return load_model(path, "cpu")


def prepare(root: Path, start: Path, settings: Mapping[str, Any]) -> None:
    """What all runs are measured by besides the held-out problems: steps of the warm start's solutions. DataError
    where the folder holds a study of other `settings`."""
    from countdown_selfplay.lab.critics import model_policy
    from countdown_selfplay.lab.critics.error_detection import eligible_solutions, write_solutions

    if finished(root, settings, "prepared.json"):
        return
    domain = domain_of(settings)
    policy = model_policy(*load(str(start)), domain, **SAMPLING)
    problems = domain.held_out(settings["solved"])
    write_solutions(root / "steps.jsonl", eligible_solutions(policy, domain, problems), domain)
    finish(root, {"settings": settings}, "prepared.json")


def run(task: tuple[str, int, str, str, dict[str, Any]]) -> None:
    """Train one arm with one seed, or finish what an earlier call began, and measure it."""
    arm, seed, root, start, settings = task
    folder, play = run_folder(root, arm, seed), run_folder(root, "cdg", seed)
    if finished(folder, settings, FIGURES):
        return
    began = time.process_time()
    if arm in ITERATED:
        options = ["--recipe", RECIPE, "--model_name_or_path", start, "--output_dir", str(folder)]
        options += ["--seed", str(seed), "--problems", str(settings["problems"]), "--eval_problems", "0"]
        options += ["--operands", str(settings["operands"])]
        if arm.endswith("dpo"):
            options += ["--role_training", json.dumps(on_pairs())]
        cdg.main([*options, *ITERATED[arm], *([] if arm == "cdg" else ["--budget_of", str(play)])])
    elif arm in ONLINE:
        from countdown_selfplay.warm_starts.iterated.settings import samples_of

        online(arm, seed, folder, start, samples_of(play), settings)
    trained = time.process_time()
    finish(folder, {**measure(arm, seed, Path(root), start, settings), "settings": settings}, FIGURES)
    spent = f"{trained - began:.0f} CPU s to train, {time.process_time() - trained:.0f} to measure"
    print(f"{arm:>16} seed {seed}: {spent}", flush=True)


def on_pairs() -> dict[str, Any]:
    """The recipe's `role_training`, with what training on pairs needs."""
    written = yaml.safe_load(recipes("cdg")[RECIPE].read_text(encoding="utf-8"))["role_training"]
    return {kind: {**role, "learning_rate": PAIRS_RATE, "batch_size": 64} for kind, role in written.items()}


def online(arm: str, seed: int, folder: Path, start: str, budget: int, settings: Mapping[str, Any]) -> None:
    """Rounds of the joint trainer on the problems of cdg, until `budget` texts were sampled that the token limit did
    not cut, which cdg's count leaves out too."""
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.training.checkpoints import newest

    if (folder / "finished").exists():
        return
    args = JointSelfPlayConfig.from_recipe(
        ONLINE[arm], output_dir=str(folder), seed=seed, max_steps=100_000, use_cpu=True, disable_tqdm=True,
        report_to="none", guard=False, save_total_limit=1, operands=[settings["operands"]],
    )  # fmt: skip

    class Budget(TrainerCallback):
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            self.counts = trainer.counts
            self.counted = dict(self.counts.samples)
            before = {line["step"]: line["whole"] for line in read_lines(folder / "budget.jsonl")}
            self.whole = before.get(self.counts.rounds, 0.0)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            for role, count in self.counts.samples.items():
                cut = trainer.buffer.rounds[-1].get(f"{role}/truncated_rate", 0.0)
                self.whole += (count - self.counted.get(role, 0)) * (1 - cut)
            self.counted = dict(self.counts.samples)
            append_lines(folder / "budget.jsonl", [{"step": self.counts.rounds, "whole": self.whole}])
            control.should_training_stop |= self.whole >= budget

    played = domain_of(settings).random(settings["problems"], seed)
    played *= max(1, 256 // settings["problems"])  # a round draws up to 144: few problems come several times
    rows = Dataset.from_list([{"numbers": list(p.numbers), "target": p.target} for p in played])
    trainer = JointConjecturerProverTrainer(start, args=args, train_dataset=rows, callbacks=[Budget()])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    trainer.save_model()
    (folder / "finished").touch()


def measure(arm: str, seed: int, root: Path, start: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The prover's figures, and for cdg the win rates of all iterations. Without the supervised stage of appendix C.3:
    to check again was taught by the warm start, and what the arm's training leaves of it is measured."""
    from critic_figures import critic_choices, prover_figures
    from critic_tables import kept_weights

    from countdown_selfplay.games import GAMES
    from countdown_selfplay.lab.critics import model_policy
    from countdown_selfplay.lab.critics.error_detection import drawn_items, read_solutions
    from countdown_selfplay.lab.critics.self_correction import self_correction
    from countdown_selfplay.lab.critics.win_rates import Meetings, iterations_of, win_rates

    domain = domain_of(settings)
    own = [] if arm == "start" else iterations_of(run_folder(root, "cdg" if arm == "cdg_1" else arm, seed))
    prover = own[1 if arm == "cdg_1" else -1].models["prover"] if own else start
    problems = domain.held_out(settings["tested"])
    solutions, items = read_solutions(root / "steps.jsonl", domain), []
    try:
        items = drawn_items(solutions, settings["items"])
    except DataError as error:
        print(f"Error detection of {arm}, seed {seed}, is left out: {error}", flush=True)
    policy = model_policy(*load(prover), domain, **SAMPLING)
    found = prover_figures(policy, domain, problems, items, seed=seed)
    found["self_correction"] = self_correction(policy, domain, problems, seed=seed)
    if arm == "cdg":
        meetings = Meetings(own, domain, load, {**SAMPLING, "top_k": 0, "top_p": 0.95}, seed=seed)
        names = [one.name for one in own]
        game = GAMES.make("critic_discernment", {"samples_per_log": 0})
        found["win_rates"] = win_rates(names, names, meetings, game, domain.held_out(settings["met"]), seed)
        found["win_rates"]["kept_weights"] = kept_weights(own)
        found["critics"] = critic_choices(own, domain, load, domain.held_out(settings["met"]), seed, SAMPLING)
        found["rows"] = trained_rows(run_folder(root, arm, seed))
    return found


def trained_rows(folder: Path) -> list[dict[str, Any]]:
    """Of each role in each iteration how many rows it was trained on, and its optimizer steps."""
    lines = [line for line in read_lines(folder / "iterations.jsonl") if line["phase"] == "train"]
    return [{name: value for name, value in line.items() if not isinstance(value, float)} for line in lines]


def figures_of(path: Path) -> dict[str, Any]:
    """What was measured of a run; DataError where it was before values per problem were kept."""
    found: dict[str, Any] = json.loads(path.read_text())
    if "per_problem" not in found:
        raise DataError(f"'{path}' lacks values per problem; remove it, and the study measures the run again.")
    return found


def tables(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> str:
    """Markdown: each arm's figures, their differences to the warm start's and to cdg's, and who wins against whom."""
    from critic_tables import FIGURES as COLUMNS
    from critic_tables import arm_table, meeting_table

    found = {arm: [figures_of(run_folder(root, arm, s) / FIGURES) for s in seeds] for arm in arms}
    values = {arm: {name: [of(one) for one in own] for name, of in COLUMNS.items()} for arm, own in found.items()}
    kept = {
        arm: {name: own for name, own in figures.items() if all(v == v for v in own)}
        for arm, figures in values.items()
    }
    (root / "study.json").write_text(json.dumps(kept, indent=1) + "\n")
    problems = {
        arm: {name: [one["per_problem"][name] for one in own] for name in own[0]["per_problem"]}
        for arm, own in found.items()
    }
    if "cdg" in arms and all("critics" in one for one in found["cdg"]):  # not in older runs
        (root / "critics.json").write_text(json.dumps(of_critics(found, kept)) + "\n")
    parts = [arm_table(values, None), NOTE]
    for control, name in (("start", "the warm start"), ("cdg", "cdg")):
        if control in arms and len(arms) > 1:
            parts += [f"Difference to {name}", arm_table(values, control, problems)]
    if "cdg" in arms:
        parts.append(meeting_table([one["win_rates"] for one in found["cdg"]]))
    return "\n\n".join(parts) + "\n"


def of_critics(
    found: Mapping[str, Sequence[Mapping[str, Any]]], values: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What docs/benchmarks/ holds of a study: rates by problem, figures, and of cdg's critics in each seed what they
    were trained on, how far they differ and who won."""
    from countdown_selfplay.lab.critics.win_rates import matrix_of

    kept = ("pass@1", "majority@8")
    rates = {arm: {name: [[round(v, 3) for v in one["per_problem"][name]] for one in own] for name in kept}
             for arm, own in found.items()}  # fmt: skip
    seeds = found["cdg"]
    won = {rate: [matrix_of(one["win_rates"], rate) for one in seeds] for rate in ("misled", "resisted", "corrected")}
    critics = {"rows": [one["rows"] for one in seeds], "apart": [one["critics"] for one in seeds], "win_rates": won}
    return {"settings": seeds[0]["settings"], "arms": rates, "figures": values, **critics}


def check_budget(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> None:
    """DataError if an arm is measured by cdg's run, and that is neither finished nor going to be."""
    needing = [arm for arm in arms if arm not in ("start", "cdg")]
    for seed in seeds if needing and "cdg" not in arms else ():
        if not (run_folder(root, "cdg", seed) / FIGURES).exists():
            raise DataError(
                f"--arms ({needing[0]}) is measured by the budget of cdg, which is not finished for seed {seed} in "
                f"'{root}'; name cdg among the arms too."
            )


def study(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The study of docs/critic_game.md.")
    parser.add_argument("--folder", type=Path, help="Default: runs/tiny-cdg-study, -four, -quick or -quick-four.")
    parser.add_argument(
        "--operands",
        type=int,
        choices=(3, 4),
        default=3,
        help=f"Numbers of a problem. 4: three steps an answer; {FOUR}",
    )
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--seeds", type=int, nargs="+", help="Default: 0 to 4, with --quick 0.")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help=f"Does everything work? {QUICK}")
    options = parser.parse_args(argv)
    began = time.process_time()
    seeds = options.seeds or ([0] if options.quick else [0, 1, 2, 3, 4])
    four = options.operands == 4
    kind = "quick" if options.quick else "four" if four else "study"
    root = options.folder or Path(f"runs/tiny-cdg-{kind}{'-four' if four and options.quick else ''}")
    size, start = (
        {"quick": QUICK, "four": FOUR, "study": FULL}[kind] | {"operands": options.operands},
        root / "warm_start",
    )
    check_budget(root, options.arms, seeds)
    if four:
        if not made(root / "prover"):
            fine_tune([Job(root / "prover", "tiny/sft_sgs_prover", PROVER_OF_FOUR)])
        cdg_start(start, size["demonstrations"], **OF_FOUR, operands=4, model=str(root / "prover"))
    else:
        cdg_start(start, size["demonstrations"], **OF_STUDY)
    with (start / "model.safetensors").open("rb") as weights:
        settings = {**size, "warm_start": hashlib.file_digest(weights, "sha256").hexdigest()[:12]}
    warm = time.process_time()
    prepare(root, start, settings)
    print(f"Warm start: {warm - began:.0f} CPU s; steps to judge: {time.process_time() - warm:.0f}.", flush=True)
    for batch in (["cdg"], [arm for arm in options.arms if arm != "cdg"]):  # the others take cdg's budget
        arms = [arm for arm in batch if arm in options.arms]
        play_all(run, [(arm, s, str(root), str(start), settings) for s in seeds for arm in arms], options.workers)
    text = tables(root, options.arms, seeds)
    (root / "study.md").write_text(text)
    print(f"\n{text}\nAlso in {root}: study.md and study.json.")
    return 0


def main(argv: list[str]) -> int:
    if "--study" in argv:
        return study([word for word in argv if word != "--study"])
    way, asked = resolved("cdg", [underscored(word) for word in argv if word != "--warm_start"])
    if any(word in HELP_FLAGS for word in asked):
        print(__doc__, help_text(way, "--help_all" in asked), sep="\n", end="")
        return 0
    check_early(way, ["--model_name_or_path", "tiny", *asked])  # before minutes of warm start
    began = time.perf_counter()
    cdg_start()
    if len(asked) < len(argv):
        print(f"{time.perf_counter() - began:.0f} s. Now: countdown-selfplay cdg")
        return 0
    return program(way)(["--recipe", TRAINERS[way].recipe, "--model_name_or_path", str(CDG), *asked])


if __name__ == "__main__":
    as_program(main)
