"""A pool (Multimodal LLM Self-Play): two conjecturers with a tier each, two provers, all with weights of their own.

    python examples/pool.py         # about a minute on a laptop CPU

Each tier's difficulty, here the number of operands, goes up when the provers solve too much of its problems and down
when they solve too little. docs/pools.md describes the system, studies/pool_expert_iteration.py measures it.
"""

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig


def main(rounds=10):
    args = JointSelfPlayConfig.from_recipe(
        "tiny/pool",
        output_dir="runs/example-pool",
        max_steps=rounds,
        proposer_kwargs={"start": [3, 3], "low": 0.2, "high": 0.7, "floor": 2, "ceiling": 4, "min_valid": 6},
        roles={
            "prover": {
                "players": 2,
                "num_generations": 4,
                "objective": "expert_iteration",
                # one row a player, over the settings above
                "each": [{"temperature": 1.0}, {"temperature": 0.8}],
            },
            "conjecturer": {"players": 2, "num_generations": 32, "objective": "rest"},
        },
        save_strategy="no",
        report_to="none",
    )
    # a mapping by player or by kind; the models that `countdown-selfplay pool --prepare` makes know four operands too
    trainer = JointConjecturerProverTrainer({"prover": "tiny", "conjecturer": "tiny"}, args=args)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    print(f"pass@1 of both provers together: {before['eval_pass@1']:.3f} -> {after['eval_pass@1']:.3f}")
    for log in trainer.state.log_history:
        if "valid_conjecture_rate" in log:
            operands = [int(log[f"tier_{tier}_operand_count"]) for tier in (0, 1)]
            print(f"valid proposals {log['valid_conjecture_rate']:.0%}, operands of the tiers {operands}")
    trainer.save_model()  # <output_dir>/prover/0 and so on
    print(f"Report: {trainer.report()}")


if __name__ == "__main__":
    main()
