# Tests: asking.py, chat_templates.py
"""One rendering of a prompt, one generation config: templates of models as they are found, and `generation_kwargs`."""

import pytest
from transformers import AutoTokenizer, GenerationConfig

from countdown_selfplay.asking import DEFAULTS, check_generation_kwargs, check_token_ids, generation_settings
from countdown_selfplay.chat_templates import prompt_ids, ready
from countdown_selfplay.errors import PromptError
from countdown_selfplay.tiny import TINY_MODEL_PATH

TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<go>{% endif %}"
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TURNS
ALTERNATES = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + TURNS
)
DROPS = TURNS.replace("{% for m in messages %}", "{% for m in messages if m.role != 'system' %}")
THINKS = TURNS + "{% if enable_thinking is defined and not enable_thinking %}<empty>{% endif %}"
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2 ?"}]
TALK = [*ASKED, {"role": "assistant", "content": "5"}, {"role": "user", "content": "No."}]


def tokenizer(template):
    found = AutoTokenizer.from_pretrained(TINY_MODEL_PATH)
    found.chat_template = template
    return found


def text(asked, chat, **more):
    return asked.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **more)


def test_a_template_that_renders_the_prompts_is_left_alone():
    own = tokenizer(TURNS)
    assert ready(own, [ASKED, "a text"]) is own and ready(tokenizer(None), ["a text"], {"x": 1}).chat_template is None


@pytest.mark.parametrize("how", ["| lower", "| upper", "| e", "| tojson", ".replace('2', 'two')", ".split(' ')[-1]"])
def test_a_template_may_write_a_message_otherwise(how):
    own = tokenizer("{% for m in messages %}<{{ m.role }}>{{ m.content " + how + " }}{% endfor %}<go>")
    assert ready(own, [ASKED]) is own


@pytest.mark.parametrize("template", [REFUSES, ALTERNATES, DROPS])
def test_a_system_message_that_is_refused_or_left_out_stands_in_the_users(template, caplog, tmp_path):
    own = tokenizer(template)
    asked = ready(own, [ASKED, TALK])
    assert text(asked, ASKED) == "<user>Be brief.\n\n2 + 2 ?<go>"
    assert text(asked, TALK) == "<user>Be brief.\n\n2 + 2 ?<assistant>5<user>No.<go>"
    assert text(asked, ASKED[1:]) == "<user>2 + 2 ?<go>" and own.chat_template == template
    assert ready(asked, [TALK]) is asked
    asked.save_pretrained(tmp_path)
    assert text(AutoTokenizer.from_pretrained(tmp_path), ASKED) == text(asked, ASKED)


def test_a_folded_template_is_tried_with_other_prompts_too():
    once = "{% if messages | length > 2 %}{{ raise_exception('one turn') }}{% endif %}" + REFUSES
    folded = ready(tokenizer(once), [ASKED])
    with pytest.raises(PromptError, match="one turn"):
        ready(folded, [ASKED, TALK])


def test_variables_of_the_template_are_defaults_that_a_caller_can_change(tmp_path):
    own = tokenizer("\n  " + THINKS)
    asked = ready(own, [ASKED], {"enable_thinking": False})
    plain = text(own, ASKED)
    assert text(asked, ASKED) == plain + "<empty>" == text(own, ASKED, enable_thinking=False)
    assert text(asked, ASKED, enable_thinking=True) == plain
    assert ready(asked, [ASKED], '{"enable_thinking": false}') is asked
    asked.save_pretrained(tmp_path)
    assert text(AutoTokenizer.from_pretrained(tmp_path), ASKED) == plain + "<empty>"


def test_values_of_all_kinds_reach_the_template_as_they_are():
    given = {"a": 'it\'s "x" {% y %} \\n é 😀', "b": [1, None, True], "c": {"d": 1.5}, "e": None}
    shown = "{{ a }}|{{ b }}|{{ c.d }}|{{ e is none }}"
    assert text(ready(tokenizer(TURNS + shown), [ASKED], given), ASKED).endswith(
        f"<go>{given['a']}|[1, None, True]|1.5|True"
    )


def test_named_templates_are_all_changed():
    asked = ready(tokenizer({"default": REFUSES, "tool_use": REFUSES}), [ASKED])
    assert text(asked, ASKED) == text(asked, ASKED, chat_template="tool_use") == "<user>Be brief.\n\n2 + 2 ?<go>"


def test_a_variable_that_the_template_does_not_read_is_said(caplog):
    ready(tokenizer(TURNS), [ASKED], {"enable_thinkin": False})
    assert "sets enable_thinkin, which the model's chat template does not read" in caplog.text


def test_prompt_ids_of_a_chat_are_those_of_its_rendering():
    own = tokenizer(" {{ messages[0].content }}{% if add_generation_prompt %} ={% endif %}")
    chat = [{"role": "user", "content": "3 5 7"}]
    assert prompt_ids(own, chat) == own("3 5 7 =", add_special_tokens=False)["input_ids"]


def test_one_generation_config_holds_every_setting():
    how = {**DEFAULTS, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.2, "repetition_penalty": 1.1}
    how |= {"max_new_tokens": 9, "stop_strings": ["x"], "generation_kwargs": {"typical_p": 0.5, "min_new_tokens": 2}}
    expected = {
        "do_sample": True, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.2, "typical_p": 0.5,
        "repetition_penalty": 1.1, "max_new_tokens": 9, "min_new_tokens": 2, "stop_strings": ["x"],
        "eos_token_id": [2, 3], "pad_token_id": 0,
    }  # fmt: skip
    assert generation_settings(how, [2, 3], 0) == expected
    drawing = ("temperature", "top_p", "top_k", "min_p", "typical_p")
    greedy = {name: value for name, value in expected.items() if name not in drawing} | {"do_sample": False}
    assert generation_settings(how | {"temperature": 0.0}, [2, 3], 0) == greedy
    assert generation_settings({}, [2], None)["pad_token_id"] == 2 and generation_settings({}, [2], 0)["min_p"] is None


ACTING = {
    "typical_p": 0.5, "epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "no_repeat_ngram_size": 2, "bad_words_ids": [[5]],
    "sequence_bias": [[[5], -2.0]], "suppress_tokens": [5], "begin_suppress_tokens": [5], "min_new_tokens": 3,
    "exponential_decay_length_penalty": [2, 1.5],
}  # fmt: skip


def test_generation_kwargs_holds_what_acts():
    assert check_generation_kwargs(ACTING) == ACTING and GenerationConfig(**ACTING)
    assert check_generation_kwargs(None) == check_generation_kwargs("{}") == {}
    assert check_generation_kwargs('{"min_new_tokens": 2}', "vllm") == {"min_new_tokens": 2}
    check_token_ids(ACTING, 99)
