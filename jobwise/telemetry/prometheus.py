"""Telemetry from Prometheus: range queries over HTTP, in parts, into one table.

Parts are as long as a server allows (11,000 samples a series), and are read one after the other; each answer is bounded in time
and in size. Counters (`_total`) are read as they are: the table makes rates of them.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from jobwise.errors import InputError
from jobwise.telemetry.table import MOST_SAMPLES, Telemetry, table

MOST_POINTS = 10_000  # of a series in an answer; Prometheus refuses more than 11,000
MOST_PARTS = 10_000  # answers
MOST_BYTES = 1 << 30  # of an answer
TOKEN = "JOBWISE_PROMETHEUS_TOKEN"  # the variable of the environment with a token
TIMEOUT_S, SLOW = 30.0, 10  # of one word of a server, and how many of them an answer may take
PART = 1 << 20  # bytes read at once


class Prometheus:
    """A server, e.g. `Prometheus("http://monitor:9090")`; `token`: for servers that ask for one. Raises InputError."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, token: str = ""):
        try:
            at = urlsplit(url if "://" in url else f"http://{url}")
            self._port, host = at.port, (at.hostname or "").encode("idna")
            at.path.encode("ascii")
        except ValueError as error:  # UnicodeError is one
            raise InputError(f"{url[:80]!r}: is no address of a Prometheus: {error}") from None
        if at.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
            raise InputError(f"{url}: is no address of a Prometheus, e.g. http://monitor:9090")
        if at.username or at.password:
            raise InputError(f"{at.hostname}: an address takes no password; a token comes from the environment")
        if not (token.isascii() and token.isprintable()):
            raise InputError(f"{url}: the token has characters that no header takes")
        self.url, self._at, self._timeout, self._token = url, at, timeout_s, token

    @classmethod
    def of(cls, url: str, timeout_s: float = TIMEOUT_S) -> Prometheus:
        """A server, with the token that the environment has for it (TOKEN). Raises InputError."""
        return cls(url, timeout_s, os.environ.get(TOKEN, ""))

    def _get(self, path: str, **query: str) -> Any:
        host, port, wait = self._at.hostname or "", self._port, self._timeout
        if self._at.scheme == "https":
            secure = ssl.create_default_context()
            link: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, timeout=wait, context=secure)
        else:
            link = http.client.HTTPConnection(host, port, timeout=wait)
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        try:
            link.request("GET", f"{self._at.path.rstrip('/')}/api/v1/{path}?{urlencode(query)}", headers=headers)
            answer = link.getresponse()
            body, until = bytearray(), time.monotonic() + SLOW * self._timeout
            while chunk := answer.read1(PART):
                body += chunk
                if time.monotonic() > until:
                    raise TimeoutError
                if len(body) > MOST_BYTES:
                    raise InputError(
                        f"{self.url}: an answer of more than {MOST_BYTES >> 20} MiB; ask for a longer --step or less"
                    )
        except TimeoutError:
            raise InputError(f"{self.url}: no answer in time ({self._timeout:g} s)") from None
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"{self.url}: {type(error).__name__}: {error or 'the connection broke off'}") from None
        finally:
            link.close()
        try:
            document = json.loads(body)
            status, data = document["status"], document.get("data")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{self.url}: answers {answer.status}, and no JSON of Prometheus: {bytes(body[:60])!r}") from None
        if answer.status in range(300, 400):
            raise InputError(f"{self.url}: sends us on to {answer.headers.get('Location', 'elsewhere')}; name that address")
        if status != "success":
            why = str(document.get("error", answer.reason))[:200]
            raise InputError(f"{self.url}: {document.get('errorType', 'error')}: {why}")
        return data

    def metrics(self) -> list[str]:
        """The names of all metrics. Raises InputError."""
        names = self._get("label/__name__/values")
        if not isinstance(names, list) or not all(isinstance(x, str) for x in names):
            raise InputError(f"{self.url}: its list of metrics is none")
        return names

    def now(self) -> float:
        """Its clock, Unix time in s. Raises InputError."""
        answer = self._get("query", query="time()")
        try:
            return float(answer["result"][1])
        except (KeyError, TypeError, IndexError, ValueError):
            raise InputError(f"{self.url}: does not say what time it is") from None

    def instant(self, query: str) -> dict[str, float]:
        """Return the present values of a query (any PromQL) by the label `instance`: the largest of each. Raises InputError."""
        data, out = self._get("query", query=query), dict[str, float]()
        try:
            for one in data["result"]:
                node, value = str(one["metric"].get("instance", "")), float(one["value"][1])
                out[node] = max(out.get(node, -math.inf), value)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            raise InputError(f"{self.url}: its answer to {query!r} is no value for each node") from None
        return out

    def read(
        self,
        queries: list[str],
        begin: float,
        end: float,
        step_s: float = 60.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Telemetry:
        """Return the values of queries (names of metrics, or any PromQL) from `begin` to `end` (Unix time, s), every `step_s`;
        nodes are the label `instance`, other labels but `job` separate series. Raises InputError."""
        if not (math.isfinite(begin) and math.isfinite(end) and begin < end and 0 < step_s < 1e7):
            raise InputError(f"from {begin:g} to {end:g} every {step_s:g} s: a time before another, and a step above 0 s")
        length = MOST_POINTS * step_s
        if (count := max(math.ceil((end - begin) / length), 1)) > MOST_PARTS:
            raise InputError(f"{self.url}: {count:,} answers would be needed; ask for a longer --step")
        parts = [(q, begin + i * length) for q in queries for i in range(count)]
        keys: dict[tuple[str, str], int] = {}
        which, times, values, count = [], [], [], 0
        for i, (query, first) in enumerate(parts):
            last = min(first + length - step_s, end)
            data = self._get("query_range", query=query, start=f"{first:.3f}", end=f"{last:.3f}", step=f"{step_s:g}")
            for labels, t, x in self._series(data, query):
                which.append(np.full(len(t), keys.setdefault(labels, len(keys)), np.int64))
                times.append(t)
                values.append(x)
                count += len(t)
            if count > MOST_SAMPLES:
                raise InputError(f"{self.url}: more than {MOST_SAMPLES:,} samples; ask for a longer --step or fewer metrics")
            if progress:
                progress(i + 1, len(parts))
        if not count:
            raise InputError(f"{self.url}: has no samples of {', '.join(queries[:5])} in that time")
        nodes, metrics = (list(dict.fromkeys(k[i] for k in keys)) for i in (0, 1))
        place = {x: {v: n for n, v in enumerate(names)} for x, names in ((0, nodes), (1, metrics))}
        series = np.concatenate(which)
        node, metric = (np.array([place[i][k[i]] for k in keys])[series] for i in (0, 1))
        return table(self._at.hostname or "", np.concatenate(times), node, metric, np.concatenate(values), nodes, metrics)

    def _series(self, data: Any, query: str) -> Any:
        """(node, metric), times and values of every series of an answer."""
        try:
            for one in data["result"]:
                if "values" not in one and "histograms" in one:
                    raise InputError(f"{self.url}: {query} has histograms; ask for a quantile of them")
                labels = dict(one["metric"])
                node, name = str(labels.pop("instance", "")), str(labels.pop("__name__", query))
                labels.pop("job", None)
                more = ",".join(f"{k}={v}" for k, v in sorted(labels.items()))
                t, x = zip(*one["values"], strict=True) if one["values"] else ((), ())
                yield (
                    (node, f"{name}{{{more}}}" if more else name),
                    np.array(list(map(float, t))),
                    np.array(list(map(float, x))),
                )
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{self.url}: its answer to {query!r} is no range of samples: {error}") from None
