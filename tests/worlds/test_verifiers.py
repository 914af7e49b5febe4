# Tests: worlds/verifiers.py, worlds/verifiers_check.py
"""`domain: verifiers` on the tasksets of tests/worlds/tasksets, which are found as installed packages are."""

import pickle
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pydantic import Field

from countdown_selfplay.domains import held_out_by_rung, held_out_of, make_domain
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.worlds import workers as pool

vf = pytest.importorskip("verifiers.v1", reason="not installed: pip install 'countdown-selfplay[verifiers]'")
from verifiers.v1 import graph  # noqa: E402
from verifiers.v1.state import state_cls  # noqa: E402

TASKSETS = Path(__file__).parent / "tasksets"
SUMS = {"taskset": "small_sums", "chat": False, "rung_field": "level", "workers": 1, "deadline": 600.0}


@pytest.fixture(autouse=True)
def tasksets(monkeypatch):
    monkeypatch.syspath_prepend(str(TASKSETS))


@pytest.fixture
def domains():
    made = []

    def make(**arguments):
        made.append(make_domain("verifiers", arguments))
        return made[-1]

    yield make
    for domain in made:
        if domain._pool is not None:
            domain._pool.close()


def theirs(taskset, config, answers):
    """(task of `load`, answer) scored on a trace that verifiers' own graph records from a request and its response:
    neither our data, nor our trace, nor a worker."""
    import asyncio

    tasks = list(vf.load_taskset(vf.taskset_config_type(taskset).model_validate({"id": taskset, **config})).take(60))
    found = []
    for place, answer in answers:
        task = tasks[place]
        data = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        agent = vf.AgentInfo(config=vf.AgentConfig())
        trace = vf.Trace(task=data, state=state_cls(type(task))(), agent=agent)
        system = [] if task.data.system_prompt is None else [vf.SystemMessage(content=task.data.system_prompt)]
        asked = task.data.prompt if isinstance(task.data.prompt, list) else [vf.UserMessage(content=task.data.prompt)]
        words = vf.AssistantMessage(content=answer)
        said = vf.Response(id="1", created=0, model="m", message=words, finish_reason="stop")
        graph.prepare_turn(trace, [*system, *asked]).commit(said)

        async def run(task=task, trace=trace):
            if type(task).setup is not vf.Task.setup:
                await task.setup(trace)
            await task.score(trace)

        asyncio.run(run())
        found.append(trace.reward)
    return found


def written(numbers, target):
    """Ten answers: right ones, ones with the right numbers alone, near ones, and text."""
    a, b, c = numbers
    right = (f"{a} + {b} + {c}", f"{a} * {b} + {c}", f"{a} * {b} - {c}")
    return [*right, f"{a} - {b} - {c}", f"{target}", f"{target + 1}", "no idea", "", f"{a} / 0", f"({a}"]


@pytest.mark.slow
def test_scores_equal_theirs_on_400_answers_of_two_tasksets(domains):
    sums = domains(taskset="small_sums")
    near = domains(taskset="near_sums", tasks=60)
    seen = Counter()
    for domain in (sums, near):
        tasks = list(domain._tasks.values())[:20]
        pairs = []
        for place, task in enumerate(tasks):
            *numbers, target = (int(word) for word in task.messages[-1][1].replace("=", " ").replace(":", " ").split())
            pairs += [(place, answer) for answer in written(numbers, target)]
        verdicts = domain.verify([answer for _, answer in pairs], [tasks[place] for place, _ in pairs])
        config = domain.config
        assert [verdict.score for verdict in verdicts] == theirs(domain.taskset, config, pairs)
        assert not any(verdict.unchecked for verdict in verdicts) and len(pairs) == 200
        assert all(verdict.correct == (verdict.score >= 1) for verdict in verdicts)
        seen.update(str(verdict.reason) for verdict in verdicts)
    assert min(seen[reason] for reason in ("correct", "partial", "wrong")) >= 20, seen


@pytest.mark.slow
def test_a_scorer_that_raises_dies_or_returns_no_number_costs_one_answer(domains, caplog):
    domain = domains(taskset="bad_scorer", right=4, workers=2, deadline=600.0)
    tasks = domain.random(7, seed=0)
    answers = ["raise", "die", "nan", "four", "one", "x" * 1_000_000, "print"]
    found = domain.verify(answers, tasks)
    assert [str(one.reason) for one in found] == ["error", "died", "error", "correct", "partial", "correct", "correct"]
    assert [one.score for one in found] == [0, 0, 0, 4, 3, 1_000_000, 5]
    assert [one.unchecked for one in found] == [True, True, True, False, False, False, False]
    assert "raised on 1 of 7 answers" in caplog.text and "ValueError: no" in caplog.text


@pytest.mark.slow
def test_a_scorer_that_hangs_is_killed_at_its_deadline_and_costs_its_answer(domains, monkeypatch, tmp_path):
    """The pool's clock stands still until the scorer hangs, and then shows more than the deadline."""
    domain = domains(taskset="bad_scorer", workers=1, deadline=600.0, right=4)
    task, file = domain.random(1, seed=0)[0], tmp_path / "hangs"
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: 1000.0 if file.exists() else 0.0))
    found = domain.verify(["one", f"hang {file}", "four"], [task] * 3)
    assert [(str(one.reason), one.score) for one in found] == [("partial", 3), ("timed_out", 0), ("correct", 4)]


class Task1(vf.Task):
    @vf.reward
    async def tests_pass(self, trace, runtime) -> float:
        return 1.0


class Said(vf.Task):
    @vf.reward
    async def said(self, trace) -> float:
        return 1.0


class Task2(Said):
    NEEDS_CONTAINER = True


class Task3(Said):
    async def setup(self, trace, runtime):
        await runtime.run(["true"], {})


class Task4(vf.Task):
    pass


class Task5(Said):
    @classmethod
    def toolsets(cls, config):
        return [SimpleNamespace()]


class HiddenData(vf.TaskData):
    answer: str = Field(default="", exclude=True)


class Task6(vf.Task[HiddenData]):
    @vf.reward
    async def said(self, trace) -> float:
        return 1.0


class Task7(Said):
    @vf.intercept
    async def shorten(self, request: vf.Request):
        return None


class Talks(vf.SingleAgentEnv):
    """An environment of the taskset's own."""


class Program(vf.Harness[vf.HarnessConfig]):
    """A harness of the taskset's own."""

    async def launch(self, *args, **kwargs):
        raise NotImplementedError


def module(monkeypatch, name, task, data=None, more=(), count=40):
    """An importable module that exports a taskset of `count` tasks."""
    kind = task.data_type()

    class Made(vf.Taskset[task]):
        def load(self):
            for place in range(count):
                yield task(kind(**{"prompt": f"task {place}", "id": str(place), **(data or {})}), self.config.task)

    found = ModuleType(name)
    found.Made, found.__all__ = Made, ["Made", *(one.__name__ for one in more)]
    found.__spec__ = SimpleNamespace(name=name)
    for one in more:
        setattr(found, one.__name__, one)
    monkeypatch.setitem(sys.modules, name, found)
    return name


@pytest.mark.parametrize(("task", "said"), [
    (Task1, "the reward `tests_pass` of Task1 needs a runtime, which is a sandbox"),
    (Task2, r"Task2 needs a container \(NEEDS_CONTAINER\), which is a sandbox"),
    (Task3, "`setup` of Task3 needs a runtime, which is a sandbox"),
    (Task4, r"Task4 has no reward"),
    (Task5, "it has tools .*, which take several turns"),
    (Task6, "HiddenData leaves answer out of its JSON"),
    (Task7, r"Task7 changes what is sent to the model \(`intercept`\)"),
])  # fmt: skip
def test_tasks_that_one_answer_does_not_decide_are_refused_by_name(monkeypatch, task, said):
    with pytest.raises(ConfigError, match=f"taskset 'unfit_module' cannot be played: {said}"):
        make_domain("verifiers", {"taskset": module(monkeypatch, "unfit_module", task)})


@pytest.mark.parametrize(("data", "said"), [
    ({"image": "python:3.11"}, "task 0 has `image`, which needs a sandbox"),
    ({"prompt": None}, "task 0 has no prompt: a user opens the conversation, which takes several turns"),
    ({"prompt": [vf.AssistantMessage(content="hi")]}, "does not end with a user's message"),
    ({"prompt": [vf.UserMessage(content=[{"type": "image_url", "image_url": {"url": "x"}}])]}, "more than text"),
])  # fmt: skip
def test_data_that_is_more_than_a_question_in_words_is_refused(monkeypatch, data, said):
    with pytest.raises(ConfigError, match=said):
        make_domain("verifiers", {"taskset": module(monkeypatch, "unfit_module", Said, data)})


def test_several_turns_harnesses_and_judges_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match="its environment Talks plays several turns"):
        make_domain("verifiers", {"taskset": module(monkeypatch, "unfit_module", Said, more=[Talks])})
    with pytest.raises(ConfigError, match="it brings a harness of its own, a program that needs a sandbox or several"):
        make_domain("verifiers", {"taskset": module(monkeypatch, "unfit_module", Said, more=[Program])})
    config = {"task": {"judges": [{"id": "reference"}]}}
    with pytest.raises(ConfigError, match=r"a judge \(reference\) rewards its answers, a model .* over the network"):
        make_domain("verifiers", {"taskset": "small_sums", "config": config})


@pytest.mark.parametrize(("changes", "said"), [
    ({"taskset": "smal_sums"}, r"`taskset` \(smal_sums\) is not installed"),
    ({"config": {"cuont": 3}}, "cannot be built .*cuont"),
    ({"config": {"count": "many"}}, "cannot be built .*count"),
    ({"config": {"count": 0}}, "has no tasks"),
    ({"rung_field": "lvl"}, r"`rung_field` \(lvl\) must be a whole number .*whole numbers there: target, level\."),
    ({"held_out_share": 0.0001}, "puts 0 of 60 tasks"),
    ({"held_out_share": 1.0}, "must be a number above 0 and below 1"),
    ({"taskset": "near_sums"}, "makes tasks without end; say with `tasks`"),
    ({"taskset": "json"}, "taskset 'json' cannot be built"),
], ids=str)  # fmt: skip
def test_wrong_settings_are_refused_in_one_sentence(changes, said):
    with pytest.raises(ConfigError, match=said) as error:
        make_domain("verifiers", {"taskset": "small_sums", **changes})
    assert "\n" not in str(error.value)


def test_the_sides_are_of_ids_and_no_question_is_on_both(domains):
    domain = domains(taskset="small_sums", rung_field="level", config={"count": 400})
    larger = domains(taskset="small_sums", rung_field="level", config={"count": 800})
    own = {task.id for task in domain.held_out(10_000)}
    assert 20 <= len(own) <= 80  # a tenth of 400, and those with the same question as one of these
    assert own <= {task.id for task in larger.held_out(10_000)}  # a taskset that grows keeps its held-out tasks
    drawn = domain.random(10_000, seed=1)
    assert {task.id for task in drawn} == {f"sum-{n}" for n in range(400)} - own
    assert not {task.messages for task in drawn} & {task.messages for task in domain.held_out(10_000)}
    assert domain.random(5, 7) == domain.random(5, 7) != domain.random(5, 8)
    assert not {task.id for task in domain.random(10_000, 1, frozenset({"sum-1", "sum-2"}))} & {"sum-1", "sum-2"}
    assert held_out_of(domain, 3) == domain.held_out(3)
    assert domain.rungs == [1, 2]
    assert [domain.rung(task) for task in held_out_by_rung(domain, None, 2)] == [1, 1, 2, 2]
    assert {domain.rung(task) for task in domain.random_of_rung(50, 2, 0, frozenset())} == {2}


def test_a_row_is_read_back_and_an_unknown_id_is_refused(domains):
    domain = domains(**SUMS)
    task = domain.random(1, 0)[0]
    row = domain.prove_row(task)
    assert row == {"prompt": task.messages[0][1], "task_id": task.id} and domain.problem(row) == task
    assert pickle.loads(pickle.dumps(domain)).problem(row) == task
    with pytest.raises(DataError, match=r"row 3, column 'task_id': 'sum-60' is not among the 60 tasks"):
        domain.problem({"task_id": "sum-60"}, 3)
    chat = domains(taskset="near_sums", tasks=40)
    assert [one["role"] for one in chat.prove_row(chat.random(1, 0)[0])["prompt"]] == ["system", "user"]
