"""`countdown-selfplay push`, and the model cards that it and training write."""

import json
import shutil

import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.cli.push import _asked
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.callbacks.run_folder import command_line
from countdown_selfplay.training.cards import exported_roles, licence_of

QUICK = ["--max_steps", "2", "--eval_problems", "8", "--eval_proposals", "16", "--num_generations_eval", "2"]
SMALL = ["--per_device_train_batch_size", "16", "--conjecturer_num_generations", "16", "--report_to", "none"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push") / "mine"
    line = ["joint", "--output_dir", str(folder), *QUICK, *SMALL, "--use_cpu", "--disable_tqdm", "true"]
    assert main([*line, "--report", "false"]) == 0
    return folder


def test_training_leaves_cards_with_results_base_model_and_code_that_runs(played, capsys):
    card = (played / "prover" / "README.md").read_text()
    table = (line for line in card.splitlines() if line.startswith("prover pass@"))
    assert len(list(table)) == 1 and "8 held-out problems x 2 answers, temperature 1" in card  # pass@1 alone: k <= 2
    assert (
        "conjecturer parseable" not in card
        and "conjecturer parseable" in (played / "conjecturer" / "README.md").read_text()
    )
    assert "license: apache-2.0" in card and "- Base model: `tiny`, embedded in countdown-selfplay" in card
    for row in ("| policy sharing | full |", "| seed | 0 |", "| prover: learning rate | 0.0001 |"):
        assert row in card
    assert "after 2 rounds" in card and "'answer_format': 'bare'" in card
    code = card.split("```python\n")[1].split("```")[0]
    assert "tokenizer('3 5 7 = 22 :'" in code and "max_new_tokens=16" in code
    exec(compile(code, "card", "exec"), {})
    assert capsys.readouterr().out.strip()  # an answer


def test_a_dry_run_writes_what_would_go_up(played, capsys):
    assert main(["push", str(played), "--dry_run", "--repo_id", "me/countdown"]) == 0
    said = capsys.readouterr().out
    for role in ("prover", "conjecturer"):
        folder = played / "push" / role
        assert f"Wrote {folder} for me/countdown-{role}" in said
        names = {path.name for path in folder.iterdir()}
        assert {"model.safetensors", "config.json", "tokenizer.json", "README.md", "report.html", "run.json"} <= names
        assert "evaluation.json" in names and not any(name.startswith("checkpoint") for name in names)
        text = (folder / "README.md").read_text()
        assert f'from_pretrained("me/countdown-{role}")' in text and "## Results" in text
    assert main(["push", str(played), "--dry-run"]) == 0  # the name of the folder; what was there is replaced
    assert "for mine-prover" in capsys.readouterr().out


def test_nothing_is_uploaded_without_a_token_or_a_network(played, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert main(["push", str(played)]) == 2
    said = capsys.readouterr().err
    assert "no token is stored here; log in with `hf auth login`" in said and said.count("\n") == 1
    with pytest.raises(ConfigError, match="The hub refused or was out of reach: no route; RUN/push holds"):
        _asked(lambda: (_ for _ in ()).throw(ConnectionError("no route")))
    with pytest.raises(ZeroDivisionError):  # a bug keeps its traceback
        _asked(lambda: 1 // 0)


def test_what_cannot_be_pushed_is_one_sentence(played, tmp_path, capsys):
    unfinished = tmp_path / "begun"
    unfinished.mkdir()
    shutil.copy(played / "run.json", unfinished)
    for arguments, words in (
        ([str(tmp_path / "nowhere")], "is not the folder of a run (it has no run.json)."),
        ([str(tmp_path)], f"in it there are {unfinished}"),
        ([str(unfinished)], "is not finished: it has exported no role"),
        ([str(played), "--repo_id", "a/b/c"], "cannot be a repository"),
    ):
        assert main(["push", *arguments, "--dry_run"]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1, said


def test_of_an_iterated_run_the_last_models_of_each_role_go_up(tmp_path):
    for place in (
        "iteration-2/prover",
        "iteration-10/prover",
        "iteration-2/helpful",
        "iteration-10/misleading.parquet",
    ):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.json").touch()
    (tmp_path / "iteration-10" / "misleading.parquet" / "config.json").unlink()
    found = [str(path.relative_to(tmp_path)) for path in exported_roles(tmp_path)]
    assert found == ["iteration-2/helpful", "iteration-10/prover"]


def test_the_licence_is_that_of_the_base_models_card(tmp_path):
    assert licence_of(str(TINY_MODEL_PATH)) == licence_of("tiny") == "apache-2.0"
    assert licence_of(str(tmp_path)) is None and licence_of("nobody/nothing-such") is None and licence_of("") is None
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\nlicense: other\n")
    assert licence_of(str(tmp_path)) == "mit"


def test_the_command_is_recorded_without_tokens():
    assert command_line(["/x/bin/countdown-selfplay", "joint", "--run_name", "a b"]) == (
        "countdown-selfplay joint --run_name 'a b'"
    )
    hidden = command_line(["/x/cli/main.py", "sft", "--hub_token", "hf_1", "--hub_token=hf_2", "--seed", "1"])
    assert hidden == "countdown-selfplay sft --hub_token '***' '--hub_token=***' --seed 1"
    assert command_line(["/x/train.py"]) == "python train.py" and command_line(["ipykernel_launcher"]) is None


def test_what_a_role_folder_says_of_itself(played):
    said = json.loads((played / "prover" / ROLES_FILE).read_text())
    # tiny/default: 4 micro-batches of 16 answers a round, two rounds
    assert said["roles"] == ["prover"] and said["rounds"] == 2 and said["samples"] == {"prover": 128}
    assert said["from"] == "tiny"
