"""The policies that come trained: trains them, judges each on jobs that none has seen, and writes their cards.

python -m benchmarks.zoo FOLDER_WITH_LOGS [--out FOLDER] [--only NAME ...] [--kept]

Trains what FOLDER/NAME does not hold yet (it goes on where it was stopped), then writes jobwise/pretrained/zoo and docs/zoo.md.
With --kept, policies that are in the zoo are not trained again. Nothing in them is typed by hand but the limits.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.markdown import table
from jobwise.compare.intervals import Effect
from jobwise.compare.procedure import compare
from jobwise.errors import InputError
from jobwise.learn.judged import on_jobsets
from jobwise.learn.probe import probe
from jobwise.policies.names import load
from jobwise.policies.zoo import FOLDER, Card
from jobwise.report.sections import made
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TEST
from jobwise.workloads.transform import SEEN, first, split
from jobwise_experiments.study import read_log

DOCS = Path(__file__).parent.parent / "docs" / "zoo.md"
REFERENCE, SHAKES, SETS, SEED = "fcfs+easy", 2, 100, 0
RULES = ("sjf+easy", "saf+easy")
ARCHIVE = "Parallel Workloads Archive: acknowledge its contributor"
LIMITS = {
    "window": "One resource, no dependencies; greedy for the mean: add +guard24h where somebody must not wait for long. A log "
    "of another kind than its own may be worse off than under smallest area first: judge it with jobwise compare.",
    "slots": "DeepRM's machine of two resources and ten slots for waiting jobs; jobs as its code draws them.",
    "gpus": "The paper's racks of 32 GPUs and its kinds of jobs; a restart costs 30 s.",
    "nodes": "The slides' nodes and kinds of jobs.",
}
AS_PUBLISHED = "As published, at the paper's size: to look into and to go on from, not to schedule with. "


@dataclass(frozen=True)
class Member:
    """A policy of the zoo. `log`: of FOLDER, the last 30 % of which are never trained on; "" jobs are generated with `changes`.
    `licence`: of the log."""

    name: str
    world: str
    system: str
    log: str = ""
    preset: str = "small"
    changes: dict[str, Any] = field(default_factory=dict)
    licence: str = ARCHIVE

    @property
    def limits(self) -> str:
        """What it is not for."""
        return AS_PUBLISHED * (self.name.endswith("-paper")) + LIMITS[self.world]

    def jobs(self, logs: Path) -> Workload | None:
        """Return the log, None where jobs are generated."""
        return first(read_log(logs, self.log), 80_000) if self.log else None

    def config(self, w: Workload | None) -> Any:
        """Return the configuration that it is trained with."""
        return configure(self.system, w, self.preset).changed(**self.changes)


MADE, THETA = "none: jobs are generated", "ALCF public job data: no licence is stated"
SLIDES = {"steps": 200, "jobsets": 10, "iterations": 1450}  # DeepRM's public figure names its agent so
MEMBERS = (
    Member("sdsc-sp2", "window", "perjob", "SDSC-SP2", "paper"),
    Member("alcf-theta", "window", "perjob", "ALCF-Theta", "paper", licence=THETA),
    Member("lanl-cm5", "window", "perjob", "LANL-CM5", "paper"),
    Member("sem-paper", "window", "sem", "ALCF-Theta", "paper", licence=THETA),
    Member("slots", "slots", "deeprm+", licence=MADE),
    Member("slots-light", "slots", "deeprm+", changes={"rate": 0.3}, licence=MADE),
    Member("deeprm-paper", "slots", "deeprm", preset="paper", changes=SLIDES, licence=MADE),
    Member("gpus", "gpus", "rl-taps+", licence=MADE),
    Member("distances", "nodes", "distances+", licence=MADE),
    Member("affinities", "nodes", "affinities+", licence=MADE),
)
OTHERS = ("SDSC-BLUE", "HPC2N", "LLNL-Atlas")  # that nobody of the zoo is trained on


def trained(m: Member, logs: Path, out: Path, kept: bool) -> dict[str, Any]:
    """Train a member where it is not there yet; what its run says of it. `kept`: one that is in the zoo counts as there."""
    folder, w = out / m.name, m.jobs(logs)
    done, there = folder / "zoo.json", FOLDER / f"{m.name}.safetensors"
    if not done.exists():
        folder.mkdir(exist_ok=True)
        if kept and there.exists():
            policy = load(there)
            shutil.copyfile(there, folder / "policy.safetensors")
        else:
            print(f"zoo: training {m.name}", file=sys.stderr, flush=True)
            (policy,) = m.config(w).train(w, folder, seeds=1, resume=(folder / "run.json").exists())
        done.write_text(json.dumps({"choices": int(policy.about["choices"])}))
    return json.loads(done.read_text())


def windows(members: Sequence[Member], logs: Path, out: Path) -> dict[str, dict[str, str]]:
    """Judge policies of windows on the last 30 % of logs: by log, the change of each against fcfs+easy, and longest waits,
    of those that are made for its machine."""
    rows = {}
    for log in dict.fromkeys((*(m.log for m in members), *OTHERS)):
        print(f"zoo: judging on {log}", file=sys.stderr, flush=True)
        later = split(first(read_log(logs, log), 80_000), SEEN)[1]
        able = {m.name: str(out / m.name) for m in members if _fits(out / m.name, later)}
        c = compare(later, [REFERENCE, *RULES, *able.values()], replicas=SHAKES, seed=SEED)
        names, waits = [*RULES, *able], [f"{c.waits(p)[0]:.1f}" for p in range(len(RULES) + 1, len(c.policies))]
        rows[log] = {n: c.change(p).text() + " !" * c.claimed[p] for p, n in enumerate(names, 1)}
        rows[log]["waits"] = " / ".join(dict(zip(able, waits, strict=True)).get(m.name, "–") for m in members)
    return rows


def _fits(folder: Path, log: Workload) -> bool:
    """Return whether a policy may decide on this log's machine: SEM's and DRAS's networks are made for one size."""
    try:
        load(folder).check(log.cluster)
    except InputError:
        return False
    return True


def jobsets(m: Member, at: Member, out: Path) -> tuple[str, Effect]:
    """Judge a policy on the generated jobsets of another member of its kind: the best rule there, and the change against it."""
    config = at.config(None)
    policy = load(out / m.name)
    j = on_jobsets(config, config.sets(TEST, SETS, None), policy, config.rules(), SEED)
    return j.best, j.changes()[policy.label]


def main() -> None:
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/zoo"), help="run folders")
    parser.add_argument("--probe", action="store_true", help="write the state use of what is there, and nothing else")
    parser.add_argument("--only", nargs="*", help="names of members that are trained, and nothing else done")
    parser.add_argument("--kept", action="store_true", help="policies that are in the zoo are not trained again")
    asked = parser.parse_args()
    if asked.probe:
        probed(asked.logs)
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    for m in MEMBERS:
        if not asked.only or m.name in asked.only:
            trained(m, asked.logs, asked.out, asked.kept)
    if asked.only:
        return
    abouts = {m.name: trained(m, asked.logs, asked.out, asked.kept) for m in MEMBERS}
    on_logs = [m for m in MEMBERS if m.log]
    matrix = windows(on_logs, asked.logs, asked.out)
    groups = [[m for m in MEMBERS if m.system == s] for s in dict.fromkeys(m.system for m in MEMBERS if not m.log)]
    grids = [(m, at, *jobsets(m, at, asked.out)) for group in groups for m in group for at in group]
    results = {m.name: matrix[m.log][m.name] + f" against {REFERENCE} on later jobs of {m.log}" for m in on_logs}
    results |= {m.name: f"{e.text('+.1%')} against {rule} on {SETS} jobsets" for m, at, rule, e in grids if m is at}
    stamp = made("python -m benchmarks.zoo FOLDER" + " --kept" * asked.kept)  # before the checkout has what is written now
    write(abouts, results, asked.logs, asked.out, stamp)
    page(on_logs, matrix, grids, stamp)


def state_use(m: Member, logs: Path) -> str:
    """Say whether a policy of the zoo uses the state that it is shown, on jobs that it has not seen."""
    policy = load(FOLDER / f"{m.name}.safetensors")
    if not policy.looks:
        return "no network: it ranks by a formula"
    print(f"zoo: probing {m.name}", file=sys.stderr, flush=True)
    use = probe(policy, m.jobs(logs))
    other, twin = use.exchanged[""].text(), use.against_twin.text()
    return f"{use.word}: states of other moments {other}, against its best constant twin ({use.twin}) {twin}"


def probed(logs: Path) -> None:
    """Probe the policies that are in the zoo, and write what that says into their cards."""
    file = FOLDER / "cards.toml"
    stamp, cards = file.read_text().partition("\n")[0].removeprefix("# "), tomllib.loads(file.read_text())
    _write_cards(stamp, {m.name: cards[m.name] | {"state_use": state_use(m, logs)} for m in MEMBERS})


def _write_cards(stamp: str, cards: dict[str, dict[str, str]]) -> None:
    """Write the cards, by name, in the order of a card's fields."""
    lines = [f"# {stamp}"]
    for name, card in cards.items():
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(card[key])}" for key in Card._fields)]
    (FOLDER / "cards.toml").write_text("\n".join(lines) + "\n")


def write(abouts: dict[str, dict], results: dict[str, str], logs: Path, out: Path, stamp: str) -> None:
    """Write the policies and their cards."""
    FOLDER.mkdir(exist_ok=True)
    cards = {}
    for m in MEMBERS:
        shutil.copyfile(out / m.name / "policy.safetensors", FOLDER / f"{m.name}.safetensors")
        about = abouts[m.name]
        changes = "".join(f", {k} {v}" for k, v in m.changes.items())
        named = m.system + " LOG" * bool(m.log)
        cards[m.name] = {
            "world": m.world,
            "system": m.system,
            "log": m.log or "generated",
            "jobs": f"the first {SEEN:.0%}" if m.log else f"jobsets of {m.system}{changes}",
            "training": f"jobwise train {named} --preset {m.preset}, seed 0, {about['choices']:,} choices",
            "result": results[m.name],
            "state_use": state_use(m, logs),
            "limits": m.limits,
            "licence": m.licence,
        }
    _write_cards(stamp, cards)


def page(
    on_logs: list[Member], matrix: dict[str, dict[str, str]], grids: list[tuple[Member, Member, str, Effect]], stamp: str
) -> None:
    """Write docs/zoo.md."""
    columns = {n: f"`{n}`" for n in RULES} | {m.name: f"`zoo:{m.name}`" for m in on_logs}
    heads = ["judged on the last 30 % of", *columns.values(), "longest waits, times fcfs+easy's"]
    rows = [[log, *(x.get(n, "–") for n in columns), x["waits"]] for log, x in matrix.items()]
    grid = [[f"`zoo:{m.name}`", at.name, rule, e.text("+.1%")] for m, at, rule, e in grids]
    text = [
        "# The zoo: policies that come trained",
        stamp,
        "`jobwise zoo` lists them, `jobwise zoo NAME` shows a card: log, training, result, limits, licence. Each is a "
        "scheduler by the name `zoo:NAME` (`jobwise compare LOG -p fcfs+easy -p zoo:sdsc-sp2`), needs no PyTorch, and is an "
        "example, not a recommendation: what we recommend is [`jobwise`](systems/promise.md).",
        "## Trained on one log, judged on others",
        f"Change of the bounded slowdown against {REFERENCE} in a typical block of the continuous replay, as `jobwise compare` "
        "prints it: 95 % interval over blocks of time; `!` it may be claimed (Holm). Rules that "
        "learn nothing stand beside; a policy that was trained on a log has not "
        "seen its last 30 %. The last column: the longest wait of each policy of the zoo in the continuous "
        "replay, in times that of the reference. –: its network is made for a machine of another size (SEM, DRAS). Names that "
        "end in `-paper` are agents as published, trained at the paper's size: to probe and to go on from.",
        "\n".join(table(heads, rows)),
        "## Worlds of rows",
        f"{SETS} jobsets that none has seen, of the jobs that a policy was trained on and of others of its kind, against "
        "the rule that is best there in hindsight.",
        "\n".join(table(["policy", "judged on jobs of", "best rule", "change [95 %]"], grid)),
    ]
    DOCS.write_text("\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
