# Tests: lab/cli/playground.py, lab/report/playground.py
"""`countdown-selfplay playground`: the page of a run, what it shows of each round, and what it refuses."""

import base64
import hashlib
import json
import re
from itertools import pairwise

import pytest
from tests.made_up_runs import printed, write_lines, write_run

from countdown_selfplay.cli.main import main
from countdown_selfplay.lab.report import load_run
from countdown_selfplay.lab.report.playground import playground, round_data, visible

ROUND = [
    {"role": "prover", "prompt": "8 1 3 : 9", "completion": "8 + 1 = 9", "reward": 0.1, "advantage": -0.45,
     "problem": "1,3,8=9", "reason": "unfinished", "rung": 3, "source": "proposal",
     "moves": [[[8, 1, 3], "8 + 1 = 9"]]},
    {"role": "prover", "prompt": "8 1 3 : 9", "completion": "3 * 1 = 3\n3 + 8 = 9", "reward": 0.1, "advantage": -0.45,
     "problem": "1,3,8=9", "reason": "arithmetic", "rung": 3, "source": "proposal",
     "moves": [[[8, 1, 3], "3 * 1 = 3"], [[3, 8], "3 + 8 = 9"]]},
    *[{"role": "prover", "prompt": "2 2 : 4", "completion": "2 + 2 = 4", "reward": 1.0, "advantage": 0.0,
       "problem": "2,2=4", "reason": "correct", "rung": 2, "moves": [[[2, 2], "2 + 2 = 4"]], "source": "data"}] * 2,
    {"role": "conjecturer", "prompt": "propose :", "completion": "8 1 3 = 9", "reward": 0.25, "advantage": 0.125,
     "problem": "1,3,8=9", "reason": "ok", "rung": 3, "solve_rate": 0.0},
    {"role": "conjecturer", "prompt": "propose :", "completion": "8 1 =", "reward": 0.0, "advantage": -0.125,
     "problem": None, "reason": "malformed"},
]  # fmt: skip
"""A round of two problems, of two answers each."""


def run_of(folder, rows, name="demo", **config):
    """A run folder whose samples are `rows`."""
    path = write_run(folder, name, rounds=4, evaluated=False, **config)
    write_lines(path / "samples.jsonl", rows)
    return path


def data_of(page):
    """What the page's script reads."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_a_page_in_the_run_folder_and_again(tmp_path, capsys):
    folder = write_run(tmp_path, "demo", rounds=3)
    assert printed(capsys, "playground", folder) == (0, f"{folder / 'playground.html'}\n", "")
    first = (folder / "playground.html").read_bytes()
    assert printed(capsys, "playground", folder)[0] == 0
    assert (folder / "playground.html").read_bytes() == first
    assert [one["round"] for one in data_of(first.decode())["rounds"]] == [1, 2, 3]


def test_a_round_is_proposals_with_their_pay_and_problems_with_their_answers(tmp_path):
    """Values read off ROUND: two of four answers are right, both of them equal; one of two proposals is valid."""
    run = load_run(run_of(tmp_path, [{"step": 2, **row} for row in ROUND]))
    found = round_data(2, run.samples, run)
    assert (found["round"], found["right"], found["answers"]) == (2, 2, 4)
    valid, refused = found["proposals"]["cards"]
    assert valid == {"text": "8 1 3 = 9", "reason": "ok", "good": True, "reward": 0.25, "advantage": 0.125,
                     "solve_rate": 0.0}  # fmt: skip
    assert (refused["good"], refused["reason"], refused["reward"]) == (False, "malformed", 0.0)
    assert found["proposals"]["prompt"] == "propose :"
    proposed, given = found["problems"]
    assert (proposed["problem"], proposed["rung"], proposed["source"]) == ("1,3,8=9", "3", "proposal")
    assert proposed["pay"] == {"reward": 0.25, "advantage": 0.125, "solve_rate": 0.0}
    assert [card["moves"] for card in proposed["groups"][0]["cards"]] == [
        [["8 1 3", "8 + 1 = 9"]],
        [["8 1 3", "3 * 1 = 3"], ["3 8", "3 + 8 = 9"]],
    ]
    assert given["source"] == "data" and "pay" not in given
    (same,) = given["groups"][0]["cards"]
    assert (same["count"], same["good"], same["reward"], same["advantage"]) == (2, True, 1.0, 0.0)


def test_players_and_texts_about_no_problem_are_kept(tmp_path):
    samples = [
        {"step": 1, "role": "prover/1", "completion": "a", "problem": "p", "reason": "correct", "reward": 1.0},
        {"step": 1, "role": "bandit", "completion": "left", "problem": None, "reason": "ok", "reward": 0.5},
    ]
    run = load_run(run_of(tmp_path, samples))
    found = round_data(1, run.samples, run)
    assert found["problems"][0]["groups"][0]["cards"][0]["player"] == "prover/1"
    assert [(group["title"], group["cards"][0]["text"]) for group in found["others"]] == [("Texts of bandit", "left")]


HOSTILE = [
    "</script><script>alert(1)</script>", "<!--<script>", "<img src=x onerror=alert(1)> & \" ' `",
    "{{ 7 * 7 }}{% raw %}", "\u202e3 + 5\u202c\u2066", "\x00\x07\x1b[31m\r\x7f\x85", "\ud800 x", "\u2028\u2029\u200b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_models_stay_texts(tmp_path, text):
    """Wherever a text may stand: nothing but the page's own tags is in the page, and what a character would do unseen
    is named."""
    row = {"step": 1, "role": f"prover/{text}", "prompt": text, "completion": text, "problem": text, "reason": text,
           "moves": [[text, text]], "source": text, "reward": 1.0, "advantage": 0.0}  # fmt: skip
    page = playground(load_run(run_of(tmp_path, [row])))
    tame = playground(load_run(run_of(tmp_path, [{**row, **dict.fromkeys(row, "tame"), "step": 1, "role": "prover"}],
                                      "demo2"))).replace("demo2", "demo")  # fmt: skip
    tags = re.compile(r"<[^>]*>|<!--")
    assert tags.findall(page) == tags.findall(tame)
    shown = data_of(page)["rounds"][0]["problems"][0]
    assert shown["problem"] == visible(text) == shown["groups"][0]["cards"][0]["moves"][0][1]
    for hidden in "\u202e\u2066\x00\x1b\u2028\u200b\ud800":
        assert hidden not in json.dumps(data_of(page), ensure_ascii=False)


def test_hidden_characters_are_named_and_the_script_that_may_run_is_the_page_s_own(tmp_path):
    """Numbers of the characters from the Unicode charts."""
    assert visible("a\u202eb\x1b\r\n\tc é 數") == "a‹U+202E›b‹U+001B›‹U+000D›\n\tc é 數"
    # The policy names the SHA-256 of the one script, and no host.
    page = playground(load_run(write_run(tmp_path, "demo", rounds=2)))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert "innerHTML" not in script and "http" not in script.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r'(src|href)="', page)
    # made_up_runs.py writes samples as releases before this page did: no advantage, moves, source or solve rate.
    page = playground(load_run(write_run(tmp_path, "old", rounds=2)))
    assert "Advantages, the states of moves and where a problem is from were not recorded" in page
    card = data_of(page)["rounds"][0]["problems"][0]["groups"][0]["cards"][-1]
    assert card["reward"] == 1.0 and "advantage" not in card


def test_ten_thousand_rounds_make_a_page_below_5_mb_that_says_what_it_left_out(tmp_path):
    """Each round has 8 samples of 200 characters, some 2.8 kB: 28 MB of samples. What is shown and what is named as
    left out are all rounds, each once."""
    row = {"role": "prover", "reward": 1.0, "advantage": 0.5, "reason": "correct"}
    samples = (
        {"step": step, "prompt": f"p{n}", "completion": f"{step} {n} " + "3 + 5 " * 33, "problem": f"{n},{step}=8"}
        for step in range(1, 10_001)
        for n in range(8)
    )
    path = run_of(tmp_path, (row | sample for sample in samples), samples_per_log=4)
    assert main(["playground", str(path)]) == 0
    page = (path / "playground.html").read_text()
    assert 4_000_000 < len(page.encode()) < 5_000_000
    data = data_of(page)
    shown = [one["round"] for one in data["rounds"]]
    assert shown[0] == 1 and shown[-1] == 10_000 and len(shown) == len(data["gaps"])
    steps = {b - a for a, b in pairwise(shown)}
    assert max(steps) - min(steps) <= 1  # evenly
    named = [int(end) for gap in data["gaps"] if gap for end in (gap.split(" to ") * 2)[:2]]
    left_out = [n for first, last in zip(named[::2], named[1::2], strict=True) for n in range(first, last + 1)]
    assert sorted(shown + left_out) == list(range(1, 10_001))
    assert f"{len(shown):,} of 10,000 logged rounds are shown" in page and f"{len(left_out):,} are left out" in page


@pytest.mark.parametrize(("damage", "message"), [
    (lambda path: (path / "samples.jsonl").unlink(), "holds no samples to step through.*--samples_per_log 1000"),
    (lambda path: (path / "samples.jsonl").write_text('{"step": 1}\n'), "sample 1: there is no `role`"),
    (lambda path: (path / "samples.jsonl").write_text('{"role": "prover"}'), "sample 1: there is no `step`"),
    (lambda path: (path / "playground.html").write_text("mine"), "exists and is not a playground page"),
])  # fmt: skip
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path, capsys, damage, message):
    path = write_run(tmp_path, "demo", rounds=2)
    damage(path)
    code, out, error = printed(capsys, "playground", path)
    assert (code, out, error.count("\n")) == (2, "", 1) and re.search(message, error)
    if "exists" in message:
        assert (path / "playground.html").read_text() == "mine"
