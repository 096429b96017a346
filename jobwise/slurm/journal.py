"""The journal of a shadow: each cycle, what was seen, what the policy wanted, what Slurm did; each prediction, what came of it.

One SQLite file, a transaction a cycle: kill -9 loses at most the cycle that is being written.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.slurm.live import Cluster
from jobwise.slurm.starts import Predicted
from jobwise.starts.calibration import KEPT, Calibration, logs

VERSION = 1
AGAIN_S = 1800.0  # a prediction of a job is written down again so long after the last one; those that calibrate, always
RANKS = 100  # of the policy's order that are written down
TABLES = """
create table if not exists about(key text primary key, value text);
create table if not exists cycle(time real primary key, waiting int, running int, problem text);
create table if not exists job(id int primary key, name text, user text, account text, partition text, cpus int, submit real,
  asked real, start real, ended real);
create table if not exists event(time real, job int, what text);
create table if not exists prediction(time real, job int, q05 real, q10 real, q50 real, q90 real, q95 real, slurm real,
  calibrates int, s05 real, s10 real, s50 real, s90 real, s95 real, requested real, r05 real, r10 real, r50 real, r90 real,
  r95 real);
create table if not exists wish(time real, job int, rank int, begin_now int, why text);
create index if not exists of_job on prediction(job);
"""


class Journal:
    """The journal in a folder. Raises InputError for a file that is none, or of a newer version."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "journal.sqlite"
        try:
            self._db = sqlite3.connect(self.file, isolation_level=None)
            self._db.execute("pragma journal_mode=wal")
            self._db.executescript(TABLES)
            version = self._db.execute("select value from about where key = 'version'").fetchone()
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self.file}: is no journal: {error}") from None
        if version is None:
            self._db.execute("insert into about values('version', ?)", (str(VERSION),))
        elif version[0] != str(VERSION):
            self.close()
            raise InputError(f"{self.file}: is of version {version[0]}; this is version {VERSION}")

    def close(self) -> None:
        """Close the file of the journal."""
        self._db.close()

    def rows(self, query: str, *values: Any) -> list[tuple]:
        """Return the rows of a query."""
        return self._db.execute(query, values).fetchall()

    @property
    def last(self) -> float:
        """When the last cycle was, s since 1970; -inf: there was none."""
        time = self.rows("select max(time) from cycle")[0][0]
        return -np.inf if time is None else float(time)

    def write(self, p: Predicted, order: list[dict], begin: set[int], problem: str = "") -> dict[str, int]:
        """Write down a cycle: predictions, how the policy ranks the queue, whom it would start now. Returns how many jobs came,
        started and ended since the last one."""
        c = p.cluster
        now, jobs = c.now + c.workload.origin, self._jobs(c)
        known = {r[0]: r[1:] for r in self.rows("select id, start, ended from job")}
        events = []
        for id, job in jobs.items():
            before = known.get(id, (None, None))
            events += [(now, id, "submitted")] if id not in known else []
            events += [(now, id, "started")] if job["start"] is not None and before[0] is None else []
            events += [(now, id, "ended")] if job["ended"] is not None and before[1] is None else []
        gone = [id for id, (start, _) in known.items() if start is None and id not in jobs]
        try:
            self._db.execute("begin immediate")
            self._db.execute(
                "insert or replace into cycle values(?, ?, ?, ?)", (now, len(c.waiting), self._running(c), problem)
            )
            self._db.executemany(
                "insert into job values(:id, :name, :user, :account, :partition, :cpus, :submit, :asked, :start, :ended) on "
                "conflict(id) do update set start = :start, ended = :ended, asked = :asked",
                list(jobs.values()),
            )
            self._db.executemany("insert into event values(?, ?, ?)", events + [(now, id, "gone") for id in gone])
            self._db.executemany("delete from prediction where job = ?", [(id,) for id in gone])
            self._db.executemany(f"insert into prediction values({', '.join('?' * 20)})", self._predictions(p, now))
            wishes = [
                (now, x["job"], k, int(x["job"] in begin), x["why"])
                for k, x in enumerate(order)
                if k < RANKS or x["job"] in begin
            ]
            self._db.executemany("insert into wish values(?, ?, ?, ?, ?)", wishes)
            self._db.execute("commit")
        except sqlite3.OperationalError as error:  # the disk is full, or somebody else writes
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise InputError(f"{self.file}: cannot be written: {error}") from None
        count = [x[2] for x in events]
        return {k: count.count(k) for k in ("submitted", "started", "ended")}

    def _running(self, c: Cluster) -> int:
        jobs = c.workload.jobs
        return int((np.isnan(jobs["end"]) & ~np.isnan(jobs["start"])).sum())

    def _jobs(self, c: Cluster) -> dict[int, dict]:
        """The jobs of a cluster that the journal is about: those that are there now, and those that it knows."""
        w, known = c.workload, {r[0] for r in self.rows("select id from job where ended is null")}
        jobs, names, out = w.jobs, w.names, {}
        for i, id in enumerate(w.columns["job"].tolist()):
            if not np.isnan(jobs["end"][i]) and id not in known:
                continue
            at = {k: None if np.isnan(x := jobs[k][i]) else float(x) + w.origin for k in ("start", "end", "submit")}
            out[id] = {
                "id": id,
                "cpus": int(jobs["request"][i, 0]),
                "submit": at["submit"],
                "asked": float(jobs["walltime"][i]),
            }
            out[id] |= {"start": at["start"], "ended": at["end"], "name": c.waiting[id].name if id in c.waiting else ""}
            of = (("user", "user"), ("account", "group"), ("partition", "partition"))
            out[id] |= {k: names[column].get(int(jobs[column][i]), "") for k, column in of}
        return out

    def _predictions(self, p: Predicted, now: float) -> list[tuple]:
        m, c, ids = p.starts, p.cluster, p.cluster.workload.columns["job"]
        last = {id: k for k, id in enumerate(p.predictor.calibration.job)}
        lately = {r[0] for r in self.rows("select distinct job from prediction where time > ?", now - AGAIN_S)}
        out = []
        for i, row in enumerate(m.rows):
            id = int(ids[row])
            if (x := c.waiting.get(id)) is None:
                continue
            k = last.get(id, -1)
            k = k if k >= 0 and abs(p.predictor.calibration.made[k] - now) < 1e-3 else -1
            if k < 0 and id in lately:
                continue
            plain = p.predictor.calibration.sampled[k] if k >= 0 else np.full(5, np.nan)
            both = logs(m.both[1, i])
            line = (now, id, *m.quantiles[i].tolist(), p.planned(x), int(k >= 0), *plain.tolist())
            out.append((*line, float(logs(m.requested[i])), *both.tolist()))
        return out

    def calibration(self) -> Calibration:
        """Return what came of the last predictions, for the next."""
        c = Calibration()
        query = (
            "select p.time, p.job, s05, s10, s50, s90, s95, requested, r05, r10, r50, r90, r95, q05, q10, q50, q90, q95, "
            "j.start from prediction p left join job j on j.id = p.job where calibrates = 1 order by p.time desc limit ?"
        )
        for r in reversed(self.rows(query, KEPT)):
            shown = np.stack([logs(np.array(r[13:18], float)), np.array(r[8:13], float)])
            c.add(r[0], r[1], np.array(r[2:7], float), r[7], shown)
            if r[18] is not None:
                c.outcome[-1] = float(logs(np.array(r[18] - r[0])))
        return c

    def score(self) -> dict[str, float]:
        """How well starts were foretold: predictions of jobs that have started since, median errors (s) of ours and of Slurm's
        own plans (where it had one), shares of starts within the 80 and 90 % intervals."""
        query = (
            "select j.start - p.time, q05, q10, q50, q90, q95, slurm from prediction p join job j on j.id = p.job "
            "where j.start > p.time"
        )
        x = np.array([[np.nan if v is None else v for v in r] for r in self.rows(query)], float).reshape(-1, 7)
        if not len(x):
            return {"predictions": 0}
        came, planned = x[:, 0], ~np.isnan(x[:, 6])
        out = {"predictions": float(len(x)), "error": float(np.median(np.abs(x[:, 3] - came)))}
        if planned.any():
            out["error_planned"] = float(np.median(np.abs(x[:, 3] - came)[planned]))
            out["slurm_error"] = float(np.median(np.abs(x[:, 6] - came)[planned]))
        out["cover80"] = float(((came >= x[:, 2] - 1) & (came <= x[:, 4] + 1)).mean())
        return out | {"cover90": float(((came >= x[:, 1] - 1) & (came <= x[:, 5] + 1)).mean())}

    def agreement(self) -> dict[str, float]:
        """Jobs that Slurm started, and the share that the policy wanted to start in the last cycle before."""
        query = (
            "select (select count(*) from wish w where w.job = j.id and w.begin_now = 1 and w.time = (select max(time) from "
            "cycle c where c.time <= j.start)) from job j where j.start > (select min(time) from cycle)"
        )
        rows = [min(r[0], 1) for r in self.rows(query)]
        return {"started": float(len(rows)), "wanted": float(np.mean(rows)) if rows else np.nan}
