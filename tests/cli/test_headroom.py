"""`countdown-selfplay headroom` on the embedded ladder, as small as it gets."""

import json

from countdown_selfplay.cli import main
from countdown_selfplay.proposers.rung_oracle import read_gains

SIZES = {"rounds": 2, "stage": 1, "probe": 1, "problems": 2, "samples": 16}
SMALL = [word for name, size in SIZES.items() for word in (f"--gate_{name}", str(size))] + ["--operands", *"3456"]


def test_the_gates_are_measured_and_written(tmp_path, capsys):
    assert main.main(["headroom", "--recipe", "tiny/ladder", "--output_dir", str(tmp_path), *SMALL]) == 0
    folder = tmp_path / "headroom"
    found = json.loads((folder / "headroom.json").read_text())
    assert [gate["number"] for gate in found["gates"]] == [1, 2, 3, 4]
    assert found["verdict"] in capsys.readouterr().out
    assert sorted(path.name for path in folder.glob("*.svg"))[:2] == ["gate_1.svg", "gate_2.svg"]
    assert set(found["gates"][3]["figures"]["mean_pass_at"]) == {"uniform", "frozen", "trained", "oracle"}
    # A search before round 0 and one before round 1, in the form that oracle_rungs plays by.
    assert {at: [*own] for at, own in read_gains(str(folder / "gains.json")).items()} == {
        0: [3, 4, 5, 6],
        1: [3, 4, 5, 6],
    }


def test_a_domain_without_several_rungs_is_refused(tmp_path, capsys):
    code = main.main(["headroom", "--domain", "math_qa", "--output_dir", str(tmp_path), "--recipe", "tiny/default"])
    assert code == 2
    assert "has no rungs" in capsys.readouterr().err
