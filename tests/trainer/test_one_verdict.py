# Tests: training/rollouts.py, rewards/prover/checked.py
"""Every answer is judged once, by the domain, and all who ask get that verdict."""

from collections import Counter

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.testing import CountingDomain

from .conftest import results_of, rounds


def test_the_domain_is_asked_once_per_answer_and_reward_functions_get_the_verdicts(build):
    domain, seen, played = CountingDomain(CountdownDomain.tiny()), [], Counter()

    def reward(completions, verdict, **kwargs):
        seen.append(list(verdict))
        return [1.0 if v.correct else -0.5 for v in verdict]

    trainer = build(max_steps=2, trainer={"domain": domain, "reward_funcs": reward})
    results = results_of(trainer)
    trainer.train()
    for result, verdicts in zip(results, seen, strict=True):
        (turn,) = [turn for turn in result.turns if turn.rollout.role == "prover"]
        assert turn.rollout.verdicts == verdicts
        assert turn.rewards_B.tolist() == [1.0 if v.correct else -0.5 for v in verdicts]
        problems = [domain.key(domain.problem(row)) for row in turn.rollout.rows for _ in range(turn.rollout.n)]
        played.update(zip(turn.rollout.texts, problems, strict=True))
    assert [len(verdicts) for verdicts in seen] == [32, 32] and sum(domain.asked.values()) == 64
    assert domain.asked == played
    for verdicts, line in zip(seen, rounds(trainer.args.output_dir), strict=True):
        assert line["prover/correct_rate"] == sum(v.correct for v in verdicts) / 32
