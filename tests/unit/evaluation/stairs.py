"""A domain in moves whose figures are known: a player that goes up with probability p solves rung r with p^r."""

from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from countdown_selfplay.contract.domain import BaseDomain

WORDS = ["<pad>", "</s>", "up", "down", ":", *map(str, range(100))]


class Stair(NamedTuple):
    """`steps` to go; `name` tells those of equal height apart."""

    name: int
    steps: int


@dataclass(frozen=True)
class Judged:
    correct: bool
    score: float
    reason: str
    n_answers: int = 1


class Stairs(BaseDomain):
    """`up` takes a step, at the top the episode is right; anything else ends it."""

    asks = ({},)
    facts = ()
    most_moves = 9
    rungs = tuple(range(1, 10))

    def problem(self, row, index=0):
        return Stair(*map(int, row["prompt"].split()[:3:2]))

    def key(self, problem):
        return f"{problem.name}:{problem.steps}"

    def begin(self, problem):
        return problem.steps

    def prove_row(self, problem):
        return self.move_row(problem, self.begin(problem))

    def move_row(self, problem, state):
        return {"prompt": f"{problem.name} : {state}"}

    def moved(self, texts, problems, states):
        return [self._after(text, state) for text, state in zip(texts, states, strict=True)]

    @staticmethod
    def _after(text: str, state: int) -> Any:
        if text.split()[:1] != ["up"]:
            return Judged(False, 0.0, "fell", 2 if text == "down down" else 1)
        return Judged(True, 1.0, "top") if state == 1 else state - 1

    def verify(self, texts, problems):
        return [Judged(False, 0.0, "no_move") for _ in texts]

    def rung(self, problem):
        return problem.steps

    def held_out_of_rung(self, n, rung):
        return [Stair(50 + i, rung) for i in range(n)]

    def held_out(self, n):
        return [Stair(50 + i, 1 + i % 9) for i in range(n)]

    def is_held_out(self, problem):
        return problem.name >= 50

    def random(self, n, seed, exclude):
        return [Stair(i, 1 + i % 9) for i in range(n)]

    def stop_strings(self, role):
        return None

    def to_dict(self):
        return {"domain": "stairs"}


def words(vocabulary=WORDS) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>")


class Climber:
    """Writes `up` with probability `chance`, else `down`. `rows`: how many it was asked for in each call."""

    device = torch.device("cpu")
    training = False

    def __init__(self, tokenizer, chance=0.5):
        self.tokenizer, self.chance, self.rows = tokenizer, chance, []

    def eval(self):
        return self

    train = lambda self, mode=True: self  # noqa: E731

    def generate(self, input_ids, attention_mask, generation_config, **_):
        self.rows.append(len(input_ids))
        prompts = self.tokenizer.batch_decode(input_ids, skip_special_tokens=True)
        limit = generation_config.max_new_tokens
        texts = [self.tokenizer(text)["input_ids"] for text in self.texts(prompts)]
        rows = [([*text, 1] + [0] * limit)[:limit] for text in texts]
        return torch.cat([input_ids, torch.tensor(rows)], 1)

    def texts(self, prompts):
        return ["up" if drawn < self.chance else "down" for drawn in torch.rand(len(prompts)).tolist()]


class Written(Climber):
    """Writes for the i-th row with a prompt the i-th text of its list, from the start again behind the last."""

    def __init__(self, tokenizer, by_prompt):
        super().__init__(tokenizer)
        self.by_prompt = {prompt: cycle(texts.split(", ")) for prompt, texts in by_prompt.items()}

    def texts(self, prompts):
        return [next(self.by_prompt[prompt]) for prompt in prompts]
