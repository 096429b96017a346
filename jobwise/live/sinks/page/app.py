"""The routes of the page: HTML, the JSON API, server-sent events, metrics, and one way to write: stop."""

from __future__ import annotations

import json
import pwd
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from jobwise.errors import plain
from jobwise.live.sinks.page.board import Board, Busy
from jobwise.live.sinks.page.guards import HEADERS, Guards, Headed
from jobwise.live.sinks.page.metrics import exposition
from jobwise.live.sinks.page.openapi import document
from jobwise.live.sinks.page.state import Job, State

SHOWN, MOST = 200, 10_000  # jobs of an answer
LINES, MOST_LINES = 100, 1000  # of the audit log
PING_S = 15.0  # between two signs of life of a stream of events
MOST_KEPT, ASKING = 64, 4  # answers about one state; questions about one job
MOST_READERS = 500  # streams of events
BEHIND_A_PROXY, OF_ONE = 100, 4  # streams, each of which keeps a thread of the proxy; of one viewer
KNOWN_S = 600  # a name that is an account, or none, is not looked up again
FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.svg": ("page.svg", "image/svg+xml"),
}


def app_of(board: Board, guards: Guards, hosts: list[str], metrics_alone: bool = False) -> Starlette:
    """The application that serves a board, or its `metrics_alone`, to those who ask for it by one of the `hosts`."""
    pages = _Pages(board, guards)
    routes = [Route("/metrics", pages.metrics)]
    routes += [] if metrics_alone else _rest(pages)
    middleware = [Middleware(Headed), Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _failed, Exception: _broken})


def _rest(pages: _Pages) -> list[Route]:
    """The routes of the page and its API."""
    return [
        *(Route(path, _file(*of)) for path, of in FILES.items()),
        Route("/api/now", pages.now),
        Route("/api/jobs", pages.jobs),
        Route("/api/jobs/{job}/sooner", pages.sooner),
        Route("/api/audit", pages.audit),
        Route("/api/events", pages.events),
        Route("/api/openapi.json", pages.openapi),
        Route("/api/stop", pages.stop, methods=["POST"]),
    ]


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    content = (files("jobwise.live.sinks.page") / name).read_bytes()
    return lambda request: Response(content, media_type=kind)


def _failed(request: Request, error: Exception) -> Response:
    """Say what went wrong, in JSON."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _broken(request: Request, error: Exception) -> Response:
    """Say that it is our fault; the server writes down which."""
    return JSONResponse({"error": "jobwise failed here"}, 500, HEADERS)


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,12}", text) or not 0 < int(text) <= most:
        raise HTTPException(422, f"{name} is a number from 1 to {most:,}")
    return int(text)


class _Pages:
    """The answers of the API, a method each."""

    def __init__(self, board: Board, guards: Guards):
        self.board, self.guards, self.readers = board, guards, Counter[str | None]()
        self._listed: dict[tuple, bytes] = {}  # answers of one state
        self._of: State | None = None
        self._asking = CapacityLimiter(ASKING)

    def _state(self, request: Request) -> tuple[State, str | None]:
        """The state, and whose jobs alone are shown (None: all)."""
        viewer = self.guards.viewer(request)
        if self.board.state is None:
            why = f": {self.board.problem}" if self.board.problem and viewer is None else ""
            raise HTTPException(503, f"no cycle is over yet{why}")
        s = self.board.state if viewer is None else self.board.veiled
        assert s is not None
        if viewer is not None and self.guards.header and not _is_known(viewer, s):
            raise HTTPException(403, f"{plain(viewer)} is no account here; the proxy has to name accounts as Slurm does")
        return s, viewer

    async def now(self, request: Request) -> Response:
        """Answer with all of the state but the jobs."""
        s, viewer = self._state(request)
        out = s.model_dump(exclude={"jobs", "cannot_start"})
        if viewer is not None:
            out["users"] = [u for u in out["users"] if u["user"] == viewer]
            out["problem"] = s.problem and "the last cycle failed"  # its words may name others
        next_ = [x for x in s.jobs if x.starts_now and viewer in (None, x.user)][:20]
        more = {"starts_next": [_row(x, viewer) for x in next_], "viewer": viewer, "stoppable": bool(self.guards.token)}
        return JSONResponse(out | more)

    async def jobs(self, request: Request) -> Response:
        """Answer with the jobs that wait: all, those of a user, or one."""
        (s, viewer), job = self._state(request), 0
        user = request.query_params.get("user")
        if "job" in request.query_params:
            job = _number(request, "job", 0, 2**31 - 1)
        limit = _number(request, "limit", SHOWN, MOST)
        if self._of is not s or len(self._listed) >= MOST_KEPT:
            self._of, self._listed = s, {}
        key = (user, viewer, job, limit)
        if key not in self._listed:
            self._listed[key] = _listed(s, *key)
        return Response(self._listed[key], media_type="application/json")

    async def sooner(self, request: Request) -> Response:
        """Answer with what would start a job sooner."""
        (s, viewer), text = self._state(request), request.path_params["job"]
        if not re.fullmatch(r"[0-9]{1,10}", text):
            raise HTTPException(404, "the number of a job was expected")
        job = int(text)
        if viewer is not None and not any(x.job == job and x.user == viewer for x in s.jobs):
            raise HTTPException(404, f"no such job of yours waits and may start: {job}")
        try:
            if self._asking.available_tokens < 1:
                raise Busy
            offers = await to_thread.run_sync(self.board.sooner, job, limiter=self._asking)
        except KeyError:
            raise HTTPException(404, f"job {job} does not wait") from None
        except Busy:
            raise HTTPException(503, "others ask as well; try again", {"Retry-After": "5"}) from None
        return JSONResponse({"job": job, "sooner": offers})

    async def audit(self, request: Request) -> Response:
        """Answer with the last lines of the audit log."""
        (s, viewer), limit = self._state(request), _number(request, "limit", LINES, MOST_LINES)
        lines = await to_thread.run_sync(self.board.audited, limit)
        if viewer is not None:
            own = {x.job for x in s.jobs if x.user == viewer} | {x.job for x in s.cannot_start if x.user == viewer}
            lines = [x for x in lines if x.get("job") in own]
        return JSONResponse({"lines": lines})

    async def events(self, request: Request) -> Response:
        """Answer with a stream: an event a cycle."""
        viewer, most = self.guards.viewer(request), BEHIND_A_PROXY if self.guards.header else MOST_READERS
        if self.readers.total() >= most or (self.guards.header and self.readers[viewer] >= OF_ONE):
            raise HTTPException(503, "too many readers", {"Retry-After": "30"})
        return StreamingResponse(self._stream(viewer), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _stream(self, viewer: str | None) -> AsyncIterator[str]:
        self.readers[viewer] += 1
        try:
            version = -1
            while not self.board.over:
                at = await self.board.news(version, PING_S)
                yield f"data: {json.dumps({'version': at})}\n\n" if at != version else ": still here\n\n"
                version = at
        finally:
            self.readers[viewer] -= 1

    async def openapi(self, request: Request) -> Response:
        """Answer with the description of this API."""
        return JSONResponse(document())

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of the state."""
        private = self.guards.private
        s = self.board.veiled if private else self.board.state
        text, kind = await to_thread.run_sync(exposition, s, private, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": kind})

    async def stop(self, request: Request) -> Response:
        """End the steering: all factors go back."""
        if refused := self.guards.refuses(request):
            raise HTTPException(*refused)
        if self.board.stop is None:
            raise HTTPException(409, "nothing is steered")
        self.board.stop()
        return JSONResponse({"stopping": True})


def _is_known(user: str, s: State) -> bool:
    """Return whether a user has jobs that wait, or an account on this machine."""
    own = {x.user for x in s.jobs} | {x.user for x in s.cannot_start}
    return user in own or _has_account(user, int(time.time() / KNOWN_S))


@lru_cache(4096)
def _has_account(user: str, at: int) -> bool:
    """Return whether a user has an account here; it is looked up once at each time `at`."""
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return True


def _row(x: Job, viewer: str | None) -> dict[str, Any]:
    """A job as a viewer may see it: jobs that it waits for may be of others."""
    return x.model_dump() | ({} if viewer is None else {"frees": []})


def _listed(s: State, user: str | None, viewer: str | None, job: int, limit: int) -> bytes:
    """Jobs that wait: of a `user` (None: of all), or one `job` (0: all), so far as the `viewer` may see them (None: wholly)."""

    def shown(x: Any) -> bool:
        return all(u in (None, x.user) for u in (user, viewer)) and job in (0, x.job)

    jobs = [x for x in s.jobs if shown(x)]
    out: dict[str, Any] = {"cluster": s.cluster, "cycle": s.cycle, "time": s.time, "answers": s.answers, "count": len(jobs)}
    out["record"] = s.score and {"predictions": s.score.predictions, "cover80": s.score.cover80}
    out["jobs"] = [_row(x, viewer) for x in jobs[:limit]]
    out["cannot_start"] = [x.model_dump() for x in s.cannot_start if shown(x)][:limit]
    return json.dumps(out, ensure_ascii=False, allow_nan=False).encode(errors="replace")
