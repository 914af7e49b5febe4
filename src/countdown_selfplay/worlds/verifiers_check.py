"""Tasks and rewards of a v1 taskset of verifiers, for worker processes (workers.py); importing this file imports
verifiers. As in verifiers' server and replay, a task is rebuilt from its data (verifiers.v1.serve.server), and scored
on a trace without a runtime (verifiers.v1.cli.replay)."""

import asyncio
import inspect
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import verifiers.v1 as vf  # type: ignore[import-not-found, import-untyped, unused-ignore]
from verifiers.v1.state import state_cls  # type: ignore[import-not-found, import-untyped, unused-ignore]
from verifiers.v1.task import task_key  # type: ignore[import-not-found, import-untyped, unused-ignore]
from verifiers.v1.utils.decorators import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    discover_decorated,
    invoke,
)

OWN_AGENT = "a sandbox or several turns"
_HOOKS = ("setup", "finalize")
"""Hooks of a task before and after an answer; both are called if they need no runtime."""


def built(name: str, config: str) -> Any:
    """Return the taskset of an id with its configuration, a JSON object. Errors of verifiers or the
    taskset are raised."""
    return vf.load_taskset(vf.taskset_config_type(name).model_validate({**json.loads(config), "id": name}))


taskset_of = lru_cache(maxsize=4)(built)


def refusal(name: str, taskset: Any, tasks: list[Any]) -> str:
    """Return why single answers cannot be scored by the tasks alone, or ""."""
    kind = type(taskset).task_type()
    return (
        _of_taskset(name, taskset)
        or _of_rewards(tasks[0])
        or next(filter(None, (_of_task(task, kind) for task in tasks)), "")
    )


def _of_taskset(name: str, taskset: Any) -> str:
    kind, env, harness = type(taskset).task_type(), vf.environment_class(name), vf.default_harness_id(name)
    if env is not vf.SingleAgentEnv:
        return f"its environment {env.__name__} plays several turns"
    if harness == name:
        return f"it brings a harness of its own, a program that needs {OWN_AGENT}"
    if kind.NEEDS_CONTAINER:
        return f"{kind.__name__} needs a container (NEEDS_CONTAINER), which is a sandbox"
    tools = [*kind.toolsets(taskset.config.task), *type(taskset).toolsets(taskset.config)]
    if tools:
        return f"it has tools ({type(tools[0]).__name__}), which take several turns"
    hidden = [field for field, one in kind.data_type().model_fields.items() if one.exclude]
    if hidden:
        return f"{kind.data_type().__name__} leaves {', '.join(hidden)} out of its JSON, and a worker needs all of it"
    return ""


def _of_rewards(task: Any) -> str:
    """Return the task's methods and plugged functions."""
    kind = type(task)
    for name in (*_HOOKS, "stage_verifier"):
        if getattr(kind, name) is not getattr(vf.Task, name) and _needs_runtime(getattr(task, name)):
            return f"`{name}` of {kind.__name__} needs a runtime, which is a sandbox"
    rewards = task.hooks("reward")
    bound = [reward.__name__ for reward in rewards if _needs_runtime(reward)]
    if bound:
        return f"the reward `{bound[0]}` of {kind.__name__} needs a runtime, which is a sandbox"
    if task.config.judges:
        return f"a judge ({task.config.judges[0].id}) rewards its answers, a model that is asked over the network"
    if discover_decorated(task, "intercept"):
        return f"{kind.__name__} changes what is sent to the model (`intercept`), as an agent's program does"
    return "" if rewards else f"{kind.__name__} has no reward (`@vf.reward`)"


def _needs_runtime(function: Any) -> bool:
    parameter = inspect.signature(function).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _of_task(task: Any, kind: Any) -> str:
    data, name = task.data, f"task {task.data.idx}"
    if (type(task), type(data)) != (kind, kind.data_type()):
        return (
            f"{name} is a {type(task).__name__}, and the taskset declares {kind.__name__}, which a worker would build"
        )
    bound = [field for field in ("image", "skills", "artifacts") if getattr(data, field)]
    if bound:
        return f"{name} has `{bound[0]}`, which needs a sandbox"
    if data.prompt is None:
        return f"{name} has no prompt: a user opens the conversation, which takes several turns"
    messages = messages_of(data)
    if messages[-1]["role"] != "user" or any(message["role"] == "tool" for message in messages):
        return f"the prompt of {name} does not end with a user's message, or has results of tools"
    if any(not isinstance(message["content"], str) for message in messages):
        return f"the prompt of {name} has more than text"
    return ""


def messages_of(data: Any) -> list[dict[str, Any]]:
    """Return the prompt as a chat, its system prompt first; content that is not text is unchanged."""
    if isinstance(data.prompt, str):
        messages = [{"role": "user", "content": data.prompt}]
    else:
        messages = [{"role": one.role, "content": _content(one.content)} for one in data.prompt]
    system = data.system_prompt
    return messages if system is None else [{"role": "system", "content": system}, *messages]


def _content(content: Any) -> Any:
    if isinstance(content, str) or content is None or any(part.type != "text" for part in content):
        return content
    return "\n".join(part.text for part in content)


def own_fields(task: Any) -> dict[str, Any]:
    return {name: one for name, one in task.data.model_dump().items() if name not in vf.TaskData.model_fields}


def identity(task: Any) -> str:
    """Return the id of its source, the key that its class makes, or a hash of all but its position."""
    if task.data.id is not None:
        return str(task.data.id)
    if type(task).key is not vf.Task.key:
        return str(task.key)
    return str(task_key(task.data.model_dump(mode="json", exclude_none=True, exclude={"idx"})))[:16]


def check(item: list[Any]) -> float | None:
    """Load [taskset, configuration]; return for [taskset, configuration, data of a task, answer] the weighted sum of
    the rewards."""
    name, config, *rest = item
    if not rest:
        taskset_of(name, config)
        return None
    data, answer = rest
    return scored(_task(name, config, data), answer)


@lru_cache(maxsize=1024)
def _task(name: str, config: str, data: str) -> Any:
    taskset = taskset_of(name, config)
    kind = type(taskset).task_type()
    return kind(kind.data_type().model_validate_json(data), taskset.config.task)


def scored(task: Any, answer: str) -> float:
    """Return the reward of `task.score` for a trace of the prompt and the answer as the model's sample."""
    trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state_cls(type(task))(),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
    )
    asyncio.run(_score(task, trace, answer))
    return float(trace.reward)


async def _score(task: Any, trace: Any, answer: str) -> None:
    before, after = [name if getattr(type(task), name) is not getattr(vf.Task, name) else "" for name in _HOOKS]
    if before:
        await invoke(task.setup, {"trace": trace})
    for message in messages_of(task.data):
        _say(trace, message, sampled=False)
    _say(trace, {"role": "assistant", "content": answer}, sampled=True)
    trace.calls.append(vf.ModelCall(node=len(trace.nodes) - 1, finish_reason="stop"))
    trace.stop("agent_completed")
    if after:
        await invoke(task.finalize, {"trace": trace})
    await task.score(trace)


def _say(trace: Any, message: Mapping[str, Any], sampled: bool) -> None:
    kind = {"system": vf.SystemMessage, "user": vf.UserMessage, "assistant": vf.AssistantMessage}[message["role"]]
    parent = len(trace.nodes) - 1 if trace.nodes else None
    trace.nodes.append(vf.MessageNode(parent=parent, message=kind(content=message["content"]), sampled=sampled))
