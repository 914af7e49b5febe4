# Tests: generation/colocate.py, generation/server.py, generation/vllm_sampler.py, config/part_rules.py
"""What runs everywhere of generation backends: refusals, the correction of a sampler, a server that fails."""

import http.server
import json
import math
import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from countdown_selfplay.config import Role
from countdown_selfplay.errors import ConfigError, GenerationError
from countdown_selfplay.generation import colocate
from countdown_selfplay.generation import server as server_module
from countdown_selfplay.generation.server import UnknownModelError, VLLMServerClient
from countdown_selfplay.generation.vllm_sampler import check_woken, fingerprint
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.plan import Counts

from .conftest import make_config, on_sample
from .test_round import LORA


def watch_differences(trainer):
    """Per role, the largest |sampler - trainer| log-prob of each rollout, by a forward pass of its own."""
    found = {role: [] for role in trainer.roles}

    def watch(role, result):
        if not result.texts:
            return
        ids, masks = (
            torch.cat([result.tensors[f"{part}_{what}"] for part in ("prompt", "completion")], 1)
            for what in ("ids", "mask")
        )
        mask = result.tensors["completion_mask"].bool()
        with trainer.policies.active(role), torch.no_grad():
            score = trainer._get_per_token_logps_and_entropies
            logps, *_ = score(trainer.model_wrapped, ids, masks, mask.size(1))
        gap = (logps - result.tensors["sampling_per_token_logps"])[mask]
        found[role].append(float(gap.abs().max()))

    on_sample(trainer, watch)
    return found


def test_a_cut_distribution_is_warned_about(tmp_path, caplog):
    make_config(tmp_path, conjecturer_top_p=0.9, prover_top_k=5)
    assert "conjecturer samples with top_p=0.9" in caplog.text and "prover samples with top_k=5" in caplog.text
    caplog.clear()
    make_config(tmp_path, min_p=0.1, generation_kwargs={"no_repeat_ngram_size": 3})
    assert "prover samples with min_p=0.1 and no_repeat_ngram_size=3" in caplog.text
    caplog.clear()
    make_config(tmp_path, generation_kwargs={})
    assert not caplog.text


def test_the_engines_draws_depend_on_the_key_alone_and_leave_no_trace():
    """vLLM gives its requests their seeds from NumPy's generator where it samples with Triton, else it draws from
    torch's."""

    def draws(*key):
        with colocate._seeded(torch.device("cpu"), *key):
            return np.random.randint(2**31), float(torch.rand(()))

    np.random.seed(1)
    torch.manual_seed(1)
    expected = np.random.randint(2**31), float(torch.rand(()))
    np.random.seed(1)
    torch.manual_seed(1)
    first, other = draws("a", 0), draws("a", 1)
    assert (np.random.randint(2**31), float(torch.rand(()))) == expected
    assert draws("a", 0) == first
    assert first[0] != other[0] and first[1] != other[1]


def test_the_fingerprint_sees_a_single_bit_and_an_exchange_and_nothing_else():
    parameter = torch.nn.Parameter(torch.arange(1.0, 7.0))
    before = fingerprint([parameter])
    assert fingerprint([torch.nn.Parameter(parameter.detach().clone())]) == before
    with torch.no_grad():
        parameter[3] = torch.nextafter(parameter[3], torch.tensor(torch.inf))
    changed = fingerprint([parameter])
    assert changed != before
    with torch.no_grad():
        parameter[3] = 4.0
        assert fingerprint([parameter]) == before
        parameter[[0, 1]] = parameter[[1, 0]]
    assert fingerprint([parameter]) != before


def test_the_fingerprint_reads_every_precision():
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.float8_e4m3fn):
        assert len(fingerprint([torch.nn.Parameter(torch.ones(5).to(dtype), requires_grad=False)])) == 2


# -- the correction --------------------------------------------------------------------------------------------------

SETTINGS = dict(
    role="prover", objective="grpo", num_generations=2, learning_rate=1.0, warmup_steps=0,
    max_grad_norm=1.0, beta=0.0, entropy_coef=0.0, temperature=1.0, top_p=1.0, top_k=0, max_completion_length=3,
)  # fmt: skip
LOG2 = math.log(2.0)


def corrected(objective, logps, sampler, **changes):
    """(loss, its gradient to the log-probs, the sums): two completions of three tokens, advantages 1 and -1."""
    logps = torch.tensor(logps, requires_grad=True)
    loss = RoleLoss(make_objective(objective), Role(**{**SETTINGS, **changes}))
    loss.normalise_by(Counts(2, 5), Counts(2, 5))
    batch = {
        "advantages": torch.tensor([1.0, -1.0]),
        "completion_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
        "sampling_per_token_logps": torch.tensor(sampler),
    }
    value = loss(logps, torch.zeros(2, 3), batch)
    value.backward()
    return value.item(), logps.grad, {**loss.pop_sums(), **loss.pop_maxima()}


ROWS = [[-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]]
OFF = [[-1.0 - LOG2, -1.0, -1.0], [-1.0, -1.0 + LOG2, 5.0]]  # ratios 2 1 1, and 1 1/2 (the third is masked)


def test_the_raw_mismatch_is_logged_before_any_correction():
    """Five tokens: |d| = log 2, 0, 0, 0, log 2. Sequence weights 2 and 1/2."""
    for changes in ({}, {"sampler_correction": False}):
        *_, sums = corrected("rloo", ROWS, OFF, **changes)
        assert sums["sampler_logp_difference"].item() == pytest.approx(2 * LOG2 / 5)
        assert sums["sampler_logp_difference_max"].item() == pytest.approx(LOG2)
        assert sums["sampler_weight"].item() == pytest.approx((2 + 0.5) / 2)


def test_rloo_takes_seed_001s_clamped_sequence_weight_from_the_sampler():
    """loss = -(1/2)(2 * 1 * -3 + 1/2 * -1 * -2) = 2.5 with weights 2 and 1/2, the bounds of the clamp."""
    value, grad, sums = corrected("rloo", ROWS, OFF)
    assert value == pytest.approx(2.5)
    assert grad[0].tolist() == pytest.approx([-1.0] * 3) and grad[1].tolist() == pytest.approx([0.25, 0.25, 0.0])
    assert sums["importance_weight"].item() == pytest.approx((2 + 0.5) / 2)


def test_grpo_takes_trls_truncated_weight_and_keeps_its_own_ratio_at_one():
    """sequence_truncate at 1.5: weights 1.5 and 1/2; the token mean of each row is its advantage times that weight:
    -(1/2)(1.5 - 0.5) = -0.5, and the gradient of row 0 is -(1/2) 1.5 / 3 per token."""
    value, grad, _ = corrected(
        "grpo", ROWS, OFF, sampler_correction_mode="sequence_truncate", sampler_correction_max=1.5
    )
    assert value == pytest.approx(-0.5)
    assert grad[0].tolist() == pytest.approx([-0.25] * 3) and grad[1].tolist() == pytest.approx([0.125, 0.125, 0.0])


def test_in_a_round_of_one_step_a_weight_per_token_may_take_the_place_of_a_sequences():
    """-(1/2)(1 * -3 - 1 * -2) = 1/2 as without an engine; gradients times the weights 1.5 1 1 and 1 1/2."""
    how = dict(sampler_correction_mode="token_truncate", sampler_correction_max=1.5)
    value, grad, sums = corrected("rloo", ROWS, OFF, **how)
    assert value == pytest.approx(0.5) and sums["importance_clamped"].item() == 0
    assert grad[0].tolist() == pytest.approx([-0.75, -0.5, -0.5])
    assert grad[1].tolist() == pytest.approx([0.5, 0.25, 0.0])
    modes = []
    given = {"vllm_importance_sampling_mode": "sequence_truncate"}
    for changes in ({}, {"bf16": False}, {"steps_per_round": 2}, given):
        args = make_config("unused", **{"bf16": True, "generation_backend": "vllm", **changes})
        modes.append(args.role("prover").sampler_correction_mode)
    assert modes == ["token_truncate", "sequence_mask", "sequence_mask", "sequence_truncate"]


def test_without_the_correction_the_samplers_log_probs_are_not_read():
    for objective in ("grpo", "rloo"):
        _, off, _ = corrected(objective, ROWS, OFF, sampler_correction=False)
        _, on, _ = corrected(objective, ROWS, ROWS, sampler_correction=False)
        assert torch.equal(off, on)


# -- a server that fails ---------------------------------------------------------------------------------------------

PATIENCE = 600  # seconds, for what only takes long where something hangs


@pytest.fixture
def failing_server():
    """A real HTTP server on 127.0.0.1 that answers as told: a list of (status, body), or "drop", or an event that it
    sets before it hangs until the test is over."""
    script, seen, over = [], [], threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            seen.append(self.path)
            step = script.pop(0) if script else (200, {"choices": []})
            if isinstance(step, threading.Event):
                step.set()
                over.wait()
                return
            if step == "drop":
                self.connection.close()
                return
            self.send_response(step[0])
            self.end_headers()
            self.wfile.write(json.dumps(step[1]).encode())

        do_GET = do_POST

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", script, seen
    over.set()
    server.shutdown()
    server.server_close()


def test_a_busy_hanging_or_dropping_server_is_asked_again(failing_server):
    url, script, seen = failing_server
    hangs = threading.Event()
    script += [(503, {"error": {"message": "busy"}}), hangs, "drop", (200, {"choices": [1]})]
    client = VLLMServerClient(url, timeout=PATIENCE, retries=3, backoff=0.01)

    def pause(attempt):  # the second request alone runs into its limit, however late the server's thread is
        client.timeout = 0.05 if attempt == 0 else PATIENCE
        assert attempt != 1 or hangs.wait(PATIENCE)

    client.pause = pause
    assert client.ask("/v1/completions", {})["choices"] == [1]
    assert len(seen) == 4 and client.lost


def test_the_retries_are_bounded_and_end_in_one_clear_error(failing_server, monkeypatch):
    """The second pause is twice the first: 0.05 and 0.1 s."""
    url, script, seen = failing_server
    script += [(500, {"error": {"message": "engine died"}})] * 9
    client, pauses = VLLMServerClient(url, timeout=PATIENCE, retries=2, backoff=0.05), []
    monkeypatch.setattr(server_module, "time", SimpleNamespace(sleep=pauses.append, perf_counter=lambda: 0.0))
    with pytest.raises(
        GenerationError, match=r"failed at /v1/completions 3 times.*500 engine died.*checkpoint is intact"
    ):
        client.ask("/v1/completions", {})
    assert len(seen) == 3 and pauses == [0.05, 0.1]


def test_a_refusal_is_not_repeated_and_a_missing_adapter_is_told_apart(failing_server):
    url, script, seen = failing_server
    script += [(400, {"error": {"message": "prompt too long"}}), (404, {"error": {"message": "no such model"}})]
    client = VLLMServerClient(url, timeout=PATIENCE, retries=5, backoff=0.01)
    with pytest.raises(GenerationError, match="refused /v1/completions: 400 prompt too long"):
        client.ask("/v1/completions", {"model": "a"})
    with pytest.raises(UnknownModelError, match="404 no such model"):
        client.ask("/v1/completions", {"model": "a"})
    assert len(seen) == 2


def test_a_server_that_is_not_there_is_one_sentence(build):
    """A port that is taken and not listened on: nobody else can be there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(GenerationError, match=rf"No vLLM server answered at {url} within about 1 s"):
            server = dict(generation_backend="vllm_server", vllm_server_base_url=url, vllm_server_timeout=1.0)
            build(policy_sharing="lora", trainer={"peft_config": LORA}, **server)


def test_a_run_that_samples_at_temperature_1_does_not_ask_a_server_for_its_log_probs(build, failing_server):
    url, script, seen = failing_server
    script += [(200, {}), (200, {"data": [{"id": "base"}]})]
    server = dict(generation_backend="vllm_server", vllm_server_base_url=url)
    build(policy_sharing="lora", trainer={"peft_config": LORA}, **server)
    assert seen == ["/health", "/v1/models"]
    script += [(200, {}), (200, {"data": [{"id": "base"}]})]
    script += [(200, {"vllm_config": {"model_config": {"logprobs_mode": "raw_logprobs"}}})]
    with pytest.raises(ConfigError, match="raw_logprobs, which leaves out the temperature"):
        build(policy_sharing="lora", temperature=0.7, trainer={"peft_config": LORA}, **server)


def test_an_engine_that_wakes_up_with_other_weights_ends_the_run():
    """Healthy is what a bf16 engine differs by, at most ten times that of the first round; 1.2 nats are never."""
    first, name = {}, "prover/sampler_logp_difference"
    for value in (0.03, 0.04, 0.29):
        check_woken(first, {name: value, "prover/sampler_logp_difference_max": 9.0})
    for known in (first, {}):
        with pytest.raises(GenerationError, match=r"`prover/sampler_logp_difference` is 1.2 .*vllm_enable_sleep_mode"):
            check_woken(known, {name: 1.2})
