"""The Critic-Discernment Game (Wang et al.), in iterations: play, choose each role's samples, retrain, and again.

    python examples/critic_game.py  # about two minutes on a laptop CPU, of which the warm start takes one

A prover answers, a helpful or a misleading critic names a step, and the prover revises; each role keeps what it won.
Online, in rounds of the joint trainer: JointSelfPlayConfig.from_recipe("tiny/cdg"). docs/critic_game.md describes the
game, studies/critic_discernment.py measures it.
"""

from pathlib import Path

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.evaluation import evaluate_prover, load_model
from countdown_selfplay.games import GAMES
from countdown_selfplay.warm_starts import IteratedSelfPlay, IteratedSettings, cdg_start

START = Path("runs/example-cdg-start")


def main(iterations=2, problems=128, warm_start=768):
    # the tiny model does not know the game: demonstrations by the exact solver teach it a little
    # (`countdown-selfplay cdg --prepare` takes four times as many problems, and learns it well)
    cdg_start(START, warm_start, each=1)
    domain = CountdownDomain.tiny()
    held_out = domain.held_out(128)
    settings = IteratedSettings(
        output_dir="runs/example-critic-game",
        iterations=iterations,
        temperature=0.95,
        top_k=0,
        max_completion_length=16,
        per_device_train_batch_size=16,
        role_training={  # over the paper's: which samples are kept, and how the role is retrained on them
            "prover": {"num_generations": 4, "balance": 1000, "learning_rate": 3e-4, "batch_size": 64},
            "helpful": {"num_generations": 8, "learning_rate": 3e-4, "batch_size": 16},
            "misleading": {"num_generations": 4, "learning_rate": 3e-4, "batch_size": 16},
        },
    )
    game = GAMES.make("critic_discernment", {"eta": 0.25, "revisions": 2})
    played = domain.random(problems, 0, frozenset(map(domain.key, held_out)))
    run = IteratedSelfPlay(game, domain, str(START), played, settings)
    run.run(tell=print)  # a line for each phase; called again, it goes on where it was
    for name, t in (("before", 1), ("after", iterations + 1)):
        model, tokenizer = load_model(run.weights("prover", t), "cpu")
        found = evaluate_prover(model, tokenizer, held_out, domain, n=8, ks=(1, 8), max_new_tokens=16)
        print(f"{name}: first answers pass@1 {found.pass_at[1].value:.3f}, pass@8 {found.pass_at[8].value:.3f}")


if __name__ == "__main__":
    main()
