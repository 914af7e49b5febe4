# Tests: lab/headroom/gates.py, lab/headroom/measure.py
"""The panels of headroom.svg, from what headroom.json holds."""

from countdown_selfplay.lab.headroom.gates import head_room, support, transfer
from countdown_selfplay.lab.headroom.measure import gate_panels, gates_svg


def test_each_gate_with_figures_is_a_panel():
    arms = {"oracle_half": {3: [4], 4: [2]}, "uniform": {3: [4], 4: [1]}}
    gates = [
        support({3: [1, 0], 4: [0, 0]}, 4),  # pass@4 is 1/2 and 0
        transfer({}, {}, None, 4, 1),  # nothing was measured: no panel
        head_room(arms, ["uniform"], "oracle_half", 4, 1),  # pass@1 on rung 4: 2/4 and 1/4
    ]
    found = {"gates": [gate.to_dict() for gate in gates]}
    first, last = gate_panels(found)
    assert (first.title, first.labels, first.bars) == ("1 support: open", ["3", "4"], [("pass@4", [0.5, 0.0])])
    assert (last.labels, last.bars[0]) == (["half", "uniform"], ("mean pass@1", [0.5, 0.25]))
    assert gates_svg(found).count("support: open") == 1
