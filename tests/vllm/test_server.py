# Tests: generation/server.py
"""A real vLLM server on 127.0.0.1: adapters reach it, it is killed in mid-run, it comes back, it refuses."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from transformers import TrainerCallback

from countdown_selfplay.countdown import CountdownDomain, ProblemSpec, Rules
from countdown_selfplay.countdown.verifier import MoveReason, Reason, Verdict
from countdown_selfplay.errors import GenerationError
from countdown_selfplay.generation import server as server_module
from countdown_selfplay.tiny import TINY_MODEL_PATH
from tests.trainer.conftest import make_trainer, ran, rounds, weights
from tests.trainer.test_generation_backends import watch_differences
from tests.trainer.test_round import LORA
from tests.warm_starts.iterated.test_driver import PROBLEMS, ROLES, driver

from .conftest import CACHE_BYTES, own_port
from .test_colocate import two_processes
from .test_iterated import gaps, watched
from .test_moves import Rows

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

ENVIRONMENT = dict(os.environ)  # before a trainer of this process has added to it
START = 800  # seconds; it only ends what never comes up


class ServerProcess:
    """`vllm serve` by another door: the CPU build's package has another name, which its command line stumbles over."""

    def __init__(self, port, log):
        self.port, self.log = port, log
        self.url = f"http://127.0.0.1:{port}"
        self.process = None

    def start(self):
        on = dict.fromkeys(("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_SERVER_DEV_MODE", "OMP_NUM_THREADS"), "1")
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(TINY_MODEL_PATH)]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32", "--enforce-eager"]
        command += ["--max-model-len", "64", "--enable-lora", "--max-lora-rank", "8", "--max-loras", "2"]
        command += ["--logprobs-mode", "processed_logprobs", "--kv-cache-memory-bytes", str(CACHE_BYTES)]
        with self.log.open("ab") as log:
            # A session of its own: the engine is a child of the server, and both must end.
            self.process = subprocess.Popen(
                command, env={**ENVIRONMENT, **on}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        end = time.monotonic() + START
        while not self.healthy():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(1)
        return self

    def healthy(self):
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = ServerProcess(own_port(), tmp_path_factory.mktemp("server") / "log").start()
    yield server
    server.kill()


def settings(url, **changes):
    given = dict(
        generation_backend="vllm_server", vllm_server_base_url=url, vllm_server_timeout=10.0, vllm_request_retries=2,
        policy_sharing="lora", max_steps=3,
    )  # fmt: skip
    return {**given, **changes}


def build(folder, url, **changes):
    return make_trainer(folder, trainer={"peft_config": LORA}, **settings(url, **changes))


def test_one_server_plays_both_roles_with_their_adapters_exactly(tmp_path, running):
    trainer = build(tmp_path, running.url, temperature=0.7)
    differences, before = watch_differences(trainer), weights(trainer)
    trainer.train()
    assert all(len(d) == 3 and max(d) < 1e-4 for d in differences.values()), differences
    after = weights(trainer)
    for role in trainer.roles:
        assert any(not torch.equal(before[k], after[k]) for k in before if k.startswith(f"{role}:")), role
    info = urllib.request.urlopen(f"{running.url}/server_info?config_format=json", timeout=10).read()
    assert json.loads(info)["vllm_config"]["model_config"]["dtype"] == "torch.float32"  # whole weights go in it
    for line in rounds(tmp_path):
        assert line["conjecturer/weights_pushed"] == line["prover/weights_pushed"] == 1
        assert line["prover/sampler_logp_difference_max"] < 1e-4
    assert len(list((tmp_path / "vllm_adapters").iterdir())) <= 4  # two versions of each role at most


class EvenGoesOn(CountdownDomain):
    """Differs from Countdown in moves in that a text of an even number of characters takes a number away; any other
    ends its episode, and is right if 3 divides its length. The server's model knows no moves."""

    def moved(self, texts, problems, states):
        return [
            list(state[1:]) if len(text) % 2 == 0 and len(state) > 2 else ended(len(text) % 3 == 0)
            for text, state in zip(texts, states, strict=True)
        ]


def ended(right):
    return Verdict(1.0, Reason.CORRECT) if right else Verdict(0.0, MoveReason.GRAMMAR)


def test_moves_are_sampled_once_for_each_live_episode_with_seeds_of_their_own(tmp_path, running, monkeypatch):
    spec = ProblemSpec((3, 4), 1, 12, 1, 99)
    domain = EvenGoesOn(spec, Rules(answer_format="bare"), "compact_moves", "compact", answers="moves")
    moves = dict(answers="moves", prover_prompt="compact_moves", operands=[3, 4], max_steps=2)
    moves |= dict(problems_per_round=4, prover_objective="rloo")
    trainer = make_trainer(tmp_path, trainer={"peft_config": LORA, "domain": domain}, **settings(running.url, **moves))
    rows, asked, seeds = Rows(trainer, monkeypatch), defaultdict(int), []
    ask = trainer.sampler._ask

    def seen(url, name, body):
        asked[rows.key] += body["n"]
        seeds.append(body["seed"])
        return ask(url, name, body)

    monkeypatch.setattr(trainer.sampler, "_ask", seen)
    trainer.train()
    rows.check(asked, 16)
    assert len(set(seeds)) == len(seeds)


def test_the_same_server_and_seed_give_the_same_samples(tmp_path, running):
    texts = []
    for name in ("a", "b"):
        trainer = build(tmp_path / name, running.url)
        texts.append(trainer.round_loop.begin([]).sample("conjecturer", [trainer.domain.propose_row(3)], 16).texts)
    assert texts[0] == texts[1] and len(set(texts[0])) > 8


def test_a_second_run_on_the_same_server_does_not_get_the_first_runs_adapters(tmp_path, running):
    """Both count their versions from 1; the second starts where the first one stopped."""
    first = ran(build(tmp_path / "first", running.url))
    second = build(tmp_path / "second", running.url, max_steps=1)
    trained = weights(first)
    with torch.no_grad():
        for role in second.policies.weight_names:
            for key, parameter in second.policies.named_parameters(role):
                parameter.copy_(trained[f"{role}:{key}"])
    differences = watch_differences(second)
    second.train()
    assert max(differences["prover"] + differences["conjecturer"]) < 1e-4


def test_two_processes_share_one_server(tmp_path, running):
    found = two_processes(tmp_path, settings(running.url, max_steps=2))
    assert found[0]["weights"] == found[1]["weights"]
    for rank in found:
        assert rank["processes"] == 2
        assert all(len(d) == 2 and max(d) < 1e-4 for d in rank["differences"].values()), rank["differences"]


def test_a_server_that_has_lost_an_adapter_gets_it_again(tmp_path, running):
    """As after a restart: the server answers that it does not know the adapter."""
    trainer = build(tmp_path, running.url, max_steps=1)
    backend, turn = trainer.sampler, server_module.Server.generate
    dropped = []

    def forgetful(self, role, *args, **kwargs):
        label, _ = backend._labels[backend.urls[role], role]
        backend.clients[backend.urls[role]].ask("/v1/unload_lora_adapter", {"lora_name": label})
        dropped.append(label)
        return turn(self, role, *args, **kwargs)

    server_module.Server.generate = forgetful
    try:
        differences = watch_differences(trainer)
        trainer.train()
    finally:
        server_module.Server.generate = turn
    assert len(dropped) == 2 and max(differences["prover"] + differences["conjecturer"]) < 1e-4


def test_prompts_that_are_too_long_and_adapters_that_are_too_large_are_one_sentence(tmp_path, running):
    trainer = build(tmp_path / "long", running.url, prover_max_completion_length=60)
    with pytest.raises(GenerationError, match="which with 60 for the completion is more than the 64"):
        trainer.train()
    wide = {"peft_config": type(LORA)(**{**LORA.to_dict(), "r": 64})}
    large = make_trainer(tmp_path / "large", trainer=wide, **settings(running.url, max_steps=1))
    with pytest.raises(GenerationError, match=r"failed at /v1/load_lora_adapter 3 times.*rank.*An adapter needs"):
        large.train()


def test_whole_weights_that_the_server_refuses_are_one_sentence_on_every_process(tmp_path, running):
    """This server has no engine for the transfer of weights: TRL's client finds out, on the main process alone."""
    found = two_processes(tmp_path, settings(running.url, vllm_request_retries=1, send_whole=True))
    for rank in found:
        assert re.search("did not take the weights of prover in 2 attempts .last: RuntimeError: .* no weight-tr", rank)


def test_iterated_play_samples_from_a_server_that_holds_a_roles_weights(tmp_path, running, monkeypatch):
    """The first iteration, in which every role has the weights that the server was started with. Sending others needs
    NCCL and a GPU, so nothing is sent here, and the refusal of a CPU is passed over. Temperature .95, top-p .95 and
    top-k 5: the log-probs are those of the cut distribution of the role's model, to 1e-4."""
    from countdown_selfplay.warm_starts.iterated import driver as module

    pushed, made = [], server_module.Server.__init__

    def on_paper(self, context, engine):
        made(self, replace(context, processes=replace(context.processes, device=torch.device("cuda"))), engine)
        self.context = context

    monkeypatch.setattr(module, "check_engine", lambda *given: None)
    monkeypatch.setattr(server_module.Server, "__init__", on_paper)
    monkeypatch.setattr(server_module.Server, "_send_weights", lambda self, url, name: pushed.append(name))
    how = dict(temperature=0.95, top_p=0.95, top_k=5)
    engine = dict(generation_backend="vllm_server", vllm_server_base_url=running.url, vllm_server_timeout=10.0)
    run = driver(tmp_path / "run", PROBLEMS[:6], iterations=1, **how, **engine)
    seen = watched(run)
    line = run.run()[0]
    assert (line["phase"], line["backend"]) == ("play", "vllm_server")
    assert {role for role, *_ in seen} == set(ROLES) and len(set(pushed)) == 1  # one model, loaded and sent once
    for role, model, prompts, completions, logps in seen:
        assert max(gaps(model, prompts, completions, logps, **how)) < 1e-4, role


def test_a_server_with_other_weights_than_it_was_sent_is_noticed(tmp_path, running):
    """One that was started anew, and one that another run has sent its weights to, give another name for them."""
    backend = build(tmp_path, running.url).sampler
    assert not backend._replaced(running.url)  # nothing was sent yet
    backend._mark(running.url)
    assert not backend._replaced(running.url)
    backend.clients[running.url].ask("/update_weight_version", {"new_version": "another"})
    assert backend._replaced(running.url)
    assert not backend.clients[running.url].knows("/no_such_path", {})


def test_a_server_killed_in_mid_run_leaves_the_checkpoint_and_the_run_goes_on_with_a_new_one(tmp_path):
    server = ServerProcess(own_port(), tmp_path / "log").start()
    saving = dict(save_strategy="steps", save_steps=1, max_steps=3)
    try:

        class Kill(TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                if state.global_step == 2:
                    server.kill()

        trainer = build(tmp_path / "run", server.url, **saving)
        trainer.add_callback(Kill)
        with pytest.raises(GenerationError, match=r"failed at \S+ 3 times.*The newest complete checkpoint is intact"):
            trainer.train()
        folders = sorted(p.name for p in (tmp_path / "run").glob("checkpoint-*"))
        assert folders == ["checkpoint-1", "checkpoint-2"]
        server.start()
        resumed = build(tmp_path / "run", server.url, **saving)
        differences = watch_differences(resumed)
        resumed.train(resume_from_checkpoint=True)
        assert resumed.state.global_step == 3
        assert all(len(d) == 1 and max(d) < 1e-4 for d in differences.values()), differences
        assert resumed.store.resolve(True).name == "checkpoint-3"
    finally:
        server.kill()
