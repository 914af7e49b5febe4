"""Self-guided self-play (SGS): for each unsolved target a conjecturer writes a problem that is to help with it, and a
guide scores the problem.

    python examples/sgs.py          # a minute or two on a laptop CPU

docs/sgs.md describes the system. studies/sgs.py measures it on targets that are hard for the prover, which
`countdown-selfplay sgs --prepare` makes; here they are the first problems of three numbers from the generator.
"""

from pathlib import Path

from datasets import Dataset

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.warm_starts import Job, fine_tune

CONJECTURER = Path("runs/example-sgs-conjecturer")


def main(rounds=12, demonstrations=2048):
    if not CONJECTURER.exists():  # the tiny model's proposals ignore a target: `countdown-selfplay sft` teaches it
        few = {"demonstrations": demonstrations, "eval_problems": 0}
        fine_tune([Job(CONJECTURER, "tiny/sft_sgs_conjecturer", few)])
    targets = generate_problems(256, CountdownDomain.tiny().spec, seed=0)
    args = JointSelfPlayConfig.from_recipe(
        "tiny/sgs",
        output_dir="runs/example-sgs",
        max_steps=rounds,
        proposer_kwargs={"batch": 32},  # targets of a round; None: all of them
        guide="rubric",  # the paper's rubric by the domain's rules; judge: a language model; none
        conjecturer_reward_kwargs={"top_of": "between"},
        learning_rate=1e-4,
        save_strategy="no",
        report_to="none",
    )
    trainer = JointConjecturerProverTrainer(
        {"prover": "tiny", "conjecturer": str(CONJECTURER)},
        args=args,
        train_dataset=Dataset.from_list([{"numbers": list(p.numbers), "target": p.target} for p in targets]),
    )
    trainer.train()
    for log in trainer.state.log_history:
        if "round/reward_r_guide" in log:  # of rounds in which a help was solved
            solved, playable = log["round/cumulative_solve_rate"], log["conjecturer/admitted_rate"]
            print(f"targets solved so far {solved:.1%}, of the helps {playable:.0%} playable", end="")
            print(f", their score by the guide {log['round/reward_r_guide']:.1f} of 8")
    trainer.save_model()  # <output_dir>/prover and <output_dir>/conjecturer
    print(f"Report: {trainer.report()}")


if __name__ == "__main__":
    main()
