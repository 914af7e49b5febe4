# Tests: worlds/openenv.py, worlds/lm_eval_tasks/__init__.py, worlds/lm_eval_tasks/utils.py
"""TRL's environments, OpenEnv and lm-eval, by the verifier's score of what was answered."""

import functools
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from countdown_selfplay.countdown import (
    CountdownDomain,
    CountdownEnvironment,
    Rules,
    heldout_key,
    problem_from_row,
    solve,
    verify,
)
from countdown_selfplay.countdown.prompts import compact
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.worlds.lm_eval_tasks import TASKS, utils
from countdown_selfplay.worlds.openenv import HeldOutTasks, NoTask, served

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "trl_environment.py"
BARE = Rules(answer_format="bare")


def seen(environment, tool):
    """A class of environments that keep (problem, arguments of the tool, reward) of every episode, and the list."""
    episodes = []

    class Seen(environment):
        def reset(self, **row):
            self._said = []
            return super().reset(**row)

        def get_reward(self):
            episodes.append((self._problem, list(self._said), super().get_reward()))
            return episodes[-1][2]

    @functools.wraps(getattr(environment, tool))
    def called(self, *arguments, **named):
        self._said += [*arguments, *named.values()]
        return getattr(environment, tool)(self, *arguments, **named)

    setattr(Seen, tool, called)
    return Seen, episodes


def test_the_reward_of_the_stock_trainer_is_the_verifiers(tmp_path):
    spec = importlib.util.spec_from_file_location("trl_environment", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
    tokenizer.chat_template, tokenizer.response_template = example.TEMPLATE, example.RESPONSE
    environment, episodes = seen(CountdownEnvironment, "submit")
    args = GRPOConfig(
        str(tmp_path), per_device_train_batch_size=16, num_generations=4, max_completion_length=24, max_steps=1,
        max_tool_calling_iterations=1, logging_steps=1, bf16=False, save_strategy="no", report_to="none", use_cpu=True,
        disable_tqdm=True, gradient_checkpointing=False,
    )  # fmt: skip
    parts = {"processing_class": tokenizer, "environment_factory": functools.partial(environment, ask=compact)}
    trainer = GRPOTrainer(str(TINY_MODEL_PATH), args=args, train_dataset=example.rows(16, "train"), **parts)
    trainer.train()
    assert len(episodes) == 16
    for problem, said, reward in episodes:  # by the verifier's score of the first expression
        assert len(said) <= 1 and reward == (verify(said[0], problem, BARE).score if said else 0.0)
    rewards = [reward for _, _, reward in episodes]
    assert trainer.state.log_history[0]["reward"] == pytest.approx(sum(rewards) / 16)
    assert 1.0 in rewards and min(rewards) < 1.0  # the tiny model solves some of its problems, and not all


HELD_OUT = HeldOutTasks(problems=5, domain=CountdownDomain.tiny())


@pytest.fixture
def openenv(monkeypatch):
    """OpenEnv with its server. Where it is installed without its dependencies (`make test-worlds`), a stand-in has the
    names that it imports of FastMCP, whose tools no task has."""
    pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install openenv==0.10.0")
    try:
        import fastmcp  # noqa: F401
    except ImportError:
        names = {"fastmcp": ["Client", "FastMCP"], "fastmcp.client": [], "fastmcp.client.client": ["CallToolResult"]}
        for name, held in names.items():
            module = ModuleType(name)
            for one in held:
                setattr(module, one, type(one, (), {}))
            monkeypatch.setitem(sys.modules, name, module)
    return pytest.importorskip("openenv.core.env_server", reason="not installed: pip install openenv==0.10.0")


def test_the_tasks_are_the_problems_of_the_held_out_side_and_no_moves(monkeypatch):
    held_out = CountdownDomain.tiny().held_out(5)
    assert HELD_OUT.list_splits() == ["test"] and HELD_OUT.num_tasks("test") == 5
    tasks = HELD_OUT.list_tasks("test")
    assert [problem_from_row(task) for task in tasks] == held_out and all(heldout_key(p.key) for p in held_out)
    assert [task["index"] for task in tasks] == [0, 1, 2, 3, 4] and len({task["id"] for task in tasks}) == 5
    assert HELD_OUT.get_task("test", 3) == tasks[3] and HELD_OUT.get_task_range("test", 1, -1) == tasks[1:4]
    assert tasks == HeldOutTasks(5, CountdownDomain.tiny()).list_tasks("test") and json.dumps(tasks)
    with pytest.raises(ConfigError, match="answered by one expression, and this domain's `answers` are moves"):
        HeldOutTasks(domain=CountdownDomain.ladder())
    monkeypatch.setitem(sys.modules, "openenv.core.env_server", None)
    with pytest.raises(ConfigError, match=r"pip install openenv==0\.10\.0, in an environment without the extra"):
        served(HELD_OUT)


@pytest.mark.parametrize(("split", "index", "said"), [
    ("train", 0, "no split 'train'; the held-out problems are the split 'test'"),
    ("test", 5, "Task 5 of the split 'test' is not there; its tasks are 0 to 4"),
    ("test", -1, "Task -1 of the split 'test' is not there"),
])  # fmt: skip
def test_a_task_that_is_not_there_is_refused(split, index, said):
    with pytest.raises(NoTask, match=said) as error:
        HELD_OUT.get_task(split, index)
    assert isinstance(error.value, IndexError)


def test_the_package_finds_every_method_of_its_protocol(openenv):
    theirs = {name for name in vars(openenv.TaskProvider) if not name.startswith("_")}
    assert theirs == {"list_splits", "list_tasks", "num_tasks", "get_task", "get_task_range"}
    assert all(callable(getattr(HELD_OUT, name)) for name in theirs)


def test_the_package_serves_the_tasks_and_judges_answers(openenv):
    from fastapi.testclient import TestClient

    with TestClient(served(HELD_OUT)) as client:
        assert client.get("/list_environments").json() == ["countdown"]
        assert client.get("/countdown/splits").json() == [{"name": "test", "type": "test"}]
        assert client.post("/countdown/num_tasks", json={"split": "test"}).json() == {"num_tasks": 5}
        own = json.loads(json.dumps(HELD_OUT.list_tasks("test")))
        assert client.post("/countdown/tasks", json={"split": "test"}).json()["tasks"] == own
        assert client.post("/countdown/task", json={"split": "test", "index": 2}).json() == {"task": own[2]}
        ranged = client.post("/countdown/task_range", json={"split": "test", "start": 3, "stop": None}).json()
        assert ranged["tasks"] == own[3:]
        for bad in ({"split": "test", "index": 5}, {"split": "train", "index": 0}):
            assert client.post("/countdown/task", json=bad).status_code == 400
        assert client.post("/reset", json={"index": 1}).json()["observation"]["text"] == own[1]["prompt"]
        with client.websocket_connect("/ws") as session:

            def said(kind, **data):
                session.send_json({"type": kind, "data": data})
                return session.receive_json()["data"]

            for task in HELD_OUT.list_tasks("test"):
                right = solve(problem_from_row(task))
                for text, score in ((right, 1.0), (right + " + 1", 0.1), ("no", 0.0)):
                    assert said("reset", index=task["index"])["observation"]["text"] == task["prompt"]
                    answer = said("step", text=text)
                    assert (answer["reward"], answer["done"]) == (score, True), text
            assert "begins with `reset`" in said("step", text="1")["message"]


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
    verdicts = [verify(one["resps"][0][0], problem_from_row(one["doc"]), BARE) for one in samples]
    result = found["results"]["countdown_tiny"]
    assert result["solved,none"] == pytest.approx(sum(verdict.correct for verdict in verdicts) / 32)
    assert result["score,none"] == pytest.approx(sum(verdict.score for verdict in verdicts) / 32)
    assert 0 < result["solved,none"] < 1
