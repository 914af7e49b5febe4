# Tests: lab/cli/report.py, lab/cli/playground.py, lab/cli/compare.py
"""`countdown-selfplay report` from the command line."""

import subprocess
import sys

from tests.made_up_answers import write_answers
from tests.made_up_runs import printed, write_run

from countdown_selfplay.lab.cli.report import watch


def test_one_run_gets_its_page_in_its_own_folder_and_several_in_the_working_folder(tmp_path, capsys, monkeypatch):
    folder = write_run(tmp_path, "demo")
    assert printed(capsys, "report", folder)[:2] == (0, f"{folder / 'report.html'}\n")
    assert "Self-play: demo" in (folder / "report.html").read_text()
    assert list((folder / "plots").glob("*.svg"))
    folders = [write_run(tmp_path, name, rounds=2) for name in ("a", "b", "c")]
    monkeypatch.chdir(tmp_path)
    for more, out in (([], "report.html"), (["--output", "new/page.html"], "new/page.html")):
        assert printed(capsys, "report", *folders, *more)[0] == 0
        assert "Self-play: 3 runs" in (tmp_path / out).read_text()


def test_a_report_a_playground_and_a_comparison_need_no_torch(tmp_path):
    folder, a = str(write_run(tmp_path, "demo", rounds=2)), str(write_answers(tmp_path / "a.jsonl", [1, 2], n=4))
    code = (
        "import sys\nfrom countdown_selfplay.cli.main import main\n"
        f"for line in ({['report', folder]}, {['playground', folder]}, {['compare', a, f'b={a}']}):\n"
        "    assert main(line) == 0\n"
        "    assert not {'torch', 'transformers', 'trl', 'datasets'} & set(sys.modules), line"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_watched_page_is_rewritten_when_the_run_has_logged_and_reloads_until_the_watch_ends(tmp_path, capsys):
    folder, out = write_run(tmp_path, "demo", rounds=4), tmp_path / "page.html"
    log = folder / "metrics.jsonl"
    seen = []

    def pause(seconds):
        """What happens between two looks: a torn line, its end, nothing, and Ctrl-C."""
        seen.append((out.read_text().count("refresh"), out.read_text().split(" logged rounds")[0][-1]))
        if len(seen) == 1:
            log.write_text(log.read_text() + '{"step": 5, "round/starved"')
        elif len(seen) == 2:
            log.write_text(log.read_text() + ": 0.0}\n")
        elif len(seen) == 4:
            raise KeyboardInterrupt

    assert watch([folder], out, 7.0, pause=pause) == 0
    assert seen == [(1, "4"), (1, "4"), (1, "5"), (1, "5")]
    assert "refresh" not in out.read_text() and "Ctrl-C ends the watch" in capsys.readouterr().out
    code, _, error = printed(capsys, "report", folder, "--watch", 0)
    assert code == 2 and "'0' is not a number of seconds above 0" in error
