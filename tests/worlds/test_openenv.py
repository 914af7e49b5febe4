# Tests: worlds/openenv.py
"""The held-out problems as tasks of OpenEnv: by their methods always, and served by the package where it is there."""

import json
import sys
from types import ModuleType

import pytest

from countdown_selfplay.countdown import CountdownDomain, heldout_key, problem_from_row, solve
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.worlds.openenv import HeldOutTasks, NoTask, served

TASKS = HeldOutTasks(problems=5, domain=CountdownDomain.tiny())


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
    assert TASKS.list_splits() == ["test"] and TASKS.num_tasks("test") == 5
    tasks = TASKS.list_tasks("test")
    assert [problem_from_row(task) for task in tasks] == held_out and all(heldout_key(p.key) for p in held_out)
    assert [task["index"] for task in tasks] == [0, 1, 2, 3, 4] and len({task["id"] for task in tasks}) == 5
    assert TASKS.get_task("test", 3) == tasks[3] and TASKS.get_task_range("test", 1, -1) == tasks[1:4]
    assert tasks == HeldOutTasks(5, CountdownDomain.tiny()).list_tasks("test") and json.dumps(tasks)
    with pytest.raises(ConfigError, match="answered by one expression, and this domain's `answers` are moves"):
        HeldOutTasks(domain=CountdownDomain.ladder())
    monkeypatch.setitem(sys.modules, "openenv.core.env_server", None)
    with pytest.raises(ConfigError, match=r"pip install openenv==0\.10\.0, in an environment without the extra"):
        served(TASKS)


@pytest.mark.parametrize(("split", "index", "said"), [
    ("train", 0, "no split 'train'; the held-out problems are the split 'test'"),
    ("test", 5, "Task 5 of the split 'test' is not there; its tasks are 0 to 4"),
    ("test", -1, "Task -1 of the split 'test' is not there"),
])  # fmt: skip
def test_a_task_that_is_not_there_is_refused(split, index, said):
    with pytest.raises(NoTask, match=said) as error:
        TASKS.get_task(split, index)
    assert isinstance(error.value, IndexError)


def test_the_package_finds_every_method_of_its_protocol(openenv):
    theirs = {name for name in vars(openenv.TaskProvider) if not name.startswith("_")}
    assert theirs == {"list_splits", "list_tasks", "num_tasks", "get_task", "get_task_range"}
    assert all(callable(getattr(TASKS, name)) for name in theirs)


def test_the_package_serves_the_tasks_and_judges_answers(openenv):
    from fastapi.testclient import TestClient

    with TestClient(served(TASKS)) as client:
        assert client.get("/list_environments").json() == ["countdown"]
        assert client.get("/countdown/splits").json() == [{"name": "test", "type": "test"}]
        assert client.post("/countdown/num_tasks", json={"split": "test"}).json() == {"num_tasks": 5}
        own = json.loads(json.dumps(TASKS.list_tasks("test")))
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

            for task in TASKS.list_tasks("test"):
                right = solve(problem_from_row(task))
                for text, score in ((right, 1.0), (right + " + 1", 0.1), ("no", 0.0)):
                    assert said("reset", index=task["index"])["observation"]["text"] == task["prompt"]
                    answer = said("step", text=text)
                    assert (answer["reward"], answer["done"]) == (score, True), text
            assert "begins with `reset`" in said("step", text="1")["message"]
