# Tests: cli/eval.py, evaluation/summary.py
"""`countdown-selfplay eval` of the ladder's models: problems by rung, their figures, and what is refused."""

import json
import re
from itertools import groupby

import pytest

from countdown_selfplay.cli import main
from countdown_selfplay.statistics.pass_at_k import pass_at_k


def evaluate(capsys, *arguments):
    code = main.main(["eval", "--disable_tqdm", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_equally_many_problems_of_each_rung_are_scored_and_an_interrupted_file_goes_on(tmp_path, capsys):
    output = tmp_path / "eval.jsonl"
    asked = ("--model", "tiny-ladder", "--rungs", 3, 4, 5, "--problems_per_rung", 4, "--samples", 4)
    asked += ("--output", output)
    code, out, _ = evaluate(capsys, *asked)
    assert code == 0 and "setting of the ladder's models" in out and "majority" not in out and "operands" not in out
    result, whole = json.loads(output.with_suffix(".json").read_text()), output.read_text()
    rows = sorted(map(json.loads, whole.splitlines()[1:]), key=lambda row: row["index"])
    assert len(rows) == 3 * 4 * 4 and {row["rung"] for row in rows} == {3, 4, 5}
    for rung, found in result["by_rung"].items():  # recounted from the rows
        own = [row for row in rows if str(row["rung"]) == rung]
        counts = [sum(r["reason"] == "correct" for r in rs) for _, rs in groupby(own, lambda row: row["index"])]
        assert found["correct"] == counts and found["problems"] == 4
        for k in (1, 2, 4):
            mean = sum(pass_at_k(4, c, k) for c in counts) / 4
            assert found["pass_at"][str(k)]["value"] == pytest.approx(mean)
    assert result["ladder"]["rungs"] == [4, 5]
    four, five = (result["by_rung"][rung]["pass_at"]["1"]["value"] for rung in ("4", "5"))
    assert result["ladder"]["pass_at"]["1"]["value"] == pytest.approx((four + five) / 2)
    three = result["by_rung"]["3"]["pass_at"]["4"]["value"]
    assert three > 0 and re.search(rf"^pass@4, rung 3 +{three:.4f} +\[", out, re.MULTILINE)
    output.write_text(whole[: len(whole) // 2])
    assert evaluate(capsys, *asked)[0] == 0 and output.read_text() == whole


def test_the_rungs_of_a_file_and_of_the_score_are_chosen(tmp_path, capsys):
    file, output = tmp_path / "p.jsonl", tmp_path / "eval.json"
    sets = [[1, 2, 3], [2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4, 5]]
    file.write_text("".join(json.dumps({"nums": nums, "target": 5}) + "\n" for nums in sets))
    chosen = ("--problems", file, "--rungs", 3, 4, "--problems_per_rung", 1, "--ladder_rungs", 3, 4)
    code, out, _ = evaluate(capsys, "--model", "tiny-ladder", "--samples", 2, "--output", output, *chosen)
    result = json.loads(output.read_text())
    assert code == 0 and result["keys"] == ["1,2,3=5", "1,2,3,4=5"]
    assert result["ladder"]["rungs"] == [3, 4] and "pass@1, rungs 3, 4" in out
