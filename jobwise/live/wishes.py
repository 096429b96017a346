"""The decisions of a policy on the present state of a cluster; its run goes on from look to look, and remembers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from jobwise.decision import Start
from jobwise.errors import InputError
from jobwise.live.sources import Now
from jobwise.live.view import Look, names_of, view_of
from jobwise.policies.scheduler import begin, scheduler


class Unranked(InputError):
    """A policy does not rank the whole queue: its run is as good as before."""


class Wishes:
    """The decisions of a policy on the present state of a cluster: one run answers both questions, each once.

    `before`: its wishes at the look before, whose run goes on. The run begins anew where it failed, where it is another
    policy's, and where `view_of` finds jobs with events that a run does not expect.
    """

    def __init__(self, policy: Any, c: Now, before: Wishes | None = None):
        self.policy, self._c = policy, c
        self._before = before._before if before and not before._answers else before  # nobody asked then
        self._answers: dict[str, Any] = {}  # by question, also the exception

    _before: Wishes | None

    @cached_property
    def _asked(self) -> tuple[Look, Any]:
        """(what the policy sees, its run)."""
        before, self._before = self._before, None
        was, run = before._asked if before and before.policy is self.policy and not before.failed else (None, None)
        look = view_of(self._c, self.policy, was)
        if run is None or look.is_first:
            return look, begin(self.policy, look.view)
        run.ended(look.view, look.view.ended)
        return look, run

    @property
    def failed(self) -> bool:
        """Has the policy failed at a question, so that its run may be in any state?"""
        return any(isinstance(x, Exception) and not isinstance(x, Unranked) for x in self._answers.values())

    def _answer(self, question: Callable[[], Any]) -> Any:
        """The answer to a question, which is asked once, also where it fails."""
        name = question.__name__
        if name not in self._answers:
            try:
                self._answers[name] = question()
            except Exception as error:  # a user's policy may raise anything
                self._answers[name] = error
        if isinstance(answer := self._answers[name], Exception):
            raise answer
        return answer

    @property
    def order(self) -> list[dict]:
        """The waiting jobs as the policy ranks them, first to start first: `job` its number, `score`, `why`. Raises InputError
        where the policy ranks nothing, or nonsense."""
        return self._answer(self._order)

    @property
    def starts(self) -> dict[int, list[str]]:
        """The jobs that the policy would start now, by number: the names of the nodes that it would have each on; none on a
        pool. Raises InputError."""
        return self._answer(self._starts)

    def _order(self) -> list[dict]:
        (look, run), name = self._asked, scheduler(self.policy).name
        view, ids = look.view, look.ids
        if len(view.queue) == 0:
            return []
        if not hasattr(run, "explain"):
            raise Unranked(f"policy {name}: does not say how it ranks jobs")
        ranked = [x for x in run.explain(view) if x["job"] is not None]
        rows = [int(x["job"]) for x in ranked]
        if sorted(rows) != sorted(view.queue.tolist()):
            raise Unranked(f"policy {name}: ranked {len(set(rows))} of {len(view.queue)} jobs")
        if not np.isfinite(np.array([max(x["score"], -1e300) for x in ranked], float)).all():
            raise InputError(f"policy {name}: a score is no number")
        return [{"job": int(ids[x["job"]]), "score": float(x["score"]), "why": x.get("why", "")} for x in ranked]

    def _starts(self) -> dict[int, list[str]]:
        look, run = self._asked
        view, ids = look.view, look.ids
        if len(view.queue) == 0:
            return {}
        names, out = names_of(self._c, view.cluster), dict[int, list[str]]()
        for d in run.decide(view):
            if isinstance(d, Start):
                where = [] if view.cluster.is_pool or d.placement is None else [names[n] for n, _ in d.placement]
                out[int(ids[d.job])] = list(dict.fromkeys(where))
        return out
