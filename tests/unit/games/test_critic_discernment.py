# Tests: games/critic_discernment.py
"""The Critic-Discernment Game without a model: what each role earns, derived by hand from equations 1 to 3."""

from types import SimpleNamespace

import pytest

from countdown_selfplay.contract.critique import MARKER, NOT_CRITICAL
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.testing import ScriptedRound, in_ranks

CHAT = CountdownDomain()  # answers in tags, critiques with the paper's marker
PROBLEM = Problem((3, 5, 7), 22)
RIGHT, WRONG = "<answer>3 * 5 + 7</answer>", "<answer>3 + 5 + 7</answer>"
NO_BASELINE = {role: make_objective("reinforce") for role in ("prover", "helpful", "misleading")}
CRITIQUE = f"Step: ... {MARKER} '3'. The issue is: '5'."


def play(answers, critiques, revisions, sizes=None, domain=CHAT, problems=(PROBLEM,), eta=0.5, **settings):
    """One round with one question. answers: of the prover, in order; critiques: kind -> texts for each row;
    revisions: texts of each revision row."""

    def write(player, row, i):
        if player != "prover":
            return critiques[player][i]
        said = row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"]
        return revisions[i] if "Please check with this critic" in said else answers[i]

    sizes = sizes or {kind: (10_000, len(texts)) for kind, texts in {"prover": answers, **critiques}.items()}
    made = ScriptedRound(write, sizes, domain, objectives=NO_BASELINE)
    game = CriticDiscernment(eta, revisions=len(revisions), **settings)
    return game.play(made, list(problems)), made


def rewards(result):
    return [(turn.rollout.role, [round(float(r), 6) for r in turn.rewards_B]) for turn in result.turns]


def test_a_wrong_answer_earns_the_share_of_revisions_that_mend_it_and_so_does_its_critique():
    """Mended, mended, wrong again, a right answer beside a rejection (the rejection leaves the wrong answer standing):
    2 of 4, without eta."""
    ends = [RIGHT, RIGHT, WRONG, f"{RIGHT} {NOT_CRITICAL}"]
    result, made = play([WRONG, WRONG], {"helpful": [CRITIQUE, CRITIQUE], "misleading": [CRITIQUE]}, ends)
    assert rewards(result) == [
        ("prover", [0.5, 0.5]), ("prover", [1, 1, 0, 0] * 4), ("helpful", [0.5] * 4), ("misleading", []),
    ]  # fmt: skip
    assert result.metrics["prover/corrected_rate"] == result.metrics["helpful/win_rate"] == 0.5
    assert len(made.rows["helpful"]) == 2 and made.rows["misleading"] == []


@pytest.mark.parametrize(("said", "shown"), [
    (CRITIQUE, f"{MARKER} '3'. The issue is: '5'."),
    ("", None),
    (MARKER, None),
    (f"{CRITIQUE} {CRITIQUE}", None),
    ("The first mistake is in 3 + 5", None),
    (f"{CRITIQUE} {RIGHT}", f"{MARKER} '3'. The issue is: '5'. {RIGHT}"),  # the paper filters no leaks
])  # fmt: skip
def test_a_critique_without_exactly_one_marker_is_not_shown_and_earns_nothing(said, shown):
    result, made = play([WRONG, WRONG], {"helpful": [CRITIQUE, said]}, [RIGHT, RIGHT])
    asked = [row["prompt"][-1]["content"] for row in made.rows["prover"][1:]]
    assert len(asked) == (2 if shown is None else 4)
    assert rewards(result)[2] == ("helpful", [1.0, 0.0 if shown is None else 1.0] * 2)
    assert result.metrics["helpful/read_rate"] == (0.5 if shown is None else 1.0)
    assert result.turns[2].shown == [CRITIQUE[CRITIQUE.index(MARKER) :], shown] * 2 and result.turns[0].shown is None
    if shown is not None:
        assert f'Please check with this critic. "{shown}"' in asked[1]


def test_an_answer_that_nobody_criticises_stands_and_a_round_has_as_many_questions_as_slots():
    """Without a misleading critic (an ablation of section 5.2) a right answer earns 1 + eta."""
    result, _ = play([RIGHT, WRONG], {"helpful": [CRITIQUE]}, [WRONG, RIGHT])
    assert rewards(result)[0] == ("prover", [1.5, 0.5])
    result, _ = play([RIGHT, WRONG], {"helpful": [""], "misleading": [""]}, [RIGHT])
    assert rewards(result) == [("prover", [1.5, 0.0]), ("prover", []), ("helpful", [0]), ("misleading", [0])]
    texts = {"helpful": [CRITIQUE], "misleading": [CRITIQUE]}
    asked = [PROBLEM, Problem((3, 5, 7), 15), Problem((3, 5, 7), 26)]
    sizes = {"prover": (2, 1), "helpful": (2, 1), "misleading": (2, 1)}
    result, _ = play([RIGHT], texts, [RIGHT], sizes, problems=asked)
    assert [key for key, _, _ in result.solved] == [asked[0].key, asked[1].key]
    # 3 problems of 2 answers, all wrong: 6 answers with 4 critiques each, 24, and 2 revisions of each, 48; all right:
    # 6 critiques, 12 revisions.
    found = CriticDiscernment(revisions=2).planned(3, {"prover": 2, "helpful": 4, "misleading": 1})
    assert found == {"prover": 6 + 48, "helpful": 24, "misleading": 6}
    assert CriticDiscernment().planned(3, {"prover": 2}) == {"prover": 6}


UNBOXED = "This critic is not critical."


@pytest.mark.parametrize(("first", "end", "outcome"), [
    (RIGHT, UNBOXED, "unclear"),  # the authors' code counts neither as misled nor as resisted
    (RIGHT, f"{WRONG} {UNBOXED}", "unclear"),
    (RIGHT, f"{RIGHT} {UNBOXED}", "unclear"),
    (RIGHT, NOT_CRITICAL * 2, "unclear"),
    (RIGHT, f"{UNBOXED} {NOT_CRITICAL}", "resisted"),  # one boxed
    (RIGHT, f"{RIGHT} {NOT_CRITICAL}", "resisted"),
    (RIGHT, f"{WRONG} {NOT_CRITICAL}", "resisted"),
    (RIGHT, "I do not know.", "misled"),  # no answer is not the right one
    (RIGHT, "", "misled"),
    (RIGHT, RIGHT, "kept"),
    (WRONG, f"{RIGHT} {UNBOXED}", "not_corrected"),
    (WRONG, f"{WRONG} {NOT_CRITICAL}", "not_corrected"),
    (WRONG, WRONG, "not_corrected"),
    (WRONG, RIGHT, "corrected"),
])  # fmt: skip
def test_ends_as_the_authors_code_tests_them(first, end, outcome):
    """select_round2.py and select_mislead_critic.py: corrected = right and the sentence nowhere, boxed or not;
    resisted = the boxed sentence exactly once; misled = not right and the sentence nowhere."""
    result, _ = play([first], {"helpful": [CRITIQUE], "misleading": [CRITIQUE]}, [end])
    assert result.turns[1].labels == [outcome]
    (lost,) = [turn for turn in result.turns[2:] if turn.rollout.texts]
    assert [float(r) for r in lost.rewards_B] == [float(outcome in ("misled", "corrected"))]


def test_both_critics_get_the_same_prompt_and_every_outcome_is_among_the_samples():
    _, made = play([RIGHT, WRONG], {"helpful": [CRITIQUE], "misleading": [CRITIQUE]}, [RIGHT])
    (helpful,), (misleading,) = (made.rows[kind] for kind in ("helpful", "misleading"))
    texts = [row["prompt"][0]["content"] for row in (helpful, misleading)]
    assert texts[0].replace(WRONG, RIGHT) == texts[1] and "[Wrong Answer]" in texts[1]
    ends = [NOT_CRITICAL, WRONG, RIGHT, NOT_CRITICAL * 2]
    result, _ = play([RIGHT, WRONG], {"helpful": [CRITIQUE], "misleading": [CRITIQUE]}, ends, samples_per_log=0)
    found = {sample["reason"]: sample for sample in result.samples}
    assert set(found) == {"resisted", "misled", "kept", "unclear", "corrected", "not_corrected"}
    chat = found["corrected"]["prompt"]
    assert [turn["role"] for turn in chat] == ["system", "user", "assistant", "user"] and chat[2]["content"] == WRONG
    result, _ = play([RIGHT, WRONG], {"helpful": [CRITIQUE], "misleading": [CRITIQUE]}, [RIGHT], first_credit="answer")
    # The only revision of each is right: both episodes succeed, and yet a wrong first answer is nothing to imitate.
    assert rewards(result)[:2] == [("prover", [1, 0]), ("prover", [1, 1.5])]


def test_on_two_processes_the_metrics_are_those_of_both_and_a_role_may_have_no_row_on_one():
    """The first process answers rightly and is misled in 1 of 2, the second wrongly and mended in 2 of 2."""
    other = Problem((2, 3, 4), 24)

    def on(rank, gather):
        first = RIGHT if rank == 0 else "<answer>2 + 3 + 4</answer>"
        ends = [WRONG, NOT_CRITICAL] if rank == 0 else ["<answer>2 * 3 * 4</answer>"] * 2

        def write(player, row, i):
            if player != "prover":
                return CRITIQUE
            return ends[i] if len(row["prompt"]) > 2 else first

        sizes = {"prover": (6, 2), "helpful": (4, 1), "misleading": (4, 1)}
        made = ScriptedRound(write, sizes, CHAT, rank=rank, world=2, gather=gather, objectives=NO_BASELINE)
        return CriticDiscernment(revisions=2).play(made, [PROBLEM, other])

    results = in_ranks(2, on)
    assert results[0].metrics == results[1].metrics and results[0].solved == results[1].solved
    found = results[0].metrics
    assert (found["prover/success_rate"], found["misleading/win_rate"], found["helpful/win_rate"]) == (0.75, 0.5, 1.0)
    assert results[0].solved == [(PROBLEM.key, 2, 2), (other.key, 0, 2)]
    assert [len(turn.rewards_B) for turn in results[0].turns] == [2, 4, 0, 2]


def test_the_tiny_form_names_a_step_and_answers_with_a_word():
    tiny = CountdownDomain.tiny()
    asked = {}

    def write(player, row, i):
        asked[row["prompt"]] = True
        if player == "helpful":
            return ["5 + 3", "3 * 5 + 7", "3 +"][i]  # no step as it is written; gives the solution away; no expression
        if player == "misleading":
            return ["3 * 5", "( 3 * 5 ) + 7", "right"][i]
        return "right" if row["prompt"].startswith("again") else ["3 * 5 + 7", "3 + 5 + 7"][i]

    sizes = {"prover": (49, 2), "helpful": (33, 3), "misleading": (33, 3)}
    made = ScriptedRound(write, sizes, tiny, objectives=NO_BASELINE)
    result = CriticDiscernment(revisions=1, eta=0.25).play(made, [PROBLEM])
    assert "critic 3 5 7 = 22 : 3 + 5 + 7 :" in asked and "critic 3 5 7 = 22 : 3 * 5 + 7 :" in asked
    again = [prompt for prompt in asked if prompt.startswith("again")]
    assert again == [f"again 3 5 7 = 22 : 3 * 5 + 7 : {step} :" for step in ("3 * 5", "3 * 5 + 7")]
    assert rewards(result) == [
        ("prover", [1.25, 0]), ("prover", [1.25] * 2), ("helpful", [0] * 3), ("misleading", [0] * 3),
    ]  # fmt: skip


def test_a_prover_that_imitates_what_is_right_may_be_set():
    kinds = ("prover", "helpful", "misleading")
    roles = {kind: SimpleNamespace(role=kind, objective="rloo") for kind in kinds}
    rest = SimpleNamespace(players_by_kind={kind: [kind] for kind in kinds}, all_roles=roles)
    rest.all_roles["prover"].objective, rest.all_roles["prover"].objective_kwargs = "rest", {"tau": 0.75}
    CriticDiscernment(first_credit="answer").check(rest)  # a right answer given up earns 0.5
    rest.all_roles["prover"].objective_kwargs = {}
    CriticDiscernment(eta=0.25, first_credit="answer").check(rest)
