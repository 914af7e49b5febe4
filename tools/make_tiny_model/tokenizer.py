"""The tiny model's tokenizer: one token per word of the compact prompts, so that `3 * 5 + 7` is five tokens."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

PAD, BOS, EOS, UNK = "<pad>", "<s>", "</s>", "<unk>"

LARGEST_NUMBER = 99

LEARNT: tuple[str, ...] = (
    *(PAD, BOS, EOS, UNK),
    *("+", "-", "*", "/", "(", ")", "=", ":", "propose"),
    *(str(number) for number in range(LARGEST_NUMBER + 1)),
)
"""What the warm start teaches."""

RESERVED: tuple[str, ...] = (
    *("critic", "check", "right", "wrong", "because", "again", "help", "hint", "answer", "score", "good", "bad"),
    *("like", "change", "<r0>", "<r1>"),
)
"""For other games: critics, guides, proposals like a target, mutations. Known to the tokenizer; of the shipped models
the ladder's asked conjecturer alone has met one, `like`."""

WORDS: tuple[str, ...] = LEARNT + RESERVED
"""Every token, in the order of its id."""

MAX_LENGTH = 64
"""Positions of the model. A prompt and its answer for three numbers need 16."""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Splits at white space, puts `<s>` in front and joins with single spaces when it decodes. No chat template.

    `<unk>` is an ordinary word and not a special token: `skip_special_tokens` must not turn the answer `3 <unk> * 5`
    into `3 * 5`, which would be scored as something that the model did not write.
    """
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token=UNK))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in (PAD, BOS, EOS)])
    tokenizer.post_processor = TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, WORDS.index(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        padding_side="left",
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )
