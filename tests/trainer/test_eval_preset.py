# Tests: training/evaluation.py, evaluation/setting.py
"""`eval_preset`: one evaluation setting for all models, in a run's own evaluations and in `eval` of its exports."""

import dataclasses
import json

from countdown_selfplay.cli.eval import parse
from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.evaluation.setting import PRESETS, setting_of
from countdown_selfplay.generation.vllm_sampler import VLLMSampler
from countdown_selfplay.tiny import TINY_SPEC


def test_a_run_is_evaluated_in_the_preset_and_proposals_as_in_training(build, monkeypatch):
    monkeypatch.setitem(PRESETS, "joint_rloo", {**PRESETS["joint_rloo"], "max_new_tokens": 16})  # what the model holds
    trainer = build(eval_preset="joint_rloo", min_p=0.1, conjecturer_temperature=0.7)
    evaluator = trainer.evaluator
    evaluator.context = dataclasses.replace(evaluator.context, stops=lambda role: ["</answer>"])
    found = evaluator.provers(generate_problems(2, TINY_SPEC), 2, ())["prover"]
    said = {name: found.setting[name] for name in ("temperature", "top_p", "top_k", "max_new_tokens", "stop_strings")}
    assert said == {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 16, "stop_strings": []}
    with evaluator.acting_as("conjecturer", None, "proposals") as (_, sampling):
        assert (sampling["temperature"], sampling["top_p"], sampling["min_p"]) == (0.7, 1.0, 0.1)
        assert sampling["stop_strings"] == ["</answer>"]


class Engine(VLLMSampler):
    def __init__(self, turns):
        super().__init__(turns)
        self.pushed, self.calls = [], []

    def push(self, name, role):
        self.pushed.append(name)

    def generate(self, role, prompts, images, n):
        self.calls.append((len(prompts), self.sampling_settings(role), self.context.key()))
        return prompts, [[5, *self.context.ends[:1]] for _ in prompts], None, None


def test_the_engine_of_the_rounds_answers_an_evaluation_as_the_evaluation_asks(build):
    trainer = build(eval_preset="joint_rloo", vllm_tensor_parallel_size=1)
    evaluator, engine = trainer.evaluator, Engine(trainer.sampler.context)
    evaluator.sampler = engine
    found = evaluator.provers(generate_problems(5, TINY_SPEC), 2, (1,), batch_size=4)["prover"]
    assert engine.pushed == ["prover"] * 3 and [count for count, *_ in engine.calls] == [4, 4, 2]
    asked = engine.calls[0][1]
    assert (asked["temperature"], asked["top_k"], asked["max_tokens"], "stop" in asked) == (0.6, 20, 2048, False)
    evaluator.provers(generate_problems(5, TINY_SPEC), 2, (1,), batch_size=4)
    keys = [key for *_, key in engine.calls]  # each batch has draws of its own, and the next evaluation the same ones
    assert len(set(keys)) == 3 and keys[3:] == keys[:3]
    assert found.truncated_rate == 0 and found.correct == [0] * 5
    assert engine.sampling_settings("prover")["temperature"] == 1.0  # of the rounds


def test_eval_follows_the_runs_preset_a_flag_and_a_single_option_in_this_order(build, tmp_path):
    run = tmp_path / "run"
    config = {"eval_preset": "joint_rloo", "temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_completion_length": 512}
    config |= {"prover_stop": ["</answer>"], "min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}}
    spec = {"operands": [3, 4], "number_low": 1, "number_high": 99, "target_low": 10, "target_high": 100}
    prompts = {"prover_prompt": "countdown_3to4", "conjecturer_prompt": "six_shots"}
    for role in ("prover", "conjecturer"):
        (run / role).mkdir(parents=True)
        (run / role / ROLES_FILE).write_text(json.dumps({"roles": [role]}))
    (run / "run.json").write_text(json.dumps({"name": "run", "rules": {}, "config": {**config, **spec, **prompts}}))

    def asked(role, *flags):
        found = setting_of(parse(["--model", str(run / role), "--role", role, *flags])).sampling
        assert found["chat_template_kwargs"] == {"enable_thinking": False}
        return tuple(found[n] for n in ("temperature", "top_p", "top_k", "max_new_tokens", "stop_strings", "min_p"))

    assert asked("prover") == (0.6, 0.95, 20, 2048, [], 0.0)
    assert asked("prover", "--eval_preset", "training") == (1.0, 1.0, 0, 512, ["</answer>"], 0.1)
    assert asked("conjecturer") == (1.0, 1.0, 0, 512, ["</problem>"], 0.1)  # the end of its prompt's format
    assert asked("prover", "--eval_preset", "cdg", "--temperature", "0") == (0.0, 1.0, 10, 8192, [], 0.0)
    assert asked("prover", "--stop_strings", "x", "--min_p", "0.2") == (0.6, 0.95, 20, 2048, ["x"], 0.2)
