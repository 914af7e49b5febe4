# Tests: contract/metric.py, contract/trainer_metrics.py, proposers/metrics.py
"""Declarations of metrics: one per player, found by the logged name, written into a run folder and read again."""

from countdown_selfplay.contract.metric import UNBOUNDED, Metric, declaration_of, for_players
from countdown_selfplay.contract.trainer_metrics import TRAINER_METRICS
from countdown_selfplay.games.metrics import CRITIC_METRICS, METRICS
from countdown_selfplay.guides.judge import Judge
from countdown_selfplay.proposers.metrics import PROPOSER_METRICS


def test_one_declaration_per_player_and_a_word_only_where_it_says_which():
    declared = [Metric("round/a", "", word="a"), Metric("{prover}/b", "", word="b"), Metric("lr/{role}", "", word="c")]
    found = for_players([*declared, Metric("{critic}/d", "")], {"prover": ["prover/0"], "critic": []})
    assert [(m.name, m.word) for m in found] == [("round/a", "a"), ("prover/0/b", "b"), ("lr/prover/0", "c")]
    found = for_players(declared, {"prover": ["prover/0", "prover/1"], "judge": ["judge"]})
    names = ["round/a", "prover/0/b", "prover/1/b", "lr/prover/0", "lr/prover/1", "lr/judge"]
    assert [(m.name, m.word) for m in found] == [(name, "a" if name == "round/a" else "") for name in names]
    assert for_players([Metric("{conjecturer}/x", "")], {"prover": ["prover"]}) == []


def test_a_logged_name_leads_to_its_declaration():
    declared = [Metric("a.b/c", "1"), Metric("eval_pass@<k>", "2"), Metric("x/<name>/y", "3")]
    assert declaration_of("a.b/c", declared) == declared[0]
    assert declaration_of("eval_pass@16", declared) == Metric("eval_pass@16", "2")
    assert declaration_of("x/of mine/y", declared) == Metric("x/of mine/y", "3")
    for name in ("a_b/c", "eval_pass@", "eval_pass@<k>", "x//y", "x/z/y/w"):
        assert declaration_of(name, declared) is None


def test_every_shipped_metric_that_a_report_finds_fault_with_says_what_to_do():
    shipped = (*TRAINER_METRICS, *METRICS, *CRITIC_METRICS, *PROPOSER_METRICS)
    judged = [metric for metric in (*shipped, *Judge.metrics) if metric.healthy != UNBOUNDED or metric.trip]
    assert len(judged) > 20
    assert [metric.name for metric in judged if not (metric.cure[:1].isupper() and metric.cure.endswith("."))] == []
    assert Metric("a", "A share.", cure="Do this.").explained == "A share. Do this."
