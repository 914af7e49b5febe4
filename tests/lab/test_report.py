# Tests: evaluation/findings.py, evaluation/load.py, lab/report/page.py
"""report.html from made-up run folders: what it shows, what it escapes, and what it says about damaged input."""

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from tests.made_up_runs import edited, write_lines, write_run

from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation import write_report
from countdown_selfplay.evaluation.findings import findings
from countdown_selfplay.lab.report import load_run, load_runs
from countdown_selfplay.lab.report.page import page
from countdown_selfplay.lab.report.tables import width_of
from countdown_selfplay.training.run import tell


class Page(HTMLParser):
    """Checks that tags are balanced; collects tags, attributes and visible text."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], "unclosed tags"

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)

    @property
    def flat(self):
        return " ".join(self.text.split())


def report(tmp_path, *folders):
    return Page(write_report(list(folders), tmp_path / "out" / "report.html").read_text(encoding="utf-8"))


def undrawn(*folders):
    """The page without its charts."""
    return Page(page(load_runs(list(folders)), {}))


def logged(folder, *rows, metrics=None):
    """The run of `folder` with these rounds instead of its own, and these declarations."""
    write_lines(folder / "metrics.jsonl", ({"step": i} | row for i, row in enumerate(rows, 1)))
    if metrics is not None:
        with edited(folder / "run.json") as description:
            description["metrics"] = metrics
    return load_run(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The page of a complete run, its text and its folder."""
    folder = write_run(tmp_path_factory.mktemp("whole"), "demo", push_api_key="sk-1")
    (folder / "plots").mkdir()
    (folder / "plots" / "old.svg").write_text("<svg/>")
    html = write_report([folder], folder / "report.html").read_text(encoding="utf-8")
    return Page(html), html, folder


def test_the_page_has_every_part_of_a_complete_run(whole):
    page, html, folder = whole
    for part in ("Before and after", "Health of the curriculum", "Curriculum", "Optimisation", "Examples"):
        assert part in page.words
    # Curriculum 7 and the heat map, prover 4, optimisation 4 (no loss, no clamp in these runs), texts and time 4; two
    # that are 0 in every round are named alone. Each is a file too, and those of an earlier report are gone.
    plots = sorted((folder / "plots").iterdir())
    assert page.tags.count("svg") == len(plots) == 20 and "old.svg" not in [plot.name for plot in plots]
    assert {ElementTree.parse(plot).getroot().tag for plot in plots} == {"{http://www.w3.org/2000/svg}svg"}
    assert "Answers with several tags · Starved rounds" in page.words
    for words in ("Self-play: demo", "target band", "512 held-out problems, 16 answers each", "No health limit is"):
        assert words in page.text
    assert "prover pass@1 0.330 [0.310, 0.350] 0.430 [0.410, 0.450] +0.100 [+0.080, +0.120]" in page.flat
    # two independent estimates of .02 on each side: sqrt(.02^2 + .02^2) = .028
    assert "conjecturer solve rate 0.500 [0.480, 0.520] 0.600 [0.580, 0.620] +0.100 [+0.072, +0.128]" in page.flat
    marks = re.findall(r'<b class="(up|down|same)">([^<]*)<', html)  # coloured: intervals that exclude 0
    prover = [("up", "+0.100"), ("same", "+0.050"), ("down", "-0.030"), ("same", "+0.000")]
    assert marks == prover + [("up", "+0.100")] * 5  # the conjecturer's five rates, each .1 higher


def test_the_page_loads_nothing_runs_nothing_and_holds_no_secret(whole):
    page, html, _ = whole
    assert not {"script", "link", "img", "iframe", "object", "embed", "image", "base", "form"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"src", "href", "srcset", "action"} & names and not any(n.startswith("on") for n in names)
    inside = [value for name, value in page.attributes if name == "xlink:href"] + re.findall(r"url\((.*?)\)", html)
    assert inside and all(value.startswith("#") for value in inside)  # marks and clips that a picture uses again
    hosts = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"' <]*", html)) == hosts and "@import" not in html
    assert "hf_secret" not in html and "sk-1" not in html
    assert "<script>alert(1)</script> & <b>3 * 5</b> + 7" in page.text  # as the model wrote it


def test_names_and_settings_are_escaped_and_equal_runs_give_equal_pages_and_plots(tmp_path):
    folder = write_run(tmp_path, "a", name_of_reward="<i>x</i>")
    with edited(folder / "run.json") as description:
        description["name"] = "<img src=x onerror=alert(1)>"
    shown = undrawn(folder)
    assert "img" not in shown.tags and "i" not in shown.tags
    assert "<img src=x onerror=alert(1)>" in shown.text and "<i>x</i>" in shown.text
    folder = write_run(tmp_path)
    first = write_report([folder], tmp_path / "1.html").read_bytes()
    plots = {p.name: p.read_bytes() for p in (folder / "plots").iterdir()}
    assert write_report([folder], tmp_path / "2.html").read_bytes() == first
    assert {p.name: p.read_bytes() for p in (folder / "plots").iterdir()} == plots


def test_nan_and_infinity_are_absent_and_never_printed(tmp_path):
    folder = write_run(tmp_path)
    with edited(folder / "metrics.jsonl") as rows:
        rows[5] |= {"prover/reward": float("nan"), "prover/kl": float("inf")}
        rows[5] |= {"conjecturer/reward": None, "prover/entropy": "x"}
    page = report(tmp_path, folder)
    assert not re.search(r"\b(nan|inf|infinity)\b", page.text, re.IGNORECASE)
    assert not any(re.search(r"nan|inf", value or "", re.IGNORECASE) for name, value in page.attributes if name == "d")
    run = load_run(folder)
    assert 6 not in dict(run.series("prover/reward")) and len(run.series("prover/reward")) == 119


def test_several_runs_are_compared_side_by_side(tmp_path):
    first = write_run(tmp_path, "truncating", starved=0.7, fill="truncate", seed=1)
    text = report(tmp_path, first, write_run(tmp_path, "fixed", evaluated=False, seed=2)).flat
    assert "Self-play: truncating and fixed" in text
    assert "Settings that differ field truncating fixed fill truncate anchor" in text
    above, below = text.split("All settings", 1)
    assert "output_dir" in below and "output_dir" not in above
    assert all(f"Solve rates of conjectured problems: {name}" in text for name in ("truncating", "fixed"))
    assert text.count("mean") >= 2 and "rounds > 0" in text


def test_the_health_table_has_mean_maximum_and_share_of_rounds(tmp_path):
    folder = write_run(tmp_path, rounds=4)
    without = {"round/starved": 1.0, "conjecturer/admitted_rate": 0.0}
    second = {"round/starved": 0.0, "conjecturer/admitted_rate": 0.25, "round/solve_rate_mean": 0.2}
    fourth = {"round/starved": 0.0, "conjecturer/admitted_rate": 0.5, "round/solve_rate_mean": 0.5}
    logged(folder, without, second, without, fourth)
    text = undrawn(folder).flat
    assert "admitted proposals 0.188 0.5 50%" in text  # (.25 + .5) / 4 = .1875
    # the mean of the two rounds that have one, the share of all four
    assert "solve rate of conjectured problems 0.1 to 0.8 0.35 ✓ 0.5 50%" in text
    assert "starved rounds 0 0.5 ✗ 1 50%" in text  # healthy: 0


def test_a_run_of_two_rounds_or_of_none_or_without_samples_and_evaluation_still_has_a_page(tmp_path):
    short = write_run(tmp_path, "short", rounds=2, evaluated=False)
    (short / "samples.jsonl").unlink()
    page = report(tmp_path, short)
    assert "Examples" not in page.words and "Before and after" not in page.words and "Curriculum" in page.words
    assert "Solve rate of the problems" in page.text and "nan" not in page.text.lower().replace("financ", "")
    # they do not overlap
    assert [width_of(SimpleNamespace(steps=[n])) for n in (8, 6, 1, 0)] == [4, 3, 0, 0]
    folder = write_run(tmp_path, evaluated=False)
    (folder / "metrics.jsonl").write_text("")
    (folder / "samples.jsonl").write_text("")
    page = report(tmp_path, folder)
    assert any(text.startswith("No round was logged.") for text in page.words) and "svg" not in page.tags
    with edited(folder / "run.json") as description:
        description["config"]["logging_strategy"] = "no"
    assert not any(text.startswith("No round was logged.") for text in report(tmp_path, folder).words)


def test_rounds_after_a_rollback_count_once_and_runs_of_one_name_are_told_apart(tmp_path):
    folder = write_run(tmp_path, rounds=3)
    rates = ((1, 0.1), (2, 0.2), (3, 0.3), (2, 0.6), (3, 0.7))
    write_lines(folder / "metrics.jsonl", ({"step": step, "prover/reward": rate} for step, rate in rates))
    assert load_run(folder).series("prover/reward") == [(1, 0.1), (2, 0.6), (3, 0.7)]
    runs = load_runs([write_run(tmp_path / name, "x") for name in ("a", "b")])
    found = Page(page(runs, {}))
    assert "a/x" in found.words and "b/x" in found.words


def test_what_is_not_healthy_is_said_at_the_top(tmp_path):
    folder = write_run(tmp_path, starved=0.71, drift=0.7)
    tripped = '{"step": 60, "trip": "%s", "to": "checkpoint-50"}\n'
    (folder / "rollbacks.jsonl").write_text(tripped % "parseable rate under 0.5")
    run = load_run(folder)
    starved = sum(value for _, value in run.series("round/starved"))
    sentences = findings(run)
    assert sentences[0].startswith(f"The conjecturer was starved: in {starved / 120:.0%} of 120 logged rounds")
    assert sentences[1] == "The collapse guard rolled back at round 60 to checkpoint-50: parseable rate under 0.5."
    late = [value for step, value in run.series("round/solve_rate_mean") if step >= 1 + 0.8 * 119]
    rate = f"{sum(late) / len(late):.3g} in the last fifth of the rounds (healthy: 0.1 to 0.8"
    assert any(said.startswith(f"The solve rate of conjectured problems was {rate}") for said in sentences)
    shown = undrawn(folder)
    assert all(sentence in shown.words for sentence in sentences)
    (folder / "rollbacks.jsonl").write_text(tripped % "conjecturer/parseable_rate is 0.4, under 0.5")
    said = findings(load_run(folder))[1]
    advice = "Lower the conjecturer's learning rate or raise its beta."  # the guard's own
    assert said.endswith(f"the share of readable proposals is 0.4, under 0.5. {advice}")


def test_a_loss_of_coverage_is_said_and_a_change_that_may_be_none_is_not(tmp_path):
    """Of the largest k alone, and only where the interval excludes 0: here pass@16 may be unchanged, pass@8 fell."""
    folder = write_run(tmp_path)
    assert not any("coverage" in sentence for sentence in findings(load_run(folder)))
    with edited(folder / "evaluation.json") as evaluation:
        evaluation["difference"]["pass@16"] = [-0.12, -0.15, -0.09]
        evaluation["after"]["prover"]["pass_at"]["16"] = {"value": 0.73, "low": 0.7, "high": 0.76}
    (said,) = [sentence for sentence in findings(load_run(folder)) if "coverage" in sentence]
    assert said == (
        "The prover lost coverage: pass@16 fell from 0.850 to 0.730 (-0.120 [-0.150, -0.090]). With 16 answers each "
        "it solves fewer held-out problems than before training. Raise `prover_entropy_coef`, take the objective "
        "`maxrl` or `pass_at_k`, or ask for harder problems."
    )
    assert said in undrawn(folder).words


def test_the_rows_of_a_control_stand_beside_the_runs_with_their_difference(tmp_path):
    folder = write_run(tmp_path)
    assert "conjecturer cost" not in undrawn(folder).flat
    sides = {
        side: {"prover": {"pass_at": {"1": {"value": a, "low": a - 0.02, "high": a + 0.02}, "16": [b, b, b]}}}
        for side, a, b in (("control", 0.31, 0.8), ("run", 0.355, 0.77))
    }
    changes = {"pass@1": [0.045, 0.021, 0.069], "pass@16": [-0.03, -0.05, -0.01]}
    (folder / "control.json").write_text(json.dumps({**sides, "difference": changes}))
    text = undrawn(folder).flat
    assert "prover pass@1 0.310 [0.290, 0.330] 0.355 [0.335, 0.375] +0.045 [+0.021, +0.069]" in text
    assert "The conjecturer cost the prover pass@16: -0.030 [-0.050, -0.010] against the run without it" in text
    assert "cost the prover pass@1:" not in text
    other = write_run(tmp_path, "other", seed=1)
    head = "With and without the conjecturer demo without with difference"
    assert head in undrawn(folder, other).flat  # the other run has no control
    with edited(folder / "control.json") as control:
        control["difference"]["pass@1"][0] = "x"
    with pytest.raises(DataError, match=r"control.json' does not say .* \(ValueError: \['x', 0.021, 0.069\] is no va"):
        undrawn(folder)


def test_a_mean_outside_the_healthy_range_at_the_end_is_said_and_what_nobody_can_read_first(tmp_path):
    """By hand: too many tags in the last fifth, rounds 13 to 15, as before, and cut texts in the first three rounds
    alone, which is over; the parseable rate of the last fifth is .4, under the guard's .5, and was .95 before."""
    rows = [{"conjecturer/parseable_rate": 0.95, "prover/truncated_rate": float(i < 3) / 2} for i in range(12)]
    rows += [{"conjecturer/parseable_rate": 0.4, "prover/truncated_rate": 0.0}] * 3
    rows = [{"prover/several_answers_rate": 0.1} | row for row in rows]
    end = "in the last fifth of the rounds (healthy: at"
    tags = f"The share of answers with several tags was 0.1 {end} most 0.01). "
    tags += "Set the model's end token, or a stop string (`prover_stop`)."
    unread = f"The share of readable proposals was 0.4 {end} least 0.7; the guard's range: 0.5 to 1)."
    lost = "It was 0.95 in the first round: training lost it. Lower the conjecturer's learning rate or raise its beta."
    assert findings(logged(write_run(tmp_path), *rows)) == [f"{unread} {lost}", tags]
    rows = [row | {"conjecturer/parseable_rate": 0.4} for row in rows]  # it never could
    never = findings(logged(tmp_path / "demo", *rows))
    assert never[0].startswith(unread) and "warm-start it (`countdown-selfplay sft --role conjecturer`)" in never[0]


def test_a_last_fifth_is_judged_if_it_is_long_and_does_not_mend_itself_by_the_ranges_that_the_run_declared(tmp_path):
    """Readable proposals of .5 in the first three of 15 rounds are .2 under .7; .6 at the end is .1 under it."""
    folder = write_run(tmp_path)
    for last, faults in ((0.61, 0), (0.59, 1)):
        rates = [0.5] * 3 + [0.55] * 9 + [last] * 3
        assert len(findings(logged(folder, *[{"conjecturer/parseable_rate": rate} for rate in rates]))) == faults
    # The last fifth of ten rounds is two: .1 in one of them is chance, and the mean over the run is .19.
    rows = [{"round/solve_rate_std": 0.2}] * 9 + [{"round/solve_rate_std": 0.1}]
    assert findings(logged(folder, *rows)) == []
    # Answers in moves, two rungs: most groups may be without signal; a single rung is judged.
    row = {"round/too_hard_share": 0.8, "prover/zero_signal_groups": 0.9, "prover/moves": 2.0}
    row |= {"round/rung_3_played": 8}
    assert findings(logged(folder, *[row | {"round/rung_9_played": 8}] * 3)) == []
    assert len(findings(logged(folder, *[row] * 3))) == 2
    rows = [{"conjecturer/parseable_rate": 0.4, "round/surprise": 0.3}]
    own = {"conjecturer/parseable_rate": {"healthy": [0.3, None]}, "round/surprise": {"trip": [None, 0.2]}}
    said = "Surprise was 0.3 over the run (the guard's range: at most 0.2)."
    assert findings(logged(folder, *rows, metrics=own)) == [said]


def test_the_terminal_has_the_reports_findings_above_the_table_and_none_of_a_healthy_run(tmp_path, capsys):
    """A run in which nothing can be read; its evaluation stands at 0 of 4 problems before and after."""
    folder = write_run(tmp_path, evaluated=False)
    nothing = {"round/starved": 1.0, "conjecturer/parseable_rate": 0.0, "prover/zero_signal_groups": 1.0}
    run = logged(folder, *[nothing] * 4)
    pass_at = {"1": {"value": 0.0, "low": 0.0, "high": 0.49}}
    side = {"prover": {"correct": [0] * 4, "n": 2, "pass_at": pass_at}}
    tell(folder, side, side, report=False)
    said = capsys.readouterr().out.splitlines()
    found = findings(run)
    assert len(found) == 3 and all(sentence.count(". ") and sentence.endswith(".") for sentence in found)
    assert said[1:6] == ["", f"Not healthy in {folder}:", *(f"- {sentence}" for sentence in found)]
    assert said[-1].startswith("prover pass@1") and "before" in said[-3]
    logged(folder, {"round/starved": 0.0, "conjecturer/parseable_rate": 0.95})
    tell(folder, side, side, report=False)
    assert "Not healthy" not in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["run.json", "metrics.jsonl"])
def test_a_folder_that_is_no_run_and_text_that_is_not_utf8_are_refused(tmp_path, missing):
    folder = write_run(tmp_path, "demo")
    (folder / "samples.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"samples\.jsonl' cannot be read: it is not UTF-8 text"):
        load_run(folder)
    (folder / missing).unlink()
    with pytest.raises(DataError, match=f"is not a run folder: it has no {missing}"):
        write_report([folder], tmp_path / "r.html")
