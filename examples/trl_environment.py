"""Countdown in TRL's own GRPOTrainer: the model answers by a tool, and the environment's verifier rewards the call.

    python examples/trl_environment.py       # a minute and a half on a laptop CPU

The embedded model writes bare expressions, so its chat template and response template here make each text a call of
`submit`. A model that calls tools (Qwen3, for instance) needs neither: leave out `tokenizer` and `ask`. docs/worlds.md
"""

import functools

from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from countdown_selfplay.countdown import CountdownEnvironment, compact, generate_problems
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC

TEMPLATE = """{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }} {{ m.content }} {% elif m.tool_calls %}\
{{ m.tool_calls[0].function.name }} {{ m.tool_calls[0].function.arguments }} {{ eos_token }} {% else %}\
{{ m.content }} {% endif %}{% endfor %}"""
CALL = {"type": "function", "function": {"name": "submit", "arguments": {"expression": "{content}"}}}
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": " :",
    "fields": {"tool_calls": {"close_pattern": "</s>", "content": "text", "repeats": True, "transform": CALL}},
}


def rows(n, split):
    problems = generate_problems(n, TINY_SPEC, seed=1, split=split)
    prompt = [{"role": "user", "content": ""}]  # the environment appends the question
    return Dataset.from_list([{"prompt": prompt, "numbers": list(p.numbers), "target": p.target} for p in problems])


def main(rounds=40, held_out=64):
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, RESPONSE
    args = GRPOConfig(
        "runs/example-trl-environment",
        per_device_train_batch_size=256,
        per_device_eval_batch_size=128,
        num_generations=8,
        max_completion_length=24,
        max_tool_calling_iterations=1,
        learning_rate=5e-4,
        max_steps=rounds,
        bf16=False,
        save_strategy="no",
        report_to="none",
    )
    trainer = GRPOTrainer(
        str(TINY_MODEL_PATH),
        args=args,
        train_dataset=rows(512, "train"),
        eval_dataset=rows(held_out, "heldout"),
        processing_class=tokenizer,
        environment_factory=functools.partial(CountdownEnvironment, ask=compact),
    )
    before = trainer.evaluate()["eval_reward"]
    trainer.train()
    print(f"Reward on {held_out} held-out problems: {before:.3f} -> {trainer.evaluate()['eval_reward']:.3f}")
    trainer.save_model()


if __name__ == "__main__":
    main()
