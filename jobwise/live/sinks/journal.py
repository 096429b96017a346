"""The journal of a shadow: each cycle, what was seen, what the policy wanted, what Slurm did; each prediction, what came of it.

One SQLite file, a transaction a cycle: kill -9 loses at most the cycle that is being written.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError, in_a_line, plain
from jobwise.files import lock, writing
from jobwise.live.sources import Now
from jobwise.live.starts import Predicted
from jobwise.starts.calibration import KEPT, LEVELS, Calibration, logs

VERSION = 2  # 1: before 2026-11, predictions in twenty columns
GROUPS = ("partition", "account", "user")
AGAIN_S = 1800.0  # a prediction of a job is written down again so long after the last one; those that calibrate, always
RANKS = 100  # of the policy's order that are written down
WISHES_S = 28 * 86_400.0  # wishes that are older are deleted
TABLES = """
create table if not exists about(key text primary key, value text);
create table if not exists cycle(time real primary key, waiting int, running int, problem text);
create table if not exists job(id int primary key, name text, user text, account text, partition text, cpus int, submit real,
  asked real, start real, ended real);
create table if not exists event(time real, job int, what text);
create table if not exists prediction(time real, job int, q05 real, q10 real, q50 real, q90 real, q95 real, slurm real,
  requested real, sampled blob, both blob);
create table if not exists wish(time real, job int, rank int, begin_now int, why text);
create index if not exists of_job on prediction(job);
create index if not exists wish_in_time on wish(time);
create index if not exists wish_of_job on wish(job, time);
"""


class Journal:
    """The journal in a folder; `reads`: nothing is written, and another process may write. Raises InputError for a file that is
    none, is damaged, or of a newer version, and where another process writes."""

    def __init__(self, folder: Path, reads: bool = False):
        self.file, self._lock = folder / "journal.sqlite", None
        self._db: Any = None
        if not reads:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock(folder / "journal.lock", f"{folder}: another process writes the journal there")
        try:
            with self._sound():
                mode = "ro" if reads else "rwc"
                self._db = sqlite3.connect(f"{self.file.absolute().as_uri()}?mode={mode}", isolation_level=None, uri=True)
                if not reads:
                    self._db.execute("pragma journal_mode=wal")
                    self._db.executescript(TABLES)
                faults = self._db.execute("pragma quick_check(1)").fetchall()
                version = self._db.execute("select value from about where key = 'version'").fetchone()
                if faults != [("ok",)]:
                    raise sqlite3.DatabaseError(str(faults[0][0]).splitlines()[-1])
                if version is None and not reads:
                    self._db.execute("insert into about values('version', ?)", (str(VERSION),))
            if version is not None and version[0] != str(VERSION):
                raise InputError(f"{self.file}: is of version {plain(version[0])}; this is version {VERSION}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file of the journal."""
        if self._db:
            self._db.close()
        if self._lock:
            self._lock.close()

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Raises InputError where the file is not as `write` has left it: a bad disk, or a hand in it."""
        try:
            yield
        except InputError:
            raise
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such"):  # a table, a column
                raise self._damaged(error) from None
            raise InputError(f"{self.file}: cannot be read or written now: {in_a_line(error)}") from None
        except (sqlite3.Error, UnicodeDecodeError, ValueError, TypeError, OverflowError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> InputError:
        goes_on = "move the files journal.sqlite* away, and a new one is begun"
        return InputError(f"{self.file}: is no journal, or is damaged: {in_a_line(error)}; {goes_on}")

    def rows(self, query: str, *values: Any) -> list[tuple]:
        """Return the rows of a query. Raises InputError where the journal is damaged."""
        with self._sound():
            return self._db.execute(query, values).fetchall()

    @property
    def last(self) -> float:
        """Return the time of the last cycle, s since 1970; -inf: there was none."""
        time = self.rows("select max(time) from cycle")[0][0]
        with self._sound():
            return -np.inf if time is None else float(time)

    def write(self, p: Predicted, order: list[dict], begin: set[int], problem: str = "") -> dict[str, list[int]]:
        """Write down a cycle: predictions, the policy's ranking of the queue, the jobs that it would start now. Return the jobs
        that came ("submitted"), started, ended, were cancelled ("gone"), and changed their request ("changed": limit, CPUs,
        partition) since the last cycle."""
        c = p.cluster
        now, jobs = c.now + c.workload.origin, self._jobs(c)
        before = {r[0]: r[1:] for r in self.rows("select id, start, asked, cpus, partition from job where ended is null")}
        started = {id: x[0] for id, x in before.items()}
        events: dict[str, list[int]] = {
            "submitted": [id for id in jobs if id not in started],
            "started": [id for id, job in jobs.items() if job["start"] is not None and started.get(id) is None],
            "ended": [id for id, job in jobs.items() if job["ended"] is not None],
            "changed": [
                id for id, x in jobs.items() if id in before and before[id][1:] != (x["asked"], x["cpus"], x["partition"])
            ],
            "gone": [id for id, at in started.items() if at is None and id not in jobs and id not in c.out],
        }
        try:
            self._db.execute("begin immediate")
            self._db.execute(
                "insert or replace into cycle values(?, ?, ?, ?)", (now, len(c.waiting), self._running(c), problem)
            )
            self._db.executemany(
                "insert into job values(:id, :name, :user, :account, :partition, :cpus, :submit, :asked, :start, :ended) on "
                "conflict(id) do update set start = :start, ended = :ended, asked = :asked, cpus = :cpus, "
                "partition = :partition",
                list(jobs.values()),
            )
            rows = [(now, id, kind) for kind, ids in events.items() for id in ids]
            self._db.executemany("insert into event values(?, ?, ?)", rows)
            for id in events["gone"]:  # it was cancelled: nothing comes of its predictions
                self._db.execute("delete from prediction where job = ?", (id,))
                self._db.execute("update job set ended = ? where id = ?", (now, id))
            self._db.executemany(f"insert into prediction values({', '.join('?' * 11)})", self._predictions(p, now))
            wishes = [
                (now, x["job"], k, int(x["job"] in begin), x["why"])
                for k, x in enumerate(order)
                if k < RANKS or x["job"] in begin
            ]
            self._db.executemany("insert into wish values(?, ?, ?, ?, ?)", wishes)
            self._db.execute("delete from wish where time < ?", (now - WISHES_S,))
            self._db.execute("commit")
        except sqlite3.Error as error:  # the disk is full, somebody else writes, or the file is damaged
            raise InputError(f"{self.file}: cannot be written: {error}") from None
        finally:
            if self._db.in_transaction:
                self._db.execute("rollback")
        return events

    def _running(self, c: Now) -> int:
        jobs = c.workload.jobs
        return int((np.isnan(jobs["end"]) & ~np.isnan(jobs["start"])).sum())

    def _jobs(self, c: Now) -> dict[int, dict]:
        """The jobs of a cluster that the journal is about: those that are there now, and those that it knows."""
        w, known = c.workload, {r[0] for r in self.rows("select id from job where ended is null")}
        jobs, names, out = w.jobs, w.names, {}
        ids = w.columns["job"]
        for i in np.flatnonzero(np.isnan(jobs["end"]) | np.isin(ids, list(known))).tolist():
            id = int(ids[i])
            at = {k: None if np.isnan(x := jobs[k][i]) else float(x) + w.origin for k in ("submit", "start", "end")}
            job: dict[str, Any] = {"id": id, "submit": at["submit"], "start": at["start"], "ended": at["end"]}
            job |= {"cpus": int(jobs["request"][i, 0]), "asked": float(jobs["walltime"][i])}
            job["name"] = c.waiting[id].name if id in c.waiting else ""
            for key, column in (("user", "user"), ("account", "group"), ("partition", "partition")):
                job[key] = names[column].get(int(jobs[column][i]), "")
            out[id] = job
        return out

    def _predictions(self, p: Predicted, now: float) -> list[tuple]:
        m, c, ids = p.starts, p.cluster, p.cluster.workload.columns["job"]
        lately = {r[0] for r in self.rows("select distinct job from prediction where time > ?", now - AGAIN_S)}
        out = []
        for i, row in enumerate(m.rows):
            id = int(ids[row])
            if (x := c.waiting.get(id)) is None:
                continue
            calibrates = i in m.recorded
            if id in lately and not calibrates:
                continue
            kept = (m.sampled[i].tobytes(), logs(m.both[:, i]).tobytes()) if calibrates else (None, None)
            out.append((now, id, *m.quantiles[i].tolist(), p.planned(x), float(logs(m.requested[i])), *kept))
        return out

    def calibration(self) -> Calibration:
        """Return what came of the last predictions, for the next."""
        c = Calibration()
        query = (
            "select p.time, p.job, p.sampled, p.requested, p.both, j.start from prediction p left join job j on j.id = p.job "
            "where p.sampled is not null order by p.time desc limit ?"
        )
        with self._sound():
            for time, job, sampled, requested, both, start in reversed(self.rows(query, KEPT)):
                c.add(time, job, np.frombuffer(sampled), requested, np.frombuffer(both).reshape(-1, len(LEVELS)))
                if start is not None:
                    c.outcome[-1] = float(logs(np.array(start - time)))
        return c

    def score(self, since: float = -np.inf) -> dict[str, float]:
        """Score the predicted starts: number of predictions `since` (s since 1970) of jobs that have started, median errors
        (s) of ours and of Slurm's own plans (where it had one), shares of starts within the 80 and 90 % intervals."""
        with self._sound():
            return _score([r[:7] for r in self._came(since)])

    def scores(self, by: str, since: float = -np.inf) -> dict[str, dict[str, float]]:
        """The same of each partition, account or user (`by`), the one with most predictions first."""
        column, groups = 7 + GROUPS.index(by), defaultdict(list)
        with self._sound():
            for r in self._came(since):
                groups[str(r[column])].append(r[:7])
            return {name: _score(rows) for name, rows in sorted(groups.items(), key=lambda x: (-len(x[1]), x[0]))}

    def _came(self, since: float) -> list[tuple]:
        """Predictions of jobs that have started: the wait still to come, as it came and by quantile, Slurm's plan, GROUPS."""
        query = (
            f"select j.start - p.time, q05, q10, q50, q90, q95, slurm, {', '.join(f'j.{g}' for g in GROUPS)} "
            "from prediction p join job j on j.id = p.job where j.start > p.time and p.time >= ?"
        )
        return self.rows(query, since)

    def agreement(self) -> dict[str, float]:
        """Jobs that Slurm started in the last WISHES_S, and the share that the policy wanted to start in the cycle before."""
        query = (
            "select (select count(*) from wish w where w.job = j.id and w.begin_now = 1 and w.time = (select max(time) from "
            "cycle c where c.time <= j.start)) from job j where j.start > max((select min(time) from cycle), ?)"
        )
        rows = [min(r[0], 1) for r in self.rows(query, self.last - WISHES_S)]
        return {"started": float(len(rows)), "wanted": float(np.mean(rows)) if rows else np.nan}


def _score(rows: list[tuple]) -> dict[str, float]:
    """Return `Journal.score` of predictions [R, 7]."""
    x = np.array([[np.nan if v is None else v for v in r] for r in rows], float).reshape(-1, 7)
    if not len(x):
        return {"predictions": 0}
    came, planned = x[:, 0], ~np.isnan(x[:, 6])
    out = {"predictions": float(len(x)), "error": float(np.median(np.abs(x[:, 3] - came)))}
    if planned.any():
        out["error_planned"] = float(np.median(np.abs(x[:, 3] - came)[planned]))
        out["slurm_error"] = float(np.median(np.abs(x[:, 6] - came)[planned]))
    out["cover80"] = float(((came >= x[:, 2] - 1) & (came <= x[:, 4] + 1)).mean())
    return out | {"cover90": float(((came >= x[:, 1] - 1) & (came <= x[:, 5] + 1)).mean())}
