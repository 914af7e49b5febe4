# Tests: cli/push.py, training/callbacks/run_folder.py, training/exports.py, training/upload.py
"""`countdown-selfplay push`, and the model cards that it and training write."""

import json
import shutil
from types import SimpleNamespace
from typing import ClassVar

import pytest
from peft import LoraConfig, get_peft_model

from countdown_selfplay.cli.main import main
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.policies.adapters import name_base
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from countdown_selfplay.training.callbacks.run_folder import command_line, without_tokens
from countdown_selfplay.training.exports import card, exported_roles, licence_of
from countdown_selfplay.training.upload import finished_run, hub_errors, push_trained, without_paths, written

from ..installed import PAGE

QUICK = ["--max_steps", "2", "--eval_problems", "8", "--eval_proposals", "16", "--num_generations_eval", "2"]
SMALL = ["--problems_per_round", "4", "--proposals_per_round", "16"]
SMALL += ["--conjecturer_num_generations", "16", "--report_to", "none"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push") / "mine"
    line = ["joint", "--output_dir", str(folder), *QUICK, *SMALL, "--use_cpu", "--disable_tqdm", "true"]
    assert main([*line, "--report", "false"]) == 0
    return folder


def test_training_leaves_cards_with_results_base_model_and_code_that_runs_and_what_a_role_says(played, capsys):
    card = (played / "prover" / "README.md").read_text()
    table = (line for line in card.splitlines() if line.startswith("prover pass@"))
    assert len(list(table)) == 1 and "8 held-out problems x 2 answers, temperature 1" in card  # pass@1 alone: k <= 2
    assert "conjecturer parseable" not in card
    assert "conjecturer parseable" in (played / "conjecturer" / "README.md").read_text()
    assert "license: apache-2.0" in card and "- Base model: `tiny`, embedded in countdown-selfplay" in card
    for row in ("| policy sharing | full |", "| seed | 0 |", "| prover: learning rate | 0.0001 |"):
        assert row in card
    assert "after 2 rounds" in card and "'answer_format': 'bare'" in card
    code = card.split("```python\n")[1].split("```")[0]
    assert "tokenizer('3 5 7 = 22 :'" in code and "max_new_tokens=16" in code
    exec(compile(code, "card", "exec"), {})
    assert capsys.readouterr().out.strip()  # an answer
    said = json.loads((played / "prover" / ROLES_FILE).read_text())
    # tiny/default: 4 micro-batches of 16 answers a round, two rounds
    assert said["roles"] == ["prover"] and said["rounds"] == 2 and said["samples"] == {"prover": 128}
    assert said["from"] == "tiny"


def test_a_dry_run_writes_what_would_go_up(played, shown):
    said = shown("push --dry_run --repo_id me/countdown", played)
    for role in ("prover", "conjecturer"):
        folder = played / "push" / role
        assert f"Wrote {folder} for me/countdown-{role}" in said
        names = {path.name for path in folder.iterdir()}
        assert {"model.safetensors", "config.json", "tokenizer.json", "README.md", "run.json", *PAGE} <= names
        assert "evaluation.json" in names and not any(name.startswith("checkpoint") for name in names)
        text = (folder / "README.md").read_text()
        assert f'from_pretrained("me/countdown-{role}")' in text and "## Results" in text
    # the name of the folder; what was there is replaced
    assert "for mine-prover" in shown("push --dry-run", played)


def test_nothing_is_uploaded_without_a_token_or_a_network(played, refused, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.hf_api.get_token", lambda: None)
    shutil.rmtree(played / "push", ignore_errors=True)
    said = refused("push", played)
    assert "no token found. You must provide a token or be logged in" in said
    assert "a dry run only writes the folders" in said and not (played / "push").exists()


class Hub:
    """Stands for huggingface_hub.HfApi: takes down what would be sent."""

    calls: ClassVar[list] = []

    def __init__(self, token):
        self.calls[:] = [("token", token)]

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, *args, kwargs))
            return {"name": "me"} if name == "whoami" else "address"

        return call


def test_command_and_trainer_send_each_role_to_a_repository_of_its_own(played, monkeypatch, shown):
    monkeypatch.setattr("countdown_selfplay.training.upload.HfApi", Hub)

    def sent(token=None, private=False, **commit):
        for role in ("conjecturer", "prover"):
            repo = f"me/mine-{role}"
            yield "create_repo", repo, {"private": private, "exist_ok": True}
            if commit.get("revision"):
                yield "create_branch", repo, {"branch": commit["revision"], "exist_ok": True}
            yield "upload_folder", {"repo_id": repo, "folder_path": str(played / "push" / role), **commit}

    assert shown("push", played).count("Uploaded address") == 2
    assert Hub.calls == [("token", None), ("whoami", {}), *sent()]
    hub = dict(hub_model_id=None, hub_private_repo=True, hub_token="hf_1", hub_revision="v1")
    args = SimpleNamespace(output_dir=str(played), **hub)
    assert push_trained(args, commit_message="done") == ["me/mine-conjecturer", "me/mine-prover"]
    assert Hub.calls == [
        ("token", "hf_1"), ("whoami", {}), *sent(private=True, revision="v1", commit_message="done"),
    ]  # fmt: skip
    assert push_trained(args, repo_id="you/x", dry_run=True) == ["you/x-conjecturer", "you/x-prover"]
    assert Hub.calls == [("token", "hf_1")]


def test_what_the_hubs_client_raises_is_one_sentence_and_a_bug_keeps_its_traceback():
    """huggingface_hub 1 speaks HTTP with httpx, version 2 with httpx2, whose errors are no OSError."""
    of_client = type("ConnectError", (Exception,), {"__module__": "httpx2"})
    said = r"The hub refused or was out of reach: no route; 'x' holds it\.$"
    for error in (ConnectionError("no route"), of_client("no route")):
        with pytest.raises(ConfigError, match=said), hub_errors("; 'x' holds it"):
            raise error
    with pytest.raises(ZeroDivisionError), hub_errors():
        _ = 1 // 0


def test_what_cannot_be_pushed_is_one_sentence(played, tmp_path, refused):
    unfinished = tmp_path / "begun"
    unfinished.mkdir()
    shutil.copy(played / "run.json", unfinished)
    for arguments, words in (
        ([tmp_path / "nowhere"], "is not the folder of a run (it has no run.json)."),
        ([tmp_path], f"Runs that are there: {unfinished}"),
        ([unfinished], "is not finished: it has exported no role"),
        ([played, "--repo_id", "a/b/c"], "cannot be a repository"),
        ([played, "--base_model", "a/b/c"], "`base_model` (a/b/c) cannot be a repository"),
    ):
        assert words in refused("push --dry_run", *arguments)


def test_a_run_goes_up_once_its_last_file_is_written(tmp_path):
    """Of a warm start the card; of an iterated run the last iteration of each role."""
    sft = tmp_path / "sft"
    sft.mkdir()
    (sft / "run.json").write_text('{"config": {}, "domain": {}}')
    (sft / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not finished: it has exported no role"):
        finished_run(sft)
    (sft / "README.md").write_text("a card")
    assert finished_run(sft)[1] == [sft]
    run = tmp_path / "iterated"
    (run / "iteration-1" / "prover").mkdir(parents=True)
    (run / "iteration-1" / "prover" / "config.json").touch()
    (run / "run.json").write_text('{"config": {"iterations": 2, "role_training": {"prover": {}}}, "domain": {}}')
    lines = [json.dumps({"iteration": t, "phase": "train", "role": "prover", "rows": 1}) + "\n" for t in (1, 2)]
    (run / "iterations.jsonl").write_text(lines[0])
    with pytest.raises(ConfigError, match="is not finished: its last iteration has not trained prover"):
        finished_run(run)
    (run / "iterations.jsonl").write_text("".join(lines))
    assert finished_run(run)[1] == [run / "iteration-1" / "prover"]


def test_weights_of_rounds_earlier_iterations_and_logs_of_trackers_do_not_go_up(tmp_path):
    role = tmp_path / "prover_0"
    for place in ("round_1/model", "chat_templates"):
        (role / place).mkdir(parents=True)
    for name in ("config.json", "training_args.bin", "round_1/model/model.safetensors"):
        (role / name).write_text("{}")
    target = written(tmp_path, role, {"config": {}, "domain": {}}, "me/x")
    assert sorted(path.name for path in target.iterdir()) == ["README.md", "chat_templates", "config.json"]
    places = ("iteration-2/prover", "iteration-10/prover", "iteration-2/helpful", "iteration-10/misleading.parquet")
    for place in (*places, "iteration-11x/prover"):  # the last is a copy that somebody made
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.json").touch()
    (tmp_path / "iteration-10" / "misleading.parquet" / "config.json").unlink()
    found = [str(path.relative_to(tmp_path)) for path in exported_roles(tmp_path)]
    assert found == ["iteration-2/helpful", "iteration-10/prover"]


def test_an_adapter_goes_up_over_a_base_of_the_hub_or_merged_and_without_paths_of_this_machine(tmp_path):
    role = tmp_path / "prover"
    model = get_peft_model(load_tiny_model()[0], LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    model.save_pretrained(role)
    (role / ROLES_FILE).write_text(json.dumps({"roles": ["prover"], "from": str(tmp_path / "of mine" / "start")}))
    described = {"config": {"output_dir": str(tmp_path)}, "domain": {}, "command": f"joint --output_dir {tmp_path}"}
    (tmp_path / "run.json").write_text(json.dumps(described))

    def pushed(base=""):
        target = written(tmp_path, role, described, "me/x", base)
        texts = {path.name: path.read_text() for path in target.iterdir() if path.suffix in (".md", ".json")}
        assert not any(str(path) in text for text in texts.values() for path in (tmp_path, TINY_MODEL_PATH))
        return {path.name for path in target.iterdir()}, texts

    names, texts = pushed()
    assert "model.safetensors" in names and "adapter_config.json" not in names
    assert "AutoModelForCausalLM.from_pretrained" in texts["README.md"] and "base_model" not in texts["README.md"]
    assert json.loads(texts["run.json"])["command"] == f"joint --output_dir {tmp_path.name}"
    names, texts = pushed("me/base")
    assert "model.safetensors" not in names and "adapter_model.safetensors" in names
    assert json.loads(texts["adapter_config.json"])["base_model_name_or_path"] == "me/base"
    assert "\nbase_model: me/base\n" in texts["README.md"] and "AutoPeftModelForCausalLM" in texts["README.md"]
    name_base(role, "some/base")
    assert json.loads(pushed()[1]["adapter_config.json"])["base_model_name_or_path"] == "some/base"


def test_paths_of_this_machine_are_cut_down_and_the_command_is_recorded_without_tokens(tmp_path):
    said = f'{{"a": "{tmp_path}/my runs/x", "b": "joint --out={tmp_path}/y --tiny {TINY_MODEL_PATH} /v1/chat/x"}}'
    assert without_paths(said) == '{"a": "x", "b": "joint --out=y --tiny tiny /v1/chat/x"}'
    for text in ("</a></b> https://tmp/x image/svg;base64,/9j/tmp/x 3 /tmp a/tmp/b", '"/ 2 * 3" "/tmp"'):
        assert without_paths(text) == text
    assert command_line(["/x/bin/countdown-selfplay", "joint", "--run_name", "a b"]) == (
        "countdown-selfplay joint --run_name 'a b'"
    )
    hidden = command_line(["/x/cli/main.py", "sft", "--hub_token", "hf_1", "--hub_token=hf_2", "--seed", "1"])
    assert hidden == "countdown-selfplay sft --hub_token '***' '--hub_token=***' --seed 1"
    nested = command_line(["/x/cli/main.py", "joint", "--model_init_kwargs", '{"token": "hf_abcdefghijklmnopqrst"}'])
    assert nested == 'countdown-selfplay joint --model_init_kwargs \'{"token": "***"}\''
    assert without_tokens("hf_hub, hf_transfer") == "hf_hub, hf_transfer"
    assert command_line(["/mine/main.py", "--seed", "1"]) == "python main.py --seed 1"
    assert command_line(["/x/train.py"]) == "python train.py" and command_line(["ipykernel_launcher"]) is None


@pytest.mark.parametrize(("name", "text", "says"), [
    ("evaluation.json", '{"before": 3, "after": {}}', "does not say the measurements before and after training"),
    (f"prover/{ROLES_FILE}", '{"roles": 3}', "does not hold a JSON object with `roles`"),
])  # fmt: skip
def test_a_damaged_file_of_a_run_is_one_sentence(name, text, says, tmp_path):
    role = tmp_path / "prover"
    role.mkdir()
    (role / "config.json").write_text("{}")
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says):
        written(tmp_path, role, {"config": {}, "domain": {}}, "me/x")


def test_the_base_is_linked_if_it_is_of_the_hub_and_the_licence_its_cards(tmp_path, monkeypatch):
    """A run is pushed from another folder than it was begun in, so that relative paths lead nowhere."""
    for base, there in (("runs/pool-start", False), ("../start", False), ("Qwen/Qwen2.5-0.5B", True)):
        text = card("t", "m", {}, {}, (), base=base, place="p")
        assert (f"base_model: {base}" in text and f"huggingface.co/{base}" in text) is there, base
    assert licence_of(str(TINY_MODEL_PATH)) == licence_of("tiny") == "apache-2.0"
    assert licence_of(str(tmp_path)) is None and licence_of("nobody/nothing-such") is None and licence_of("") is None
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\nlicense: other\n")
    assert licence_of(str(tmp_path)) == "mit"
    monkeypatch.chdir(tmp_path)  # a base that nobody recorded is not the current folder
    assert licence_of("") is None
