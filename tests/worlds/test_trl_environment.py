# Tests: countdown/environment.py, examples/trl_environment.py
"""TRL's own GRPOTrainer with `environment_factory`: the tools are called, and what TRL trains on is the verifier's
score of what they were called with. unit/countdown/test_environment.py has the environments without a trainer."""

import functools
import importlib.util
import os
from pathlib import Path

import pytest
from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from countdown_selfplay.countdown import (
    CountdownDomain,
    CountdownEnvironment,
    CountdownMovesEnvironment,
    ProblemSpec,
    Rules,
    generate_problems,
    verify,
)
from countdown_selfplay.countdown.prompts import compact
from countdown_selfplay.tiny import TINY_MODEL_PATH

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "trl_environment.py"
BARE = Rules(answer_format="bare")

CHAT = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.tool_calls %}{{ m.tool_calls[0].function.name }} {{ m.tool_calls[0].function.arguments }}{% else %}\
{{ m.content }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


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


def trained(folder, model, tokenizer, rows, environment, **changes):
    """One step; what TRL logged of it."""
    sizes = {"per_device_train_batch_size": 16, "num_generations": 4, "max_completion_length": 24, **changes}
    args = GRPOConfig(
        str(folder), **sizes, max_steps=1, logging_steps=1, bf16=False, save_strategy="no", report_to="none",
        use_cpu=True, disable_tqdm=True, gradient_checkpointing=False,
    )  # fmt: skip
    parts = {"train_dataset": rows, "processing_class": tokenizer, "environment_factory": environment}
    trainer = GRPOTrainer(str(model), args=args, **parts)
    trainer.train()
    return trainer.state.log_history[0]


def test_the_reward_of_the_stock_trainer_is_the_verifiers(tmp_path):
    spec = importlib.util.spec_from_file_location("trl_environment", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
    tokenizer.chat_template, tokenizer.response_template = example.TEMPLATE, example.RESPONSE
    environment, episodes = seen(CountdownEnvironment, "submit")
    made = functools.partial(environment, ask=compact)
    logged = trained(
        tmp_path, TINY_MODEL_PATH, tokenizer, example.rows(16, "train"), made, max_tool_calling_iterations=1
    )
    assert len(episodes) == 16
    for problem, said, reward in episodes:
        assert len(said) <= 1
        assert reward == submitted_score(problem, said)
    rewards = [reward for _, _, reward in episodes]
    assert logged["reward"] == pytest.approx(sum(rewards) / 16)
    assert 1.0 in rewards and min(rewards) < 1.0  # the tiny model solves some of its problems, and not all


def submitted_score(problem, said):
    """What the verifier says of the first expression."""
    return verify(said[0], problem, BARE).score if said else 0.0


def says(tool, argument):
    """A response template in which every text that ends is a call of the tool."""
    call = {"type": "function", "function": {"name": tool, "arguments": {argument: "{content}"}}}
    calls = {"close_pattern": r"<\|im_end\|>", "content": "text", "repeats": True, "transform": call}
    return {
        "defaults": {"role": "assistant"}, "start_anchor": "<|im_start|>assistant\n", "fields": {"tool_calls": calls},
    }  # fmt: skip


def asked_for_text(problem):
    a, b = problem.numbers[:2]
    return f"Copy this and write nothing else: {a} + {b}"


def asked_for_move(problem):
    a, b = problem.numbers[:2]
    return f"Copy this and write nothing else: {a} + {b} = {a + b}"


def moves_score(problem, said):
    """What the ladder says of an episode of these moves."""
    domain = CountdownDomain.ladder()
    state = domain.begin(problem)
    for move in said:
        (state,) = domain.moved([move], [problem], [state])
        if hasattr(state, "correct"):
            return state.score
    return 0.0


@pytest.mark.slow
@pytest.mark.skipif("SMOLLM2" not in os.environ, reason="SMOLLM2 must name the folder that `models smollm2` makes")
@pytest.mark.parametrize("tool", ["submit", "move"])
def test_smollm2_calls_the_tools_and_earns_what_the_verifier_says(tmp_path, tool):
    """SmolLM2-135M-Instruct knows no tools, so that each text that it ends is a call; nothing is claimed about
    learning."""
    model = os.environ["SMOLLM2"]
    kind, argument, ask = {
        "submit": (CountdownEnvironment, "expression", asked_for_text),
        "move": (CountdownMovesEnvironment, "move", asked_for_move),
    }[tool]
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    tokenizer.chat_template, tokenizer.response_template = CHAT, says(tool, argument)
    environment, episodes = seen(kind, tool)
    problems = generate_problems(2, ProblemSpec((2, 3), 1, 9, 1, 18), seed=1, split="train")
    prompt = [{"role": "user", "content": ""}]
    rows = [{"prompt": prompt, "numbers": list(p.numbers), "target": p.target} for p in problems]
    sizes = {"per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 48, "temperature": 0.5}
    made = functools.partial(environment, ask=ask)
    trained(tmp_path, model, tokenizer, Dataset.from_list(rows), made, **sizes, max_tool_calling_iterations=2)
    assert len(episodes) == 4 and any(said for _, said, _ in episodes)
    for problem, said, reward in episodes:
        expected = moves_score(problem, said) if tool == "move" else submitted_score(problem, said)
        assert reward == expected, (problem, said)
