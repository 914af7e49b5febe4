"""Sampling by vLLM servers outside the training processes, one for all roles or one per role, and their HTTP client
with time-outs and a bounded number of retries with growing pauses."""

from __future__ import annotations

import http.client
import itertools
import json
import logging
import threading
import time
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from .. import _trl
from ..config.part_rules import cutting
from ..distributed.ddp import Engine
from ..errors import ConfigError, GenerationError
from ..policies import inner_name
from .base import SamplingContext
from .vllm_sampler import (
    AdapterFolders,
    VLLMSampler,
    adapter_rank,
    adapter_state,
    check_lengths,
    check_one_shape,
    require_vllm,
)

logger = logging.getLogger(__name__)

CONCURRENCY = 64  # prompts that are under way at once; the server batches them
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # answers that another attempt may change
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class UnknownModelError(GenerationError):
    """Error of a server that does not know an adapter that it was sent, because the server has restarted since."""


class VLLMServerClient:
    """HTTP client of one server. `timeout`: seconds per attempt. `retries`: attempts after the first. `backoff`: pause
    in seconds before the first retry, multiplied by `growth` before each further one. `quiet`: retries are not logged.
    `lost`: a request failed, not by a time-out, and the server may have restarted."""

    def __init__(
        self, url: str, timeout: float, retries: int, backoff: float = 2.0, growth: float = 2.0, quiet: bool = False
    ) -> None:
        self.url, self.quiet, self.timeout, self.retries = url.rstrip("/"), quiet, timeout, int(retries)
        self.backoff, self.growth = backoff, growth
        self.lost = False

    def pause(self, attempt: int) -> None:
        """Wait before the retry that follows attempt number `attempt`, counted from 0."""
        time.sleep(self.backoff * self.growth**attempt)

    def knows(self, path: str, body: dict[str, Any]) -> bool:
        """Post `body`; return False if the server has no such path, else True. Raises HTTPError for other refusals."""
        try:
            self._once(path, body)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the server's answer to a GET of `path`, or to a POST of `body`. Raises GenerationError on failure."""
        start = time.perf_counter()
        for attempt in range(self.retries + 1):
            try:
                return self._once(path, body)
            except urllib.error.HTTPError as error:
                reason = f"{error.code} {_message(error)}"
                if error.code == 404 and body is not None and "model" in body:
                    raise UnknownModelError(f"The vLLM server at {self.url} answered {path} with {reason}.") from None
                if error.code not in _BUSY:
                    raise GenerationError(
                        f"The vLLM server at {self.url} refused {path}: {reason}. The newest complete checkpoint is "
                        "intact; mend the setting and resume from it."
                    ) from None
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:  # URLError is an OSError
                self.lost = self.lost or not isinstance(error, TimeoutError)
                reason = str(getattr(error, "reason", None) or error or type(error).__name__)
            if attempt < self.retries:
                if not self.quiet:
                    logger.warning(f"The vLLM server at {self.url} failed at {path} ({reason}); it is asked again.")
                self.pause(attempt)
        raise GenerationError(
            f"The vLLM server at {self.url} failed at {path} {self.retries + 1} times in "
            f"{time.perf_counter() - start:.0f} s (last: {reason}). The newest complete checkpoint is intact: start "
            "the server again and resume from it; vllm_request_retries and vllm_request_timeout bound the patience."
        )

    def _once(self, path: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with _NO_PROXY.open(request, timeout=self.timeout) as response:
            text = response.read().decode()
        if not text:
            return None
        try:
            return json.loads(text)
        except json.JSONDecodeError:  # vLLM answers the loading of an adapter with a plain sentence
            if path == "/v1/completions":
                raise
            return text


def _message(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read().decode(errors="replace")
    except OSError:
        return error.reason
    try:
        found = json.loads(text)
        inner = found.get("error", found)
        return str(inner.get("message", inner) if isinstance(inner, dict) else inner)
    except (ValueError, AttributeError):
        return text.strip()[:500] or str(error.reason)


class Server(VLLMSampler):
    """Sampler that requests completions from vLLM servers outside the training processes, and sends them changed
    weights before a role's turn. Under `lora` a server holds the base and receives adapters as files through
    `/v1/load_lora_adapter`, again after a restart. Under `full` and `tied`, whole weights go over NCCL by TRL's
    client, to one server per role or in turn to a shared one. The main process talks to the servers, and shares
    completions and errors with the others."""

    def __init__(self, context: SamplingContext, engine: Engine) -> None:
        """Connect to the servers. `engine`: wrapper of the trained module."""
        super().__init__(context)
        self.accelerator = engine.accelerator
        args, policies, device = context.args, context.policies, context.processes.device.type
        shared = f"http://{args.vllm_server_host}:{args.vllm_server_port}"
        self.urls = {role: (s.vllm_server_base_url or shared).rstrip("/") for role, s in context.roles.items()}
        if self.adapters:
            adapter_rank(policies)
        else:
            sends = (
                f"`generation_backend` (vllm_server) with policy_sharing='{args.policy_sharing}' sends whole weights"
            )
            if device != "cuda":
                raise ConfigError(
                    f"{sends} over NCCL, which needs a CUDA device, and this run is on {device}; use "
                    "policy_sharing='lora', or generation_backend=vllm."
                )
            if engine.shards_weights:
                raise ConfigError(
                    f"{sends} from the main process, and {engine.name} shards them; use policy_sharing='lora', "
                    "generation_backend=vllm, or launch with ddp or zero2."
                )
            require_vllm(args)  # whole weights go by TRL's client, which needs it here too
            for url in self.urls.values():
                names = [inner_name(name) for role, name in policies.weights_of.items() if self.urls[role] == url]
                check_one_shape({name: policies.module.policies[name] for name in names})
        folder = Path(args.vllm_adapter_dir or Path(args.output_dir) / "vllm_adapters").resolve()
        self._folders = AdapterFolders(folder, policies)
        self._labels: dict[tuple[str, str], tuple[str, Path]] = {}  # (server, weights) -> adapter and its folder
        self._channels: dict[str, Any] = {}
        self._marks: dict[str, str] = {}  # server -> the main process's name for the weights last sent to it
        self._lock = threading.Lock()
        tries = args.vllm_request_timeout, args.vllm_request_retries
        self.clients = {url: VLLMServerClient(url, *tries) for url in dict.fromkeys(self.urls.values())}
        self.models: dict[str, dict[str, Any]] = {}
        self.context.processes.together(self._meet_servers)

    def _meet_servers(self) -> None:
        for url, client in self.clients.items():
            patience = self.context.args.vllm_server_timeout  # it may still be starting
            try:
                VLLMServerClient(url, 10.0, int(patience // 2), 2.0, growth=1.0, quiet=True).ask("/health")
            except GenerationError:
                raise GenerationError(
                    f"No vLLM server answered at {url} within about {patience:g} s (vllm_server_timeout): start it, "
                    "or mend vllm_server_base_url, such as http://127.0.0.1:8000."
                ) from None
            self.models[url] = client.ask("/v1/models")["data"][0]
            served = [settings for role, settings in self.context.roles.items() if self.urls[role] == url]
            plain = all(s.temperature == 1.0 and s.top_p >= 1.0 and s.top_k <= 0 for s in served)
            if served and (not plain or cutting(self.context.args)):
                self._check_logprobs_mode(client)

    def _check_logprobs_mode(self, client: VLLMServerClient) -> None:
        try:
            info = client.ask("/server_info?config_format=json")
        except GenerationError as error:
            raise ConfigError(
                f"The vLLM server at {client.url} does not say how it computes log-probs ({error}); start it with "
                "VLLM_SERVER_DEV_MODE=1 in its environment and --logprobs-mode processed_logprobs, or sample with "
                "temperature 1, top_p 1 and top_k 0."
            ) from None
        mode = info["vllm_config"]["model_config"]["logprobs_mode"]
        if mode != "processed_logprobs":
            raise ConfigError(
                f"The vLLM server at {client.url} runs with --logprobs-mode {mode}, which leaves out the temperature; "
                "start it with --logprobs-mode processed_logprobs."
            )

    def push(self, name: str, role: str) -> bool:
        if self.adapters and name in self.context.policies.frozen:  # the server's base as it is
            return False
        url = self.urls[role]
        place = f"{url} {name}" if self.adapters else url
        if not self.adapters and self.context.processes.together(lambda: self._replaced(url)):
            self._held.pop(place, None)
            self._close_channel(url)
        send = self._send_adapter if self.adapters else self._send_weights
        return self.renew(place, name, lambda: send(url, name))

    def _send_adapter(self, url: str, name: str) -> None:
        state = adapter_state(self.context.policies, name)

        def send() -> None:
            label, _, folder = self._folders.write(name, state)
            old = self._labels.get((url, name))
            self._load(url, label, folder)
            self._labels[url, name] = (label, folder)
            if old is not None:
                with suppress(GenerationError):  # a server that was started anew has nothing to unload
                    self.clients[url].ask("/v1/unload_lora_adapter", {"lora_name": old[0]})

        self.context.processes.together(send)

    def _load(self, url: str, label: str, folder: Path) -> None:
        try:
            self.clients[url].ask("/v1/load_lora_adapter", {"lora_name": label, "lora_path": str(folder)})
        except GenerationError as error:
            if "already been loaded" not in str(error):  # a reply that was lost on its way; names are never used twice
                raise GenerationError(
                    f"{error} An adapter needs a server with --enable-lora, VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its "
                    f"environment, and the folder {folder} under the same path."
                ) from None

    def _send_weights(self, url: str, name: str) -> None:
        """Send whole weights by TRL's client. All processes call it; a failure on one is a failure on all, and is
        retried with a new channel. Raises GenerationError after the last attempt."""
        args, client = self.context.args, self.clients[url]
        model = self.context.policies.module.policies[inner_name(name)]
        reason = ""
        for attempt in range(client.retries + 1):
            try:
                if url not in self._channels:
                    port, patience = args.vllm_group_port + list(self.clients).index(url), args.vllm_server_timeout
                    info = self.context.processes.together(lambda: client.ask("/server_info?config_format=json"))
                    dtype = getattr(torch, info["vllm_config"]["model_config"]["dtype"].removeprefix("torch."))
                    given = self.accelerator, self.context.tokenizer, model, url, port, patience, dtype
                    self._channels[url] = _trl.server_vllm(*given)
                self._channels[url].model = model
                self._channels[url].sync_weights()
                if self.context.processes.main:
                    self._mark(url)
                reason = ""
            except Exception as error:  # TRL raises bare Exceptions beside those of requests, torch and NCCL
                reason = f"{type(error).__name__}: {error}"
            reason = next((r for r in self.context.processes.gather([reason]) if r), "")
            if not reason:
                client.lost = False
                return
            self._close_channel(url)
            if attempt < client.retries:
                client.pause(attempt)
        raise GenerationError(
            f"The vLLM server at {url} did not take the weights of {name} in {client.retries + 1} attempts (last: "
            f"{reason}). The newest complete checkpoint is intact: start the server with VLLM_SERVER_DEV_MODE=1 and "
            """--weight-transfer-config '{"backend": "nccl"}', and resume from it."""
        )

    def _close_channel(self, url: str) -> None:
        _trl.close_channel(self._channels.pop(url, None))

    def _mark(self, url: str) -> None:
        """Name the server's current weights; the server loses the name at a restart. A vLLM without such names (404)
        is monitored by failed requests alone."""
        mark = uuid.uuid4().hex
        if self.clients[url].knows("/update_weight_version", {"new_version": mark}):
            self._marks[url] = mark

    def _replaced(self, url: str) -> bool:
        """Return whether the server may lack the weights last sent to it. Only the main process calls it."""
        client = self.clients[url]
        if url in self._marks and client.ask("/weight_info")["weight_version"] != self._marks[url]:
            client.lost = True
        return client.lost

    def generate(
        self, role: str, prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, ...]:
        processes = self.context.processes
        everyone = processes.gather([(prompts, int(torch.randint(2**31, ())))])
        # Adjacent equal prompts of one process are one request.
        runs = [[(ids, len(list(run))) for ids, run in itertools.groupby(own)] for own, _ in everyone]
        generators = [torch.Generator().manual_seed(seed) for _, seed in everyone]
        sampled = [(group, one) for own, one in zip(runs, generators, strict=True) for group in own]
        seeds = [int(torch.randint(2**31, (), generator=generator)) for _, generator in sampled]
        groups = [group for group, _ in sampled]
        choices = processes.together(lambda: _slim(self.complete(role, groups, seeds)))
        first = sum(len(own) for own, _ in everyone[: processes.rank])
        mine = choices[first : first + len(prompts)]
        return prompts, [ids for ids, _ in mine], [[[value] for value in logps] for _, logps in mine], None

    def complete(self, role: str, groups: list[tuple[list[int], int]], seeds: list[int]) -> list[dict[str, Any]]:
        """Return the choices of all groups (a prompt and its number of completions), in order. A group has one request
        and one seed: the server gives the group's n-th completion the seed + n."""
        settings, url = self.sampling_settings(role), self.urls[role]
        longest = max(len(ids) for ids, _ in groups)
        check_lengths(role, longest, settings["max_tokens"], self.models[url].get("max_model_len"))
        name = self.context.policies.weights_of[role]

        def ask(group: tuple[list[int], int], seed: int) -> list[dict[str, Any]]:
            body = {"prompt": group[0], "n": group[1], "seed": seed, "logprobs": 0, **settings}
            body |= {"return_token_ids": True, "return_tokens_as_token_ids": True}
            return self._ask(url, name, body)

        executor = ThreadPoolExecutor(max_workers=min(CONCURRENCY, len(groups)))
        try:
            futures = [executor.submit(ask, group, seed) for group, seed in zip(groups, seeds, strict=True)]
            found = [choice for future in futures for choice in future.result()]
        finally:  # after an error, do not wait for the other requests' time-outs
            executor.shutdown(wait=False, cancel_futures=True)
        if not self.adapters and self._replaced(url):
            raise GenerationError(
                f"The vLLM server at {url} went away during the {role}'s turn and may have come back without its "
                "weights. The newest complete checkpoint is intact: resume from it."
            )
        return found

    def _ask(self, url: str, name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        client = self.clients[url]
        if not self.adapters or name in self.context.policies.frozen:
            return client.ask("/v1/completions", {"model": self.models[url]["id"], **body})["choices"]
        label, folder = self._labels[url, name]
        for _ in range(client.retries + 1):
            try:
                return client.ask("/v1/completions", {"model": label, **body})["choices"]
            except UnknownModelError as error:
                unknown = error
                with self._lock:  # a restarted server: one thread sends the adapter again
                    self._load(url, label, folder)
        raise unknown


def _slim(choices: list[dict[str, Any]]) -> list[tuple[list[int], list[float | None]]]:
    """Return token ids and log-probs of each choice; a log-prob is None if the server has none."""
    found = []
    for choice in choices:
        logps = [None if v is None or v != v else v for v in choice["logprobs"]["token_logprobs"]]
        if len(logps) != len(choice["token_ids"]):
            raise GenerationError(
                f"A vLLM server returned {len(choice['token_ids'])} tokens with {len(logps)} log-probs; its version "
                "is not one that TRL 1.16 works with (0.22 to 0.31)."
            )
        found.append((choice["token_ids"], logps))
    return found
