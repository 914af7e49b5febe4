# Tests: warm_starts/iterated/engine.py
"""Iterated play through one vLLM engine: each role's samples are of its own weights, as `generate` draws them."""

from collections import Counter

import pytest
import torch

from countdown_selfplay.warm_starts.iterated import select
from tests.warm_starts.iterated.test_driver import DOMAIN, PROBLEMS, ROLES, driver

from .conftest import VLLM

pytestmark = pytest.mark.vllm

ENGINE = {name: value for name, value in VLLM.items() if name != "max_steps"}


def cut(logits, temperature, top_p, top_k):
    """The log-probs that generate draws from: heat, then the k likeliest, then the fewest that hold p of the rest."""
    logits = logits.double() / temperature
    if top_k:
        logits[logits < logits.topk(top_k).values[..., -1:]] = -torch.inf
    ordered, order = logits.softmax(-1).sort(-1, descending=True)
    out = ordered.cumsum(-1) - ordered >= top_p
    return logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -torch.inf).log_softmax(-1)


def watched(run):
    """role, prompts, completions and log-probs of every generation, and the model that should have sampled them."""
    seen, roster = [], run._roster

    def watch(weights):
        players = roster(weights)
        if not seen:
            generate = run.engine.sampler.generate

            def kept(role, prompts, *more):
                found = generate(role, prompts, *more)
                seen.append((role, run.now[role].model, prompts, found[1], found[2]))
                return found

            run.engine.sampler.generate = kept
        run.now = players
        return players

    run._roster = watch
    return seen


@torch.no_grad()
def gaps(model, prompts, completions, logps, **how):
    found = []
    for prompt, completion, logp in zip(prompts, completions, logps, strict=True):
        logits = model(torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1]
        own = cut(logits, **how)[range(len(completion)), completion]
        found.append((own - torch.tensor([value for (value,) in logp], dtype=torch.float64)).abs().max().item())
    return found


def test_a_game_of_two_iterations_is_sampled_by_each_roles_own_weights(tmp_path):
    """Temperature .95, top-p .95 and top-k 5, the paper's: the engine's log-probs are those of the cut distribution
    of the role's model, to 1e-4. The samples that were kept train the next iteration's models."""
    how = dict(temperature=0.95, top_p=0.95, top_k=5)
    run = driver(tmp_path / "run", PROBLEMS[:6], iterations=2, **how, **ENGINE)
    seen = watched(run)
    log = run.run()
    assert [(line["iteration"], line["phase"], line.get("role")) for line in log] == [
        (t, *phase) for t in (1, 2) for phase in [("play", None), *(("train", role) for role in ROLES)]
    ]
    assert all(line["backend"] == "vllm" for line in log if line["phase"] == "play")
    first, last = {}, {}
    for role, model, prompts, completions, logps in seen:
        assert max(gaps(model, prompts, completions, logps, **how)) < 1e-4, role
        first.setdefault(role, model)
        last[role] = model, prompts, completions, logps
    assert set(last) == set(ROLES)
    assert max(gaps(first["prover"], *last["prover"][1:], **how)) > 1e-3  # later pushes are of other weights
    rows = [row for c in (0, 1) for row in select.read(tmp_path / "run" / "iteration-2" / f"played-0000{c}.parquet")]
    assert {row["weights"] for row in rows if row["role"] == "prover"} == {"iteration-1/prover"}


def test_the_engine_draws_as_often_as_generate_does(tmp_path):
    """2,000 first tokens of one prompt: both counts are multinomial draws of one distribution, so that the chi-square
    of the two-row table has a mean of its degrees of freedom and a deviation of the root of twice that."""
    run = driver(tmp_path / "run", temperature=0.95, top_p=0.95, **ENGINE)
    run.meet()
    prompt, counts = DOMAIN.prove_row(PROBLEMS[0])["prompt"], []
    for engine in (run.engine, None):
        run.engine = engine
        player = run._roster({role: run.initial[role] for role in ROLES})["prover"]
        drawn = player.draw("prover", [prompt], 2000, 7, None)[0]
        counts.append(Counter(completion.text.split()[0] for completion in drawn if completion.text.split()))
    words = sorted(set(counts[0]) | set(counts[1]))
    table = torch.tensor([[count[word] for word in words] for count in counts], dtype=torch.float64)
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    freedom = len(words) - 1
    chi = ((table - expected) ** 2 / expected).sum().item()
    assert freedom > 1 and chi < freedom + 4 * (2 * freedom) ** 0.5, (chi, freedom)
