# Tests: evaluation/sampling.py, training/parts.py, training/evaluation.py, evaluation/setting.py, asking.py
"""One sampling setting everywhere: a model's own generation_config bends nothing, presets, and equal questions."""

import dataclasses
import functools
import json
import shutil
from pathlib import Path

import pytest
from tokenizers import AddedToken
from tools.make_tiny_model.figures import held_out_problems
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GenerationMixin

from countdown_selfplay.cli.eval import parse
from countdown_selfplay.cli.main import main
from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.evaluation.sampling import demonstration_ids, end_token_ids
from countdown_selfplay.evaluation.setting import PRESETS, setting_of
from countdown_selfplay.generation.vllm_sampler import VLLMSampler
from countdown_selfplay.policies.decode import neutral_generation
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC, load_tiny_model
from tests.installed import here

from ..cli.stand_in import DOMAIN, TEMPLATE, make_stand_in
from .conftest import make_trainer, on_sample
from .test_round import LORA, rows_of

BENT = dict(  # each of them changes what is sampled, or fails, where it is filled in
    do_sample=True, num_beams=2, min_p=0.3, typical_p=0.5, epsilon_cutoff=0.1, repetition_penalty=1.5,
    no_repeat_ngram_size=2, min_new_tokens=10, suppress_tokens=[20], bad_words_ids=[[21]], max_time=1e-4,
    sequence_bias=[[[20], -10.0]], exponential_decay_length_penalty=(2, 1.5), forced_eos_token_id=2, top_k=3,
)  # fmt: skip


def played(build, folder, own, sharing="full", **changes):
    """Texts of one round, pass@1, and the trainer; the model's own generation_config has the fields `own`."""
    model, tokenizer = load_tiny_model()
    for name, value in own.items():
        setattr(model.generation_config, name, value)
    changes = {"num_generations_eval": 4, **changes}
    extra = {"processing_class": tokenizer, "eval_dataset": rows_of(held_out_problems(TINY_SPEC)[:8])}
    extra |= {"peft_config": LORA} if sharing == "lora" else {}
    trainer = build(folder, model=model, policy_sharing=sharing, max_steps=1, trainer=extra, **changes)
    texts = []
    on_sample(trainer, lambda role, found: texts.append(found.texts))
    trainer.train()
    return texts, trainer.evaluate()["eval_pass@1"], trainer


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Texts and pass@1 of a round of a model without settings, in each way of sharing weights."""
    return functools.cache(lambda sharing: played(make_trainer, tmp_path_factory.mktemp(sharing), {}, sharing)[:2])


@pytest.mark.parametrize("sharing", ["full", *(pytest.param(s, marks=pytest.mark.matrix) for s in ("lora", "tied"))])
def test_rollouts_and_evaluation_are_those_of_a_model_without_settings_of_its_own(build, plain, sharing):
    texts, rate, trainer = played(build, "bent", BENT, sharing)
    assert (texts, rate) == plain(sharing)
    config = trainer.policies.module.generation_config
    assert {name: getattr(config, name) for name in BENT} == BENT


def test_a_setting_of_the_run_acts_on_purpose(build, plain):
    plain_texts, _ = plain("full")
    assert played(build, "field", {}, min_p=0.3)[0] != plain_texts
    assert played(build, "kwargs", {}, generation_kwargs={"suppress_tokens": [20]})[0] != plain_texts


def test_exports_hold_the_models_own_settings(build):
    _, _, trainer = played(build, "run", {"repetition_penalty": 1.5, "do_sample": True, "min_p": 0.3})
    for folder in trainer.exports.write(Path(trainer.args.output_dir) / "exports"):
        saved = json.loads((folder / "generation_config.json").read_text())
        assert (saved["repetition_penalty"], saved["min_p"], saved["do_sample"]) == (1.5, 0.3, True)


def test_the_settings_are_back_after_an_error():
    class Model:
        generation_config = GenerationConfig(min_p=0.3, eos_token_id=[2, 5], pad_token_id=0, mine="custom")

    before = Model.generation_config.to_dict()
    with pytest.raises(KeyError), neutral_generation(Model):
        config = Model.generation_config
        assert (config.min_p, config.eos_token_id, config.pad_token_id) == (None, [2, 5], 0)
        assert not hasattr(config, "mine")
        raise KeyError
    assert Model.generation_config.to_dict() == before


CHAT = {"prover_prompt": "countdown_3to4", "conjecturer_prompt": "json", "max_completion_length": 8}


def chat_tokenizer(special):
    """The tiny tokenizer with a chat template whose turns end with an added token, as in Llama 3: its end of text is
    another token, and `special` is said of the added token alone."""
    model, tokenizer = load_tiny_model()
    tokenizer.add_tokens([AddedToken("<|turn_end|>", special=special)])
    model.resize_token_embeddings(len(tokenizer))
    tokenizer.chat_template = "{% for m in messages %} {{ m.content }} <|turn_end|>{% endfor %}"
    return model, tokenizer, tokenizer.convert_tokens_to_ids("<|turn_end|>")


def test_an_end_of_turn_that_is_only_a_special_added_token_ends_every_text(build):
    model, tokenizer, turn = chat_tokenizer(special=True)
    assert turn not in tokenizer.all_special_ids  # the case at hand
    taught = demonstration_ids(tokenizer, [{"role": "user", "content": "1"}], [{"role": "assistant", "content": "2"}])
    assert taught["labels"][-1] == turn
    assert end_token_ids(model, tokenizer, chat=True) == [tokenizer.eos_token_id, turn]
    trainer = build(model=model, trainer={"processing_class": tokenizer}, **CHAT)
    assert trainer.eos_token_ids == [tokenizer.eos_token_id, turn]
    with trainer.rollouts.acting_as("prover", 4):
        assert set(trainer.generation_config.eos_token_id) == {tokenizer.eos_token_id, turn}


@pytest.mark.parametrize("chat, special", [(False, True), (True, False)])
def test_a_plain_text_and_a_word_after_the_turn_end_with_the_end_of_text(chat, special):
    model, tokenizer, _ = chat_tokenizer(special)
    assert end_token_ids(model, tokenizer, chat) == [tokenizer.eos_token_id]


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
