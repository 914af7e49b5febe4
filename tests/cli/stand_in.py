"""A stand-in for the public 0.5B checkpoints: tokenizer, chat template, and a small Qwen2 that is a table."""

from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, generate_problems
from countdown_selfplay.countdown.prompts import problem_tag

START, END, EOS = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TEMPLATE = (
    "{% for m in messages %}" + START + "{{ m['role'] }}\n{{ m['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + START + "assistant\n{% endif %}"
)
DOMAIN = CountdownDomain()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE without an unknown token, learned from the prompts and the numbers up to 100."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    asked = DOMAIN.prove_row(Problem((44, 19, 35), 98))["prompt"]
    texts = [DOMAIN.propose_row(3)["prompt"], *(message["content"] for message in asked)]
    texts += [f"{number} {number}" for number in range(101)] * 20
    learner = trainers.BpeTrainer(
        vocab_size=700, special_tokens=[EOS, START, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, learner)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=EOS, padding_side="left", chat_template=TEMPLATE
    )


def make_stand_in(folder: Path) -> None:
    """Model and tokenizer in `folder`. About one proposal in ten has the right form; no answer is right.

    Embeddings are the identity and the layers add nothing, so the last norm hands sqrt(width) times the one-hot token
    to the head, which holds the logarithms of the table over that factor.
    """
    tokenizer = make_tokenizer()
    size = len(tokenizer)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=size, hidden_size=size + size % 2, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=2048, tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    followed = torch.full((size, size), 1e-5)
    small = ProblemSpec((3, 4), number_high=9, target_high=24)  # numbers have one digit and targets two
    texts = [problem_tag(p) for p in generate_problems(500, small, seed=9)]
    texts.append(f"{START}assistant\n<think> 44 + 19 </think> <answer> 44 + 19 + 35 </answer>{END}")
    for text in texts:
        for a, b in pairwise(tokenizer(text)["input_ids"]):
            followed[a, b] += 1
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(size, config.hidden_size))
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        table = (followed / followed.sum(1, keepdim=True)).log() / config.hidden_size**0.5
        model.lm_head.weight.zero_()[:, :size] = table.T
    # As the public checkpoints': settings that would bend the samples if anything read them.
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.8, top_k=20, repetition_penalty=1.1,
        eos_token_id=[tokenizer.eos_token_id], pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
