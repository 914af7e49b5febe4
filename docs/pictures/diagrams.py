"""The pictures of how a game is played, one function each; `python -m docs.pictures` writes them to docs/assets/."""

from __future__ import annotations

from collections.abc import Callable

from .boxes import CONJECTURER, EXACT, PLAIN, PROVER, THIRD, Diagram
from .headroom import headroom
from .ladder_map import ladder


def a_round() -> str:
    """docs/concepts.md and the README: a round of propose and solve as a loop."""
    picture = Diagram(278)
    conjecturer = picture.box(8, 44, 98, 54, "Conjecturer", "writes problems", CONJECTURER)
    gate = picture.box(160, 44, 80, 54, "Gate", "exact checks", EXACT)
    prover = picture.box(294, 44, 98, 54, "Prover", "k answers each", PROVER)
    verifier = picture.box(148, 186, 104, 54, "Verifier", "exact arithmetic", EXACT)
    picture.chain([conjecturer, gate, prover])
    picture.words((133, 60), "texts")
    picture.words((267, 60), "problems")
    picture.words((200, 12), "anchor problems fill open slots")
    picture.arrow((286, 18), prover.at(0.35, 0))
    picture.arrow(gate.bottom, (200, 128))
    picture.words((200, 137), "refused, with a reason")
    picture.arrow(prover.at(0.3, 1), verifier.at(1, 0.25))
    picture.words((326, 140), "answers")
    picture.arrow(verifier.at(1, 0.8), prover.at(0.75, 1), PROVER, update=True, bend=0.35)
    picture.words((346, 224), "right or wrong:\nprover's update", PROVER)
    picture.arrow(verifier.at(0, 0.8), conjecturer.at(0.25, 1), CONJECTURER, update=True, bend=-0.35)
    picture.words((62, 224), "solve rate:\nconjecturer's update", CONJECTURER)
    picture.words((200, 266), "one round; dashed: what changes weights")
    return picture.svg()


def pools() -> str:
    """docs/pools.md: tiers, every prover on every problem, and the tiers' moves."""
    picture = Diagram(270)
    first = picture.box(8, 24, 112, 46, "Conjecturer 0", "tier 0: 3 numbers", CONJECTURER)
    second = picture.box(8, 96, 112, 46, "Conjecturer 1", "tier 1: 4 numbers", CONJECTURER)
    problems = picture.box(156, 56, 88, 54, "Problems", "of all tiers", EXACT)
    one = picture.box(292, 24, 100, 46, "Prover 0", "answers all", PROVER)
    other = picture.box(292, 96, 100, 46, "Prover 1", "answers all", PROVER)
    rates = picture.box(128, 180, 144, 48, "Pass rate of each tier", "over all provers", EXACT)
    for conjecturer, down in ((first, 0.3), (second, 0.7)):
        picture.arrow(conjecturer.right, problems.at(0, down))
    for prover, down in ((one, 0.3), (other, 0.7)):
        picture.arrow(problems.at(1, down), prover.left)
    picture.arrow(other.at(0.3, 1), rates.at(1, 0.3))
    picture.words((288, 170), "answers", ha="right")
    picture.arrow(rates.at(1, 0.75), other.at(0.8, 1), PROVER, update=True, bend=0.35)
    picture.words((336, 234), "provers imitate\nright answers", PROVER)
    picture.arrow(rates.at(0, 0.75), second.at(0.2, 1), CONJECTURER, update=True, bend=-0.35)
    picture.words((64, 234), "conjecturers imitate\nproblems in reach", CONJECTURER)
    picture.arrow(rates.at(0.25, 0), second.at(0.85, 1))
    picture.words((144, 158), "tier up or down", ha="left")
    picture.words((200, 12), "a rule fills up a tier with too few problems")
    picture.words((200, 260), "dashed: what changes weights")
    return picture.svg()


def sgs() -> str:
    """docs/sgs.md: a target, the problem written for it, and the two factors of the reward."""
    picture = Diagram(262)
    targets = picture.box(8, 40, 96, 56, "Targets", "a fixed set of\nhard problems", EXACT)
    conjecturer = picture.box(150, 8, 104, 46, "Conjecturer", "sees the target", CONJECTURER)
    solver = picture.box(294, 40, 98, 56, "Solver", "8 answers each", PROVER)
    guide = picture.box(150, 128, 104, 46, "Guide", "related? clear?", THIRD)
    verifier = picture.box(294, 150, 98, 46, "Verifier", "exact", EXACT)
    picture.arrow(targets.at(1, 0.25), conjecturer.left)
    picture.words((112, 22), "unsolved")
    picture.arrow(targets.at(1, 0.8), solver.at(0, 0.8))
    picture.words((240, 75), "the target itself")
    picture.arrow(conjecturer.right, solver.at(0, 0.25))
    picture.words((294, 22), "a problem for it")
    picture.arrow(conjecturer.at(0.3, 1), guide.at(0.3, 0))
    picture.arrow(solver.at(0.5, 1), verifier.top)
    picture.words((338, 122), "answers", ha="right")
    picture.arrow(verifier.at(0.85, 0), solver.at(0.85, 1), PROVER, update=True)
    picture.words((390, 212), "right answers: solver's update", PROVER, ha="right")
    picture.arrow(guide.left, (92, 178), THIRD)
    picture.words((112, 146), "R_guide", THIRD)
    picture.arrow(verifier.at(0, 0.8), (136, 187))
    picture.words((212, 196), "R_solve, from the solve rate")
    picture.words((74, 188), "R_solve x R_guide", CONJECTURER, 10, "bold")
    picture.words((74, 204), "conjecturer's update", CONJECTURER)
    picture.words((200, 248), "one round; a solved target gets no further problems")
    return picture.svg()


def critic_game() -> str:
    """docs/critic_game.md: who criticises which answer, and who wins."""
    picture = Diagram(252)
    first = picture.box(8, 92, 92, 50, "Prover", "first answer", PROVER)
    helpful = picture.box(152, 24, 106, 50, "Helpful critic", "names a mistake", EXACT)
    misleading = picture.box(152, 160, 106, 50, "Misleading critic", "invents a mistake", CONJECTURER)
    second = picture.box(300, 92, 92, 50, "Prover", "answers again", PROVER)
    picture.arrow(first.at(0.6, 0), helpful.left)
    picture.words((84, 56), "wrong")
    picture.arrow(first.at(0.6, 1), misleading.left)
    picture.words((84, 178), "right")
    picture.words((126, 111), "verifier\ndecides", EXACT)
    picture.words((228, 111), "the same words:\nno style tells them apart")
    picture.arrow(helpful.right, second.at(0.4, 0))
    picture.arrow(misleading.right, second.at(0.4, 1))
    picture.words((338, 30), "helpful critic wins\nif it is corrected", EXACT)
    picture.words((338, 194), "misleading critic wins\nif it is given up", CONJECTURER)
    picture.words((200, 238), "the prover wins if the right answer stands at the end", PROVER)
    return picture.svg()


def symbolic() -> str:
    """docs/symbolic.md: a refresh, from known problems to the buffer, and what learns from what."""
    picture = Diagram(262)
    known = picture.box(8, 24, 88, 52, "Problems", "anchors, archive")
    change = picture.box(132, 24, 104, 52, "Change", "numbers and\nexpression", CONJECTURER)
    checks = picture.box(280, 24, 112, 52, "Filter", "range, solvable,\nnot seen before", EXACT)
    score = picture.box(280, 132, 112, 62, "Score", "estimated p near\nthe band, diversity", THIRD)
    buffer = picture.box(132, 138, 104, 50, "Buffer", "the best are kept", EXACT)
    solver = picture.box(8, 138, 88, 50, "Solver", "trains on both", PROVER)
    picture.chain([known, change, checks])
    picture.arrow(checks.bottom, score.top)
    picture.arrow(score.left, buffer.right)
    picture.arrow(buffer.left, solver.right)
    picture.arrow(known.at(0.3, 1), solver.at(0.3, 0))
    picture.words((38, 106), "fixed", ha="left")
    picture.arrow(score.at(0.2, 0), change.at(0.7, 1), CONJECTURER, update=True)
    picture.words((196, 112), "actions are learned", CONJECTURER)
    picture.arrow(solver.at(0.6, 1), score.at(0.5, 1), THIRD, update=True, bend=0.18)
    picture.words((200, 232), "solve rates: the predictor of p is refreshed", THIRD)
    picture.words((200, 250), "dashed: what changes the proposer")
    return picture.svg()


MOVES = (("3 4 5 6 : 24", "5 - 4 = 1"), ("1 3 6 : 24", "1 + 3 = 4"), ("4 6 : 24", "4 * 6 = 24"))
"""States of an episode and the move in each, the last of which is right; checked by a test."""


def episode() -> str:
    """docs/ladder.md: an episode in moves, each state a smaller problem."""
    picture = Diagram(228)
    picture.words((120, 14), "the game's prompt")
    picture.words((292, 14), "the prover's move")
    for i, (state, move) in enumerate(MOVES):
        top = 28 + 54 * i
        picture.words((10, top + 16), f"rung {4 - i}", PLAIN, ha="left")
        box = picture.box(60, top, 120, 32, state, "", EXACT)
        prover = picture.box(232, top, 120, 32, move, "", PROVER)
        picture.arrow(box.right, prover.left)
        picture.arrow(prover.at(0.4, 1), (180, top + 60))
        picture.words((274, top + 46), "restated" if i < 2 else "the target: reward 1", EXACT, ha="left")
    picture.box(60, 190, 120, 32, "24: right", "", EXACT)
    return picture.svg()


DIAGRAMS: dict[str, Callable[[], str]] = {
    "round": a_round,
    "pools": pools,
    "sgs": sgs,
    "critic-game": critic_game,
    "symbolic": symbolic,
    "episode": episode,
    "ladder": ladder,
    "headroom": headroom,
}
"""Name of the file in docs/assets/, without its ending -> what draws it."""
