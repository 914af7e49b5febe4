# Tests: training/parts.py, policies/build.py, config/rules.py, games/settings.py, data/anchors.py, policies/full.py
"""What a user may bring along: data, rewards, checkpointing, precision, optimizers, chats; and what is refused."""

import pytest
import torch

from countdown_selfplay.config.changes import run_settings
from countdown_selfplay.countdown import Problem, generate_problems
from countdown_selfplay.data.anchors import problem_keys
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.policies import full
from countdown_selfplay.policies.build import _one_tokenizer
from countdown_selfplay.tiny import TINY_SPEC, load_tiny_model
from countdown_selfplay.training.parts import warn_of_lost_steps
from tests.joint_config import joint_config
from tests.zoo.families import WORDS, tokenizer

from .conftest import equal, on_sample, ran, rounds, weights
from .test_round import LORA, rows_of


@pytest.mark.parametrize("sharing", ["lora", pytest.param("tied", marks=pytest.mark.matrix)])
def test_gradient_checkpointing_changes_no_roles_gradient(build, sharing):
    """Backward runs the forward pass again, and must find the same adapter active as the first time."""
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    lines, ends = [], []
    for checkpointing in (False, True):
        settings = dict(max_steps=1, policy_sharing=sharing, gradient_checkpointing=checkpointing)
        trainer = ran(build(f"run-{checkpointing}", **settings, trainer=extra))
        lines.append(rounds(trainer.args.output_dir)[0])
        ends.append(weights(trainer))
    for name in [name for name in lines[0] if name.startswith("grad_norm/")]:
        assert lines[1][name] == pytest.approx(lines[0][name], rel=1e-4), name
    for key in ends[0]:  # Adam's first steps have size lr = 1e-3 whatever the gradient; rounding alone differs
        assert torch.allclose(ends[0][key], ends[1][key], atol=2e-4), key


def test_samples_are_drawn_in_the_precision_of_the_loss(build):
    trainer = build(bf16=True, max_steps=1)
    seen = {"generate": set(), "loss": set()}
    head = trainer.policies.module.policies["prover"].model.norm

    def watch(module, arguments, output):
        seen["loss" if torch.is_grad_enabled() else "generate"].add(torch.is_autocast_enabled("cpu"))

    head.register_forward_hook(watch)
    trainer.train()
    assert seen == {"generate": {True}, "loss": {True}}


def test_a_users_optimizer_is_taken_when_it_holds_every_role(build):
    (prover, tokenizer), (conjecturer, _) = load_tiny_model(), load_tiny_model()
    groups = [
        {"params": list(prover.parameters()), "lr": 1e-3},
        {"params": list(conjecturer.parameters()), "lr": 5e-4},
    ]
    optimizer = torch.optim.SGD(groups)
    trainer = build(
        model={"prover": prover, "conjecturer": conjecturer}, max_steps=1,
        trainer={"optimizers": (optimizer, None), "processing_class": tokenizer},
    )  # fmt: skip
    before = weights(trainer)
    trainer.train()
    line = rounds(trainer.args.output_dir)[0]
    assert (line["lr/prover"], line["lr/conjecturer"]) == (1e-3, 5e-4)
    assert any(not torch.equal(before[k], v) for k, v in weights(trainer).items() if k.startswith("conjecturer"))


def test_groups_need_not_divide_the_samples_of_both_roles_together(build):
    # 16 x 2 = 32 answers in groups of 32 (one problem), while the round has 48 samples: the loader repeats 16
    trainer = ran(build(max_steps=1, problems_per_round=1, num_generations=16, prover_num_generations=32))
    line = rounds(trainer.args.output_dir)[0]
    assert line["round/anchor_slots"] + line["round/conjectured_slots"] == 1
    assert trainer.roles["prover"].num_generations == 32


def test_tokenizers_of_one_size_with_other_words_are_told_apart(tmp_path):
    swapped = {word: i for i, word in enumerate([*WORDS[:6], *WORDS[6:][::-1]])}
    tokenizer().save_pretrained(tmp_path / "a")
    tokenizer().save_pretrained(tmp_path / "b")
    other = (tmp_path / "c" / "tokenizer.json").parent
    tokenizer().save_pretrained(other)
    text = (other / "tokenizer.json").read_text().replace('"a": 16', f'"a": {swapped["a"]}')
    (other / "tokenizer.json").write_text(text)
    first, same, unlike = (str(tmp_path / name) for name in "abc")
    assert _one_tokenizer([first, same], False) and not _one_tokenizer([first], False)
    with pytest.raises(ConfigError, match=r"must share one tokenizer.*'a'"):
        _one_tokenizer([first, unlike], False)
    assert not _one_tokenizer([first, str(tmp_path)], False)  # sizes are compared where no tokenizer lies


class Weights:
    """Half of the weights are 1, whose neighbours in bfloat16 are 2^-8 below and 2^-7 above; half are 0."""

    weight_names, module = ("one",), torch.nn.Linear(1, 1)

    def named_parameters(self, name):
        return [("weight", torch.tensor([1.0] * 6 + [0.0] * 4).bfloat16())]


@pytest.mark.parametrize(("rate", "warned"), [(1e-6, True), (2.1e-3, False)])  # a step of 2^-9 = 1.95e-3 moves a 1
def test_steps_that_round_away_are_named_by_their_share(rate, warned, caplog):
    warn_of_lost_steps(Weights(), rate)
    assert ("moves about 40% of them" in caplog.text) == warned


@pytest.mark.parametrize(
    ("sharing", "found"),
    [("lora", r"saved/prover and .*saved/conjecturer"), ("tied", r"its policies lie in .*saved/policy\.")],
)
def test_a_folder_of_saved_policies_passed_as_a_model_names_them(build, tmp_path, sharing, found):
    build(max_steps=1, policy_sharing=sharing).save_model(str(tmp_path / "saved"))
    with pytest.raises(DataError, match=found):
        build(model=str(tmp_path / "saved"))


def test_a_reward_function_that_writes_into_the_completions_changes_no_verdict(build):
    def spoil(completions, **kwargs):
        for i in range(len(completions)):
            completions[i] = "1 + 1"
        return [0.0] * len(completions)

    lines = []
    for name, functions in (("plain", [lambda completions, **kwargs: [0.0] * len(completions)]), ("spoilt", [spoil])):
        trainer = ran(build(name, max_steps=1, trainer={"reward_funcs": functions}))
        lines.append(rounds(trainer.args.output_dir)[0]["prover/correct_rate"])
    assert lines[0] == lines[1] > 0


ANCHORS = generate_problems(12, TINY_SPEC, seed=5)


def test_reward_functions_get_the_extra_columns_of_anchors_and_none_for_other_problems(build):
    seen = {}

    def reward(completions, numbers, target, level, tags, **kwargs):
        for n, t, extra, names in zip(numbers, target, level, tags, strict=True):
            seen[Problem(tuple(n), t)] = (extra, names)
        return [0.0] * len(completions)

    data = rows_of(ANCHORS, level=lambda i: 10 * i, tags=lambda i: ["a", str(i)])
    ran(build(max_steps=1, trainer={"reward_funcs": reward, "train_dataset": data}))
    assert len(seen) == 8  # 32 answers, 4 to each problem: some are conjectured, the others anchors
    own = {problem: (10 * i, ["a", str(i)]) for i, problem in enumerate(ANCHORS)}
    assert {seen[p] for p in seen if p not in own} == {(None, None)}
    assert len(seen.keys() & own.keys()) >= 4  # half of the slots are the anchors'
    assert all(seen[p] == own[p] for p in seen.keys() & own.keys())


def test_columns_that_hold_the_problem_itself_are_not_handed_on(build):
    names = set()

    def reward(completions, **kwargs):
        names.update(kwargs)
        return [0.0] * len(completions)

    data = rows_of(ANCHORS, ground_truth=lambda i: {"target": 1}, prompt=lambda i: "?", completion=lambda i: "!")
    build(max_steps=1, trainer={"reward_funcs": reward, "train_dataset": data}).train()
    assert names & {"nums", "ground_truth", "completion"} == set() and {"numbers", "target"} <= names


def test_generated_anchors_leave_the_evaluations_problems_out(build):
    """Problems of the training side: the side alone does not keep them apart from generated ones."""
    trainer = build(trainer={"eval_dataset": rows_of(generate_problems(600, TINY_SPEC, seed=9))})
    keys = set(problem_keys(trainer.train_dataset, trainer.domain))
    assert len(trainer.held_out) == 600 and len(keys) == 2048 and not keys & trainer.held_out


def test_a_row_out_of_range_is_said_once_with_the_field_that_it_is_beyond(build, caplog):
    wide = [*ANCHORS, Problem((3, 5, 40), 2), Problem((3, 5, 7, 9), 6)]  # numbers up to 12, three of them
    build(trainer={"train_dataset": rows_of(wide)})
    (said,) = [record.message for record in caplog.records if "out of range" in record.message]
    assert said.startswith(
        "Row 12 of train_dataset (3,5,40=2) is out of range: its number 40 is beyond `number_high` (12)."
    )
    caplog.clear()
    build("eval", trainer={"train_dataset": rows_of(ANCHORS), "eval_dataset": rows_of(wide[12:])})
    assert "out of range" not in caplog.text


PURE = dict(max_steps=3, anchor_fraction=0.0, fill="none", learning_rate=1e-4)


def played(trainer):
    """Problems per round that the prover was asked."""
    found = []
    on_sample(trainer, lambda role, rollout: found.append(len(rollout.rows)) if role == "prover" else None)
    return found


def test_no_fill_plays_no_problem_of_the_data_set(build):
    trainer = build(**PURE)
    asked = played(trainer)
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert asked == [line["round/conjectured_slots"] for line in lines] and 0 < max(asked) <= 8
    assert all(line["round/anchor_slots"] == 0 and "round/anchor_solve_rate_mean" not in line for line in lines)
    assert [line["prover/trained_samples"] for line in lines] == [4 * n for n in asked]


def test_a_round_without_any_problem_moves_no_weight_and_logs_no_rate(build):
    """The conjecturer writes nothing that can be played: the prover has no row at all."""
    trainer = build(**{**PURE, "max_steps": 2}, beta=0.05, log_completions=True)
    object.__setattr__(trainer.domain, "solvable_batch", lambda problems: [False for _ in problems])
    before = weights(trainer)
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert [line["round/starved"] for line in lines] == [1, 1]
    assert not any("prover/correct_rate" in line or "prover/reward" in line for line in lines)
    assert [line["prover/trained_samples"] for line in lines] == [0, 0] and equal(before, weights(trainer))


def test_keep_all_plays_every_admitted_proposal(build):
    """16 proposals, a half fixed, multiple of 4: at most 32 problems."""
    trainer = ran(build(max_steps=3, problems_per_round=32, fill="keep_all", truncate_multiple=4, learning_rate=1e-4))
    for line in rounds(trainer.args.output_dir):
        admitted = round(16 * line["conjecturer/admitted_rate"])
        assert line["round/conjectured_slots"] == admitted
        assert line["round/anchor_slots"] == -(-(admitted + max(admitted, 4)) // 4) * 4 - admitted


@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_a_turn_takes_as_many_calls_as_its_rows_need_and_one_that_fits_draws_as_ever(build, monkeypatch, sharing):
    """8 problems x 4 answers, of which 14 rows are three groups; one problem x 20."""
    trainer, calls, plain = build(policy_sharing=sharing), [], full.without_idle_rows

    def counted(model, given):
        calls.append(len(given["input_ids"]))
        return plain(model, given)

    def turn(rows, count, n):
        calls.clear()
        trainer.args.generation_rows = rows
        rows = [dict(trainer.train_dataset[i]) for i in range(count)]
        round, problems = trainer.round_loop.begin(rows), [trainer.domain.problem(row) for row in rows]
        found = round.sample("prover", [trainer.domain.prove_row(p) for p in problems], n, problems)
        return calls.copy(), found.texts, found.tensors

    monkeypatch.setattr(full, "without_idle_rows", counted)
    (cut, texts, tensors), (fits, *_, same), (whole, *_, ever) = (turn(rows, 8, 4) for rows in (14, 32, 1024))
    assert cut == [12, 12, 8] and fits == whole == [32]
    assert len(texts) == 32 and tensors["completion_mask"].any(1).all() and len(set(texts[:12])) > 1
    assert all(torch.equal(value, ever[name]) for name, value in same.items())
    assert turn(14, 1, 20)[0] == [14, 6]


def test_the_rows_of_a_call_are_a_setting_of_the_run():
    assert run_settings(joint_config("unused", use_cpu=True).to_dict(), [], [], {})["generation_rows"] == 1024
