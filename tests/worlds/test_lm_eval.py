# Tests: worlds/lm_eval_tasks/__init__.py, worlds/lm_eval_tasks/utils.py
"""The task files of lm-eval: the held-out problems, and the verifier's scores."""

import pytest

from countdown_selfplay.countdown import CountdownDomain, Rules, heldout_key, problem_from_row, verify
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.worlds.lm_eval_tasks import TASKS, utils


def test_the_problems_are_those_of_the_held_out_side():
    ranges = {"operands": [3], "number_high": 12, "target_low": 1, "target_high": 99}
    rows = utils.held_out("compact", 20, ranges)["test"]
    assert [problem_from_row(row) for row in rows] == CountdownDomain.tiny().held_out(20)
    assert all(heldout_key(problem_from_row(row).key) for row in rows)
    assert utils.question(rows[0]) == CountdownDomain.tiny().prove_row(problem_from_row(rows[0]))["prompt"]


def test_answers_are_scored_as_the_prompt_asks_for_them():
    """`tinyzero` wants answer tags, `compact` a bare expression; a solution of the solver is right in both."""
    bare, tagged = (utils.held_out(prompt, 5)["test"][0] for prompt in ("compact", "tinyzero"))
    right = utils.solution(bare)
    assert utils.score(bare, [right]) == {"solved": 1.0, "score": 1.0}
    assert utils.score(tagged, [f"<answer>{right}</answer>"]) == {"solved": 1.0, "score": 1.0}
    assert utils.score(tagged, [right]) == {"solved": 0.0, "score": 0.0}
    assert utils.score(bare, [" + ".join(map(str, bare["numbers"])) + " + 1"]) == {"solved": 0.0, "score": 0.1}


@pytest.mark.slow
def test_lm_eval_runs_the_task_and_its_results_are_the_verifier_s():
    lm_eval = pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install lm_eval==0.4.13")
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(TASKS), include_defaults=False)
    assert {"countdown_tiny", "countdown_3to4"} <= set(manager.all_tasks)
    found = lm_eval.simple_evaluate(
        model="hf", model_args=f"pretrained={TINY_MODEL_PATH},dtype=float32,add_bos_token=True",
        tasks=["countdown_tiny"], task_manager=manager, limit=32, batch_size=32, device="cpu", bootstrap_iters=0,
    )  # fmt: skip
    samples = found["samples"]["countdown_tiny"]
    bare = Rules(answer_format="bare")
    verdicts = [verify(one["resps"][0][0], problem_from_row(one["doc"]), bare) for one in samples]
    result = found["results"]["countdown_tiny"]
    assert result["solved,none"] == pytest.approx(sum(verdict.correct for verdict in verdicts) / 32)
    assert result["score,none"] == pytest.approx(sum(verdict.score for verdict in verdicts) / 32)
    assert 0 < result["solved,none"] < 1
