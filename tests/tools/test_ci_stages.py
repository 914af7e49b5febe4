# Tests: tools/ci_stages.py, tools/ci_stages.toml
"""Which stages of CI run in full, in small repositories of git."""

import subprocess

import pytest

from tools import ci_stages

TABLE = """
[everything]
paths = ["src/core", "*.toml"]
[test-shop]
paths = ["src/shop", ":!src/shop/old", "docs/*.md"]
sample.TESTS = ["tests/test_shop.py::test_one"]
"""
MAKEFILE = "test-shop: TESTS = tests\ntest-shop:\n\t@echo runs $(TESTS) with $(PYTHON)\n"
FILES = {
    "tools/ci_stages.toml": TABLE, "Makefile": MAKEFILE, ".ci/run": 'slow_stage "shop" test-shop\n',
    "pyproject.toml": "", "src/core/a.py": "", "src/shop/till.py": "", "src/shop/old/till.py": "", "docs/shop.md": "",
    "docs/deep/page.md": "", "tests/test_shop.py": "def test_one():\n    pass\n",
}  # fmt: skip
IN_FULL, LEFT_OUT = "runs tests with p", "runs tests/test_shop.py::test_one with p"


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def commit(folder, files):
    """The new commit with `files` changed."""
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Its first commit is verified, and the second one says so."""
    git(tmp_path, "init", "-q")
    commit(tmp_path, {".ci/verified": commit(tmp_path, FILES)})
    monkeypatch.setattr(ci_stages, "ROOT", tmp_path)
    monkeypatch.delenv("CI_ALL", raising=False)
    return tmp_path


def said(capfd):
    assert ci_stages.main(["test-shop", "PYTHON=p"]) == 0
    why, ran = capfd.readouterr().out.splitlines()
    return why, ran


def test_a_stage_is_left_out_until_something_changes_or_everything_is_asked_for(repository, capfd, monkeypatch):
    why, ran = said(capfd)
    first = git(repository, "rev-parse", "HEAD~1")[:10]
    assert ran == LEFT_OUT
    assert why == f"Left out but for its sample: nothing that it depends on has changed since {first} (.ci/verified)."
    git(repository, "mv", "src/shop/till.py", "elsewhere.py")
    commit(repository, {"src/core/b.py": ""})
    why, ran = said(capfd)
    assert ran == IN_FULL and "src/core/b.py and 1 more changed since" in why
    monkeypatch.setenv("CI_ALL", "1")
    assert said(capfd) == ("In full: everything is asked for (CI_ALL).", IN_FULL)
    write(repository, {"Makefile": "test-shop:\n\texit 1\n"})
    assert ci_stages.main(["test-shop"]) != 0


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("file, ran", [
    ("src/shop/till.py", IN_FULL),
    ("docs/shop.md", IN_FULL),
    ("src/core/a.py", IN_FULL),
    ("src/shop/old/till.py", LEFT_OUT),
    ("docs/deep/page.md", LEFT_OUT),  # * stays within a folder
    ("src/core.md", LEFT_OUT),
])  # fmt: skip
def test_a_stage_runs_in_full_where_what_it_depends_on_has_changed(repository, capfd, file, ran, committed):
    (commit if committed else write)(repository, {file: "changed"})
    why, what = said(capfd)
    assert what == ran and (f"In full: {file} changed since" in why) == (ran == IN_FULL)


def test_where_nothing_can_be_compared_a_stage_runs_in_full_and_says_why(repository, capfd):
    write(repository, {".ci/verified": "0" * 40 + "\n"})
    why, ran = said(capfd)
    assert ran == IN_FULL and "this clone lacks the commit 0000000000 of .ci/verified" in why
    (repository / ".ci/verified").unlink()
    why, ran = said(capfd)
    assert ran == IN_FULL and ".ci/verified is missing" in why


@pytest.mark.parametrize("file, old, new, named", [
    ("tools/ci_stages.toml", "src/core", "src/kernel", "everything depends on src/kernel, which does not exist"),
    ("tools/ci_stages.toml", "[test-shop]", "[test-till]", ".ci/run has the slow stage test-shop, which is no row"),
    ("tools/ci_stages.toml", "test_one", "test_on", "the sample of test-shop has tests/test_shop.py::test_on,"),
])  # fmt: skip
def test_a_table_that_names_what_is_not_there_is_one_sentence(repository, capfd, file, old, new, named):
    assert ci_stages.main(["--check"]) == 0
    write(repository, {file: FILES[file].replace(old, new)})
    assert ci_stages.main(["--check"]) == 1
    (line,) = capfd.readouterr().out.splitlines()
    assert line.startswith("tools/ci_stages.toml names what is not there: ") and named in line


def test_the_commit_is_written_where_the_tree_is_its_own(repository, capfd):
    head = commit(repository, {"src/shop/till.py": "other"})
    assert said(capfd)[1] == IN_FULL
    write(repository, {"src/shop/till.py": "not committed"})
    assert [ci_stages.main([option]) for option in ("--clean", "--write")] == [1, 1]
    assert "src/shop/till.py is not committed" in capfd.readouterr().out
    git(repository, "checkout", "-q", "src")
    assert [ci_stages.main([option]) for option in ("--clean", "--write")] == [0, 0]
    assert (repository / ".ci/verified").read_text() == f"{head}\n"
    assert said(capfd)[1] == LEFT_OUT
    commit(repository, {})  # that of .ci/verified alone
    assert said(capfd)[1] == LEFT_OUT
