"""What a shadow says of recorded clusters, moment by moment: predictions, orders, starts and the journal, as files to diff.

python tests/live/test_golden_live.py       writes them anew
"""

import hashlib
import json
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import SHARED, TESTS
from cycles import Shadowing
from test_live import job

from jobwise.live import sources
from jobwise.live.sinks.journal import Journal
from jobwise.live.sinks.site_factors import wanted
from jobwise.live.steer import SteerSettings
from jobwise.policies.names import resolve

RECORDED = SHARED / "slurm" / "recorded"
FOLDER = TESTS / "live" / "golden"
NAMES = ("fairshare", "fifo-backfill", "memory-gpu", "mixed", "partitions", "size-qos", "stock")
POLICIES = ("jobwise", "smith-aged+easy", "saf+easy", "sjf+easy+pack")
SHARES = (0.3, 0.5, 0.7, 0.9)  # of the submits: the moments
SHOWN = 6
pytestmark = [
    pytest.mark.xdist_group("sites"),
    pytest.mark.skipif(not RECORDED.is_dir(), reason="recordings of a real Slurm are absent"),
]


def at_moment(recorded, folder, share):
    """Write what Slurm's commands would have printed when this share of the jobs had come; the time."""
    folder.mkdir(parents=True)
    for file in recorded.glob("s*.txt"):
        if file.name not in ("sacct.txt", "squeue.txt", "sprio.txt"):
            shutil.copy(file, folder / file.name)
    head, *lines = (recorded / "sacct.txt").read_text().splitlines()
    rows = [(line, dict(zip(head.split("|"), line.split("|"), strict=False))) for line in lines]
    rows = [(line, r) for line, r in rows if "." not in r["JobID"] and r["Start"].isdigit() and r["End"].isdigit()]
    submits = sorted(int(r["Submit"]) for _, r in rows)
    now = submits[int(share * len(submits))] + 1
    ended = [line for line, r in rows if int(r["End"]) <= now]
    (folder / "sacct.txt").write_text("\n".join([head, *ended]) + "\n")
    queue = []
    for _, r in rows:
        if int(r["Submit"]) > now or int(r["End"]) <= now:
            continue
        runs, asked = int(r["Start"]) <= now, {"user_name": r["User"], "account": r["Account"], "partition": r["Partition"]}
        asked |= {"qos": r["QOS"], "submit_time": int(r["Submit"]), "eligible_time": int(r["Eligible"]), "name": r["JobName"]}
        asked |= {"time_limit": int(r["TimelimitRaw"] or 1), "cpus": int(r["ReqCPUS"]), "node_count": int(r["NNodes"])}
        asked |= {"tres_req_str": r["ReqTRES"], "tres_alloc_str": r["AllocTRES"] if runs else ""}
        asked |= {"start_time": int(r["Start"]) if runs else 0, "nodes": r["NodeList"] if runs else ""}
        state = {"state": "RUNNING", "reason": "None"} if runs else {}
        queue.append(job(int(r["JobIDRaw"]), int(r["ReqCPUS"]), 1, now, **state) | asked)
    (folder / "squeue.json").write_text(json.dumps({"jobs": queue}))
    (folder / "now.txt").write_text(f"{now}.000\n")
    return now


def said(name):
    """The lines of a recording under all policies, then its journal's."""
    lines = [["moment", "policy", "waiting", "order", "starts now", "factors", "predictions", "digest"]]
    with tempfile.TemporaryDirectory() as place:
        for policy in POLICIES:
            journal = Journal(Path(place) / f"state-{policy}")
            shadow = Shadowing(resolve(policy), journal)
            for k, share in enumerate(SHARES):
                folder = Path(place) / f"{policy}-{k}"
                at_moment(RECORDED / name, folder, share)
                c = sources.look(folder)
                p, _ = shadow.cycle(c, k)
                assert not shadow.problem, shadow.problem
                order = [x["job"] for x in shadow.order]
                factors = wanted(order, SteerSettings(1000).span, dict.fromkeys(c.waiting, (0, 0)))
                foretold = [(x["job"], round(x["start"]), *map(round, x["start_80"])) for x in p.rows()]
                whole = json.dumps([order, sorted(shadow.begin), sorted(factors.items()), foretold])
                first = [
                    "; ".join(map(str, x[:SHOWN])) for x in (order, sorted(shadow.begin), sorted(factors.items()), foretold)
                ]
                lines.append([k, policy, len(c.waiting), *first, hashlib.sha256(whole.encode()).hexdigest()[:16]])
            journal.close()
            db = sqlite3.connect(Path(place) / f"state-{policy}" / "journal.sqlite")
            for table in ("job", "event", "prediction", "wish"):
                columns = [r[1] for r in db.execute(f"pragma table_info({table})") if r[2] != "blob"]
                rows = db.execute(f"select {', '.join(columns)} from {table} order by {', '.join(columns)}").fetchall()
                rows = [[round(x, 1) if isinstance(x, float) else x for x in r if not isinstance(x, bytes)] for r in rows]
                digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]
                lines.append([table, policy, len(rows), *[""] * 4, digest])
            db.close()
    return lines


def text(lines):
    """The lines as a table."""
    out = []
    for line in lines:
        out.append("|".join(map(str, line)))
    return "\n".join(out) + "\n"


@pytest.mark.slurm
@pytest.mark.parametrize("name", NAMES)
def test_a_shadow_says_what_it_said(name, monkeypatch):
    monkeypatch.setattr("jobwise.live.starts.EARLIER", SHOWN)
    assert text(said(name)) == (FOLDER / f"{name}.txt").read_text()


if __name__ == "__main__":
    from jobwise.live import starts

    starts.EARLIER = 6
    FOLDER.mkdir(exist_ok=True)
    for one in NAMES if len(sys.argv) < 2 else sys.argv[1:]:
        (FOLDER / f"{one}.txt").write_text(text(said(one)))
        print(one, flush=True)
