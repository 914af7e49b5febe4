# Tests: warm_starts/configs.py, warm_starts/training.py, warm_starts/readers.py, warm_starts/demonstrations.py
"""Warm starts: token ids and labels, pairs by hand, what may be trained on, samples from files."""

import inspect

import pytest
import torch
from peft import LoraConfig
from tests.warm_starts.cli.test_sft_and_ipo import write_rows
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOTrainer

from countdown_selfplay.countdown import CountdownDomain, Problem, generate_problems, heldout_problems, verify
from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation.sampling import demonstration_ids, pair_ids
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from countdown_selfplay.warm_starts.configs import IPOSettings, SFTSettings
from countdown_selfplay.warm_starts.demonstrations import generated_rows
from countdown_selfplay.warm_starts.filters import ScoredSample, drop_long, make_preference_pairs
from countdown_selfplay.warm_starts.readers import (
    clean_demonstrations,
    read_preferences,
    read_samples,
    sample_answers,
)
from countdown_selfplay.warm_starts.training import TokenizedDPOTrainer

TINY = CountdownDomain.tiny()
CHATML = (
    "{% for m in messages %}<s>{{ ' ' + m['content'] + ' ' }}</s> {% endfor %}"
    "{% if add_generation_prompt %}<s> {% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))


def test_only_the_answer_and_one_end_token_are_in_the_loss_and_a_chat_ends_with_that_of_its_turn(tokenizer):
    row = demonstration_ids(tokenizer, "3 5 7 = 22 :", "3 * 5 + 7")
    assert " ".join(tokenizer.convert_ids_to_tokens(row["input_ids"])) == "<s> 3 5 7 = 22 : 3 * 5 + 7 </s>"
    assert row["labels"][:7] == [-100] * 7 == [-100] * len(tokenizer("3 5 7 = 22 :")["input_ids"])
    assert " ".join(tokenizer.convert_ids_to_tokens(row["labels"][7:])) == "3 * 5 + 7 </s>"
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    tokenizer.chat_template = CHATML
    tokenizer.eos_token = "<pad>"  # as in base models whose own end token is another one than their turn's
    prompt = [{"role": "user", "content": "3 5 7 = 22 :"}]
    row = demonstration_ids(tokenizer, prompt, [{"role": "assistant", "content": "3 * 5 + 7"}])
    assert tokenizer.convert_ids_to_tokens(row["input_ids"])[-7:] == ["<s>", "3", "*", "5", "+", "7", "</s>"]
    asked = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert row["input_ids"][: len(asked)] == asked and row["labels"][: len(asked)] == [-100] * len(asked)


@pytest.mark.parametrize("completion", ["3 * 5 + 7", "3 * 5 + 7 </s>", "3 * 5 + 7 </s> </s>"])
def test_an_end_token_that_stands_there_already_is_not_put_a_second_time(tokenizer, completion):
    row = demonstration_ids(tokenizer, "3 5 7 = 22 :", completion)
    assert row["input_ids"].count(tokenizer.eos_token_id) == 1 and row["input_ids"][-1] == tokenizer.eos_token_id


def test_both_sides_of_a_pair_follow_the_same_prompt(tokenizer):
    row = pair_ids(tokenizer, "3 5 7 = 22 :", "3 * 5 + 7", "3 + 5 + 7")
    words = {name: " ".join(tokenizer.convert_ids_to_tokens(ids)) for name, ids in row.items()}
    assert words == {
        "prompt_ids": "<s> 3 5 7 = 22 :", "chosen_ids": "3 * 5 + 7 </s>", "rejected_ids": "3 + 5 + 7 </s>",
    }  # fmt: skip
    with pytest.raises(DataError, match="no chat template"):
        demonstration_ids(tokenizer, [{"role": "user", "content": "1"}], "2")


def test_rows_without_room_are_left_out_and_counted():
    found = drop_long([{"input_ids": [1] * 5}, {"input_ids": [1] * 4}], 4)
    assert found.rows == [{"input_ids": [1] * 4}] and found.left_out == {"too long": 1}
    pair = {"prompt_ids": [1] * 3, "chosen_ids": [1], "rejected_ids": [1] * 2}  # 5 tokens with the longer side
    assert [len(drop_long([pair], limit).rows) for limit in (4, 5, None)] == [0, 1, 1]


def test_trl_has_the_private_method_that_is_overridden():
    parameters = list(inspect.signature(DPOTrainer._prepare_dataset).parameters)
    assert parameters == ["self", "dataset", "processing_class", "args", "dataset_name"]
    assert list(inspect.signature(TokenizedDPOTrainer._prepare_dataset).parameters) == parameters
    parameters = list(inspect.signature(DPOTrainer._compute_loss).parameters)
    assert list(inspect.signature(TokenizedDPOTrainer._compute_loss).parameters) == parameters


def scored(group, **scores):
    return [ScoredSample(group, f"{group}?", text, float(score)) for text, score in scores.items()]


def test_right_is_paired_with_wrong_each_text_once_up_to_the_allowed_number():
    pairs = make_preference_pairs(scored("p", a=1, b=1, c=1, x=0, y=0))
    assert len(pairs) == 2  # min(3 right, 2 wrong)
    assert {p.rejected for p in pairs} == {"x", "y"} and len({p.chosen for p in pairs} & {"a", "b", "c"}) == 2
    assert all(p.prompt == "p?" for p in pairs)
    samples = scored("p", a=1, b=1, c=1, x=0, y=0, z=0)
    assert [len(make_preference_pairs(samples, pairs_per_group=n)) for n in (1, 2, 3, 4, None)] == [1, 2, 3, 3, 3]
    assert make_preference_pairs(scored("all right", a=1, b=1) + scored("all wrong", x=0, y=0)) == []
    samples = scored("p", a=1, x=0) + scored("p", a=1, x=0)
    assert [(p.chosen, p.rejected) for p in make_preference_pairs(samples)] == [("a", "x")]
    # sorted: 2 1 .9 0 0; best with worst: (2, 0) and (1, 0), the middle one is left over
    pairs = make_preference_pairs(scored("3", a=1, b=0, c=2, d=0, e=0.9))
    assert [p.chosen for p in pairs] == ["c", "a"] and {p.rejected for p in pairs} == {"b", "d"}
    assert make_preference_pairs(scored("3", a=0.9, b=0)) == []  # not right


def test_the_seed_alone_decides():
    one = scored("p", **{f"r{i}": 1 for i in range(9)}, **{f"w{i}": 0 for i in range(9)})
    other = scored("q", a=1, x=0)
    assert make_preference_pairs(one, seed=3) == make_preference_pairs(one, seed=3)
    assert make_preference_pairs(one, seed=3) != make_preference_pairs(one, seed=4)
    assert make_preference_pairs(other + one, seed=3)[1:] == make_preference_pairs(one, seed=3)


def test_generated_rows_are_right_varied_and_read_as_the_role_would_be():
    rows = generated_rows(40, "prover", TINY, seed=1, per_problem=3)
    assert len(rows) == 120 and len({row["prompt"] for row in rows}) > 60
    for row in rows:
        assert verify(row["completion"], Problem(tuple(row["numbers"]), row["target"]), TINY.rules).correct
    kept = clean_demonstrations(rows, "prover", TINY)
    assert len(kept.rows) == 120 and not kept.left_out
    for style in ("compact", "completion", "json"):
        domain = CountdownDomain(TINY.spec, TINY.rules, "compact", style)
        kept = clean_demonstrations(generated_rows(8, "conjecturer", domain, seed=2), "conjecturer", domain)
        assert len(kept.rows) == 8 and not kept.left_out, style


def test_held_out_problems_and_wrong_demonstrations_are_left_out_and_counted_the_frozen_set_too():
    held = generate_problems(3, TINY.spec, seed=7, split="heldout")
    train = generate_problems(3, TINY.spec, seed=7)
    good = generated_rows(3, "prover", TINY, seed=7)
    rows = good + [{"prompt": "x :", "completion": "1", "numbers": p.numbers, "target": p.target} for p in held]
    rows.append({**good[0], "completion": "1 + 1"})
    kept = clean_demonstrations(rows, "prover", TINY, evaluated={train[0].key})
    # train[0]'s two rows (right and wrong) count as held out: that is asked first
    assert kept.read == 7 and kept.left_out == {"held-out problem": 5} and len(kept.rows) == 2
    kept = clean_demonstrations(rows, "prover", TINY)
    assert kept.left_out == {"held-out problem": 3, "wrong": 1}
    assert kept.sentence("rows") == "3 of 7 rows kept; left out: 3 held-out problem, 1 wrong"
    assert len(clean_demonstrations(rows, "prover", TINY, keep_wrong=True).rows) == 4
    domain = CountdownDomain()
    rows = [{"prompt": "x", "completion": "y", "nums": p.numbers, "target": p.target} for p in heldout_problems(3)]
    kept = clean_demonstrations(rows, "prover", domain, keep_wrong=True)
    assert kept.rows == [] and kept.left_out["held-out problem"] == 500
    with pytest.raises(DataError, match="None of the 500 rows can be trained on"):
        kept.insist("rows")


def test_samples_are_read_in_both_shapes_and_scored_again(tmp_path):
    p = generate_problems(1, TINY.spec, seed=7)[0]
    right = generated_rows(1, "prover", TINY, seed=7)[0]["completion"]
    held = generate_problems(1, TINY.spec, seed=7, split="heldout")[0]
    path = write_rows(
        tmp_path / "s.jsonl", {"record": "setting", "n": 2},
        {"problem": p.key, "completion": right, "score": 1.0, "truncated": False},
        {"numbers": p.numbers, "target": p.target, "completion": "1 + 1", "score": 0.1},
        {"numbers": p.numbers, "target": p.target, "completion": "1 +", "truncated": True},
        {"numbers": held.numbers, "target": held.target, "completion": "1 + 1"},
    )  # fmt: skip
    found = read_samples(path, TINY)
    assert found.read == 4 and found.left_out == {"held-out problem": 1, "cut off": 1}
    assert [(s.group, s.completion, s.score) for s in found.rows] == [(p.key, right, 1.0), (p.key, "1 + 1", 0.0)]
    assert found.rows[0].prompt == f"{' '.join(map(str, sorted(p.numbers)))} = {p.target} :"


def test_bf16_follows_the_device_and_no_token_is_pickled(tmp_path):
    for settings in (SFTSettings, IPOSettings):
        args = settings(output_dir=str(tmp_path), use_cpu=True, hub_token="secret")
        assert args.bf16 is False and args.hub_token == "secret"
        assert "secret" not in repr(args) and args.__getstate__()["hub_token"] is None
    assert IPOSettings(output_dir=str(tmp_path), use_cpu=True).loss_type == ["ipo"]


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_first_ipo_loss_is_that_of_the_paper(tmp_path, reduction, adapter):
    """Before the first step policy and reference agree, so h = 0 and the loss is (0 - 1 / (2 beta))^2 = 6.25 at
    beta 0.2. After it, the loss is the one of an independent computation from the models' own log-probabilities: per
    token (TRL's), or of whole completions (seed 001)."""
    from datasets import Dataset

    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype="float32")
    reference = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype="float32")
    rows = [pair_ids(tokenizer, "3 5 7 = 22 :", "3 * 5 + 7", "( 3 + 5 ) * 7")]
    rate = 1e-3 if reduction == "mean" else 2e-5  # a sum moves further
    quiet = {"gradient_checkpointing": False, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    args = IPOSettings(
        output_dir=str(tmp_path), use_cpu=True, beta=0.2, max_steps=2, per_device_train_batch_size=1, logging_steps=1,
        learning_rate=rate, lr_scheduler_type="constant", max_grad_norm=0.0, ipo_reduction=reduction, **quiet,
    )  # fmt: skip
    peft = {"peft_config": LoraConfig(target_modules=["q_proj", "v_proj"])} if adapter else {"ref_model": reference}
    data = {"train_dataset": Dataset.from_list(rows * 2), "processing_class": tokenizer}
    trainer = TokenizedDPOTrainer(model=model, args=args, **peft, **data)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert losses[0] == pytest.approx(6.25, abs=1e-5)
    assert losses[1] < losses[0]

    def log_prob(of, prompt, completion):
        ids = torch.tensor([prompt + completion])
        with torch.no_grad():
            logps = of(input_ids=ids).logits.log_softmax(-1)[0, len(prompt) - 1 : -1]
        found = logps.gather(1, torch.tensor(completion)[:, None])
        return (found.mean() if reduction == "mean" else found.sum()).item()

    trainer.model.eval()
    row = rows[0]
    sides = [(row["prompt_ids"], row[name]) for name in ("chosen_ids", "rejected_ids")]
    h = [log_prob(trainer.model, *side) - log_prob(reference, *side) for side in sides]
    batch = trainer.data_collator([row])
    with torch.no_grad():
        loss = trainer.compute_loss(trainer.model, dict(batch))
    assert loss.item() == pytest.approx((h[0] - h[1] - 2.5) ** 2, abs=1e-4)


QUERY = "User: Using the numbers [44, 19, 35], create an equation that equals 98. You can use ... <answer> (1 + 2) / 3"
RIGHT = "<think> 44 + 19 + 35 </think>\n<answer> 44 + 19 + 35 </answer>"
PUBLIC = CountdownDomain()


def test_a_corpus_of_queries_is_rendered_anew_from_the_problem_that_it_asks_for():
    held_out = heldout_problems(3)[0]
    other = QUERY.replace("44, 19, 35", " ".join(map(str, held_out.numbers))).replace("98", str(held_out.target))
    rows = [{"query": QUERY, "completion": RIGHT}, {"query": other, "completion": RIGHT}]
    kept = clean_demonstrations(rows, "prover", PUBLIC)
    (row,) = kept.rows
    assert kept.left_out == {"held-out problem": 1} and row["completion"] == RIGHT
    assert row["prompt"] == PUBLIC.prove_row(Problem((44, 19, 35), 98))["prompt"] and row["numbers"] == [44, 19, 35]


def test_preferences_are_read_from_texts_and_from_chats():
    chat = [{"role": "user", "content": QUERY}]
    rows = [
        {"prompt": QUERY, "chosen": RIGHT, "rejected": "?"},
        {"prompt": chat, "chosen": [*chat, {"role": "assistant", "content": RIGHT}], "rejected": [{"content": "?"}]},
        {"numbers": [44, 19, 35], "target": 98, "chosen": RIGHT, "rejected": "?"},
    ]
    found = read_preferences(rows, PUBLIC)
    pairs = found.rows
    assert found.read == 3 and not found.left_out and len(set(map(repr, pairs))) == 1
    assert (pairs[0].group, pairs[0].chosen, pairs[0].rejected) == ("19,35,44=98", RIGHT, "?")


def test_the_models_own_answers_are_scored_exactly():
    model, tokenizer = load_tiny_model()
    problems = generate_problems(12, TINY.spec, seed=5)
    sampling = {"max_new_tokens": 16, "batch_size": 512, "seed": 1}
    found = sample_answers(model, tokenizer, problems, TINY, 8, **sampling)
    answers = found.rows
    assert found.read == 96 == len(answers) + found.left_out.total()
    by_key = {p.key: p for p in problems}
    for s in answers:
        assert s.score == float(TINY.verify([s.completion], [by_key[s.group]])[0].correct)
    assert 0 < sum(s.score for s in answers) < len(answers)
