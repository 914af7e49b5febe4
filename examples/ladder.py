"""The ladder: a conjecturer writes problems of 3 to 20 numbers, a prover that has seen 2 and 3 answers them in moves.

    python examples/ladder.py       # about a minute on a laptop CPU; 60 rounds, as in recipe tiny/ladder, take three

Here the conjecturer earns a reward of your own, and pass@k is shown by rung, the number of operands. docs/ladder.md
describes the system, studies/ladder.py measures it.
"""

import numpy as np
from datasets import Dataset

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig, summary
from countdown_selfplay.domains import domain_from, held_out_by_rung

RUNGS = [3, 4, 5, 6, 7, 8]


def at_the_edge(solve_rate_P, ctx):
    """(P,) rewards of the playable problems: 1 for one that is solved half of the time, 0 for always and never."""
    return 1 - np.abs(2 * solve_rate_P - 1)


def main(rounds=40, each=32):
    args = JointSelfPlayConfig.from_recipe(
        "tiny/ladder",
        output_dir="runs/example-ladder",
        max_steps=rounds,
        save_strategy="no",
        report_to="none",
    )
    domain = domain_from(args)
    held_out = held_out_by_rung(domain, RUNGS, each)  # as many problems of each number of operands
    trainer = JointConjecturerProverTrainer(
        {"prover": "tiny-ladder", "conjecturer": "tiny-ladder-conjecturer"},
        args=args,
        domain=domain,
        conjecturer_reward=at_the_edge,
        eval_dataset=Dataset.from_list([domain.prove_row(problem) for problem in held_out]),
    )
    trainer.evaluate()  # the first and the last one are the run's before and after
    trainer.train()
    trainer.evaluate()
    trainer.save_model()  # <output_dir>/prover and <output_dir>/conjecturer
    print(summary(args.output_dir))  # what is not healthy, and a table by rung with intervals
    print(f"Report: {trainer.report()}")


if __name__ == "__main__":
    main()
