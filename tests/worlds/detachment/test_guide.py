# Tests: worlds/detachment/guide.py
"""The rubric for lemmas, by hand."""

import pytest

from countdown_selfplay.worlds.detachment import read
from countdown_selfplay.worlds.detachment.guide import DetachmentHelping, rubric


def formula(text):
    return read(text).problem


@pytest.mark.parametrize(("target", "lemma", "relevance"), [
    ("CpCqq", "CrCsCtt", 5),  # detached with an axiom it is CsCtt
    ("CpCqq", "CpCqq", 0),  # itself
    ("CpCqq", "CrCCstr", 0),  # an instance of axiom 1
    ("CNpNp", "Cqq", 5),  # the target is an instance
    ("CpCqq", "Cpp", 5),  # D1 on the lemma: CqCpp
    ("CpCqCrr", "Cpp", 4),  # D1D1
    ("CpCqq", "CNpCqq", 3),  # an instance of the target
    ("CCpNqCqNp", "CNNrr", 1),
    ("CCpNqCqNp", "CCCrNstCCrNst", 2),  # CrNs
])  # fmt: skip
def test_relevance(target, lemma, relevance):
    assert rubric(formula(target), formula(lemma)).relevance == relevance


def test_redundancy_and_complexity_by_hand_are_what_the_guide_sees():
    assert rubric(formula("Cpp"), formula("CqCpp")).redundancy == 1  # Cpp holds without q
    assert rubric(formula("Cpp"), formula("CCpqCCqrCpr")).redundancy == 0  # the syllogism needs all three
    assert rubric(formula("Cpp"), formula("CCpqCCqrCsCpr")).redundancy == 1  # s is idle
    target = formula("CCpqCCqrCpr")  # 11 signs, 3 variables, depth 3
    assert rubric(target, formula("CNNpp")).complexity == 1  # NN alone
    # 13 signs, 4 variables, depth 4 (NNs below three C)
    assert rubric(target, formula("CCpqCCqrCsCpr")).complexity == 3
    assert rubric(target, formula("CCpqCCqrCNNsCpr")).complexity == 4
    assert rubric(target, formula("CCpqCCqrCNNsCpr")).score == 0
    helping = DetachmentHelping()
    found = helping.review(formula("CpCqq"), formula("Cpp"), "DD211")
    assert found == rubric(formula("CpCqq"), formula("Cpp"))
    assert found.score == 5 + 2 + 1  # nothing redundant (Cpp without its premise is p), nothing complex
