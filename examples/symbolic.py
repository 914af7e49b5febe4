"""Symbolic proposers (Task Difficulty and Diversity): no conjecturer, a bandit chooses which problems are generated.

    python examples/symbolic.py     # about a minute on a laptop CPU

Every few rounds candidates are drawn from easy, medium and hard regimes, an estimator judges how often the prover
would solve each, and those that fit the selection are kept. docs/symbolic.md describes the proposers, their difficulty
estimators and their selections; studies/symbolic_proposers.py measures them.
"""

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig


def main(rounds=20):
    args = JointSelfPlayConfig.from_recipe(
        "tiny/rloo",
        output_dir="runs/example-symbolic",
        max_steps=rounds,
        proposer="ucb",  # or thompson, factorized, mutation, or an object of your own: ProposeAndSolve(proposer=...)
        proposer_kwargs={
            "candidates": 128,
            "refresh": 5,  # rounds between two draws
            "keep": 32,
            "generated_fraction": 0.5,  # of a round's problems; the others are those of the data
            "difficulty": "rollout",  # answers of the prover itself; predictor: learned from problems' features
            "difficulty_kwargs": {"samples": 4},
            "selection": "top_k",
            "features": 13,
        },
        anchor_fraction=0.5,
        conjecturer_reward="difficulty_diversity",  # logged as the proposer's reward
        conjecturer_reward_kwargs={"low": 0.2, "high": 0.6, "diversity": 0},
        save_strategy="no",
        report_to="none",
    )
    trainer = JointConjecturerProverTrainer("tiny", args=args)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    for k in (1, 16):
        print(f"pass@{k} on held-out problems: {before[f'eval_pass@{k}']:.3f} -> {after[f'eval_pass@{k}']:.3f}")
    for log in trainer.state.log_history:
        if "proposer/score" in log:  # a refresh
            score, diversity = log["proposer/score"], log["proposer/diversity"]
            print(f"mean score of the candidates {score:.2f}, diversity of the selected {diversity:.3f}")
    trainer.save_model()  # <output_dir>/prover
    print(f"Report: {trainer.report()}")


if __name__ == "__main__":
    main()
