# Tests: asking.py, evaluation/setting.py, training/evaluation.py
"""Training, a run's evaluations, `eval` and `ask` of its exports put the same question in the same way."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationMixin

from countdown_selfplay.cli.main import main
from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.tiny import TINY_MODEL_PATH
from tests.installed import here

from ..cli.stand_in import DOMAIN, TEMPLATE, make_stand_in

REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE
THINKS = REFUSES + "{% if enable_thinking is defined and not enable_thinking %}EMPTY{% endif %}"
NAMES = (
    "do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "suppress_tokens",
)  # fmt: skip
CHATS = dict(prover_prompt="countdown_3to4", conjecturer_prompt="json", number_high=99, target_low=10)


SMALL = dict(max_steps=1, problems_per_round=2, proposals_per_round=4)
SMALL |= dict(num_generations=2, conjecturer_num_generations=4, max_completion_length=4)


@pytest.fixture
def asked(monkeypatch):
    """What `generate` is called with, of each call: the prompt's last text, the stop strings, and NAMES."""
    seen, stock = [], GenerationMixin.generate

    def generate(self, *args, **given):
        config, criteria = given["generation_config"], given.get("stopping_criteria") or []
        stops = config.stop_strings or [text for one in criteria for text in one.stop_strings]
        row = given["input_ids"][-1].tolist()
        seen.append((row, list(stops), {name: getattr(config, name) for name in NAMES}))
        return stock(self, *args, **given)

    monkeypatch.setattr(GenerationMixin, "generate", generate)
    return seen


@pytest.mark.slow
def test_rollouts_evaluations_eval_and_ask_are_asked_alike(build, asked, tmp_path, capsys):
    make_stand_in(source := tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template = THINKS
    tokenizer.save_pretrained(source)
    settings = dict(temperature=0.7, top_p=0.9, top_k=50, min_p=0.01, prover_stop=["</answer>"])
    settings |= {"chat_template_kwargs": {"enable_thinking": False}, "generation_kwargs": {"suppress_tokens": [5]}}
    trainer = build(model=str(source), num_generations_eval=2, **SMALL, **CHATS, **settings)
    trainer.evaluator.provers(generate_problems(2, DOMAIN.spec), 2, ())
    trainer.train()
    trainer.exports.write(run := Path(trainer.args.output_dir))
    prover = ["--model", str(run / "prover"), "--device", "cpu"]
    output = tmp_path / "x.jsonl"
    assert main(["eval", *prover, "--n_problems", "2", "--samples", "2", "--output", str(output)]) == 0
    assert main(["ask", *prover, "3", "5", "7", "--target", "22", "-n", "2"]) == 0
    assert main(["ask", "--model", str(run / "conjecturer"), "--device", "cpu", "-n", "2"]) == 0
    texts = [tokenizer.decode(row) for row, _, _ in asked]
    assert all(text.endswith("assistant\nEMPTY") and "<|im_start|>system" not in text for text in texts)
    proving = ["Using the numbers" in text for text in texts]
    assert proving.count(True) >= 4 and proving.count(False) >= 2
    expected = dict(zip(NAMES, (True, 0.7, 0.9, 50, 0.01, 1.0, 4, [5]), strict=True))
    for (_, stops, how), own in zip(asked, proving, strict=True):
        assert (stops, how) == (["</answer>"] if own else [], expected)
    record = json.loads(output.read_text().splitlines()[0])
    for name, value in (settings | {"stop_strings": ["</answer>"], "repetition_penalty": 1.0}).items():
        if name != "prover_stop":
            assert record[name] == value, name
    exported = AutoTokenizer.from_pretrained(run / "prover")
    asks = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Well?"}]
    said = exported.apply_chat_template(asks, tokenize=False, add_generation_prompt=True)
    assert said == "<|im_start|>user\nBe brief.\n\nWell?<|im_end|>\n<|im_start|>assistant\nEMPTY"
    card = (run / "prover" / "README.md").read_text()
    assert "temperature=0.7, top_p=0.9, top_k=50, min_p=0.01" in card and "stop_strings=['</answer>']" in card
    assert json.loads((run / "prover" / ROLES_FILE).read_text())["settings"]["prover"]["sampling"]["min_p"] == 0.01


@pytest.mark.parametrize("command", here(["joint --dry_run", "joint", "eval", "ask", "sft"]))
def test_a_broken_template_is_one_sentence_before_a_model_loads(command, tmp_path, capsys, monkeypatch):
    source = str(tmp_path / "model")
    shutil.copytree(TINY_MODEL_PATH, source)
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template = "{{ missing.key }}"
    tokenizer.save_pretrained(source)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *a, **k: pytest.fail("a model loads"))
    run = ["--model_name_or_path", source, "--output_dir", str(tmp_path / "run"), "--use_cpu", "--prover_prompt"]
    run += ["countdown_3to4", "--operands", "3", "--report_to", "none"]
    given = {
        "joint --dry_run": ["joint", "--dry_run", *run, "--conjecturer_prompt", "json"],
        "joint": ["joint", *run, "--conjecturer_prompt", "json", "--save_strategy", "no"],
        "eval": ["eval", "--model", source, "--n_problems", "2", "--device", "cpu"],
        "ask": ["ask", "--model", source, "3", "5", "7", "--target", "22", "--device", "cpu"],
        "sft": ["sft", *run, "--demonstrations", "8", "--eval_problems", "0"],
    }[command]
    assert main(given) == 2
    said = capsys.readouterr().err
    assert "does not render a prompt of the messages system, user: UndefinedError ('missing' is undefined)" in said
    assert "Traceback" not in said
