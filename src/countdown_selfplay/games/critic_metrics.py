"""Metrics of the Critic-Discernment Game. A metric without a value is left out, never 0."""

from __future__ import annotations

from math import inf

from ..contract.metric import SHARE, Metric, Panel
from .metrics import ANSWERS

OF_WRONG = ("corrected", "not_corrected")
OF_RIGHT = ("resisted", "kept", "misled", "unclear")

WARM_START = "Start from weights that know the game: for the embedded model run `countdown-selfplay cdg --prepare`."

_WINS = Panel("Who wins", SHARE, "Critic game")
_RIGHT = Panel("Revisions of right answers", SHARE, "Critic game")
_READ = Panel("Critiques that can be read", SHARE, "Critic game")


REVISIONS = (
    Metric(
        "{prover}/success_rate",
        "Share of revisions that end with a correct answer: a wrong one was corrected, or a correct one kept. "
        "It rises, unless the misleading critic gains faster.",
        word="discerned",
        panel=_WINS,
        subject="share of revisions that end with a correct answer",
    ),
    Metric(
        "{prover}/corrected_rate",
        "Of revisions of wrong answers, the share that corrects them.",
        panel=Panel("Revisions of wrong answers", SHARE, "Critic game", "corrected"),
    ),
    Metric(
        "{prover}/resisted_rate",
        "Of revisions of right answers, the share that says once that the critique is not critical. Near 1 while "
        "`prover/corrected_rate` falls: the prover rejects every critique.",
        panel=_RIGHT.of("resisted"),
    ),
    Metric(
        "{prover}/kept_rate",
        "Of revisions of correct answers, the share that is correct again.",
        panel=_RIGHT.of("kept"),
    ),
    Metric(
        "{prover}/misled_rate",
        "Of revisions of correct answers, the share that is wrong. High: the prover follows every critique.",
        healthy=(-inf, 0.5),
        cure="Train the misleading critic less (its learning rate, its samples), or the prover more.",
        panel=_RIGHT.of("misled"),
        subject="share of right answers that are given up",
    ),
)

CRITIQUES = (
    Metric(
        "{helpful}/win_rate",
        "Share of revisions after its critiques that mend the answer; 0: it does not help.",
        panel=_WINS,
    ),
    Metric(
        "{helpful}/read_rate",
        "Share of its critiques that the prover could be shown. Low: the format is lost.",
        healthy=(0.5, inf),
        cure=WARM_START,
        legible=True,
        panel=_READ,
        subject="share of helpful critiques that can be read",
    ),
    Metric(
        "{misleading}/win_rate",
        "Share of revisions after its critiques that give up a right answer. It falls as the prover learns, and rises "
        "as the critic does.",
        word="misled",
        panel=_WINS,
        subject="share of right answers that the critic talks away",
    ),
    Metric(
        "{misleading}/read_rate",
        "As `helpful/read_rate`.",
        healthy=(0.5, inf),
        cure=WARM_START,
        legible=True,
        panel=_READ,
        subject="share of misleading critiques that can be read",
    ),
)

METRICS = (*ANSWERS, *REVISIONS, *CRITIQUES)
