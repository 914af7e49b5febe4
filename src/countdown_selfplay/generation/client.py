"""HTTP to a vLLM server: time-outs, a bounded number of retries with growing pauses, then one clear error."""

from __future__ import annotations

import http.client
import json
import logging
import time
import urllib.error
import urllib.request
from typing import Any

from ..errors import GenerationError

logger = logging.getLogger(__name__)

_BUSY = (408, 425, 429, 500, 502, 503, 504)  # answers that another attempt may change
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class UnknownModelError(GenerationError):
    """The server does not know an adapter that it was sent: it has been started anew since."""


class VLLMServerClient:
    """One server. `lost`: a request has failed without an answer since the last look, so the server may be a new one.

    Args:
        url: such as http://127.0.0.1:8000.
        timeout: seconds that one attempt may take.
        retries: attempts after the first one.
        backoff: seconds before the first retry; `growth` times as long before each further one.
        quiet: say nothing before a retry.
    """

    def __init__(
        self, url: str, timeout: float, retries: int, backoff: float, growth: float = 2.0, quiet: bool = False
    ) -> None:
        self.url, self.quiet = url.rstrip("/"), quiet
        self.timeout, self.retries = timeout, int(retries)
        self.backoff, self.growth = backoff, growth
        self.lost = False

    def pause(self, attempt: int) -> None:
        """Wait before the attempt after the one numbered `attempt`, counted from 0."""
        time.sleep(self.backoff * self.growth**attempt)

    def get(self, path: str) -> Any:
        return self._insist("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._insist("POST", path, body)

    def knows(self, path: str, body: dict[str, Any]) -> bool:
        """Post; False if the server has no such path."""
        try:
            self._once("POST", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

    def _insist(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        start = time.perf_counter()
        for attempt in range(self.retries + 1):
            try:
                return self._once(method, path, body)
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

    def _once(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        with _NO_PROXY.open(request, timeout=self.timeout) as response:
            text = response.read().decode()
        if not text:
            return None
        try:
            return json.loads(text)
        except json.JSONDecodeError:  # vLLM answers the loading of an adapter with a plain sentence
            if method == "POST" and path.startswith("/v1/completions"):
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
