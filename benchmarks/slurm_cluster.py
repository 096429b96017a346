"""A private, real Slurm of several emulated nodes on this machine, with accounting: started, used and stopped by a benchmark.

Every file, socket, log and key lies in one folder; everything listens on the loopback interface alone.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = {
    "munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
}  # fmt: skip
PACKAGES = (*dict.fromkeys(PROGRAMS.values()), "slurm-wlm-mysql-plugin", "slurm-wlm-basic-plugins")
PATHS = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # the Slurm that PATH has first


def missing() -> list[str]:
    """Programs that are not installed."""
    return [p for p in PROGRAMS if not shutil.which(p, path=PATHS)]


def version() -> str:
    """Return the version of the Slurm that PATH has first, e.g. 26.05.5."""
    told = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, env=os.environ | {"PATH": PATHS}).stdout
    return told.split()[-1]


def skipped(name: str) -> bool:
    """Says that a benchmark is skipped, and returns True, where Slurm or the rights of root are absent."""
    if not missing() and not os.geteuid():
        return False
    print(f"{name}: skipped, it needs Slurm ({', '.join(missing()) or 'all there'}) and root", file=sys.stderr)
    return True


def folder_for(name: str, kept: str | None = None) -> Path:
    """A folder for clusters: a new one, or the one that is kept; munge wants its socket to be within reach."""
    base = Path(kept or tempfile.mkdtemp(prefix=f"{name}."))
    base.mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)
    return base


def install() -> None:
    """Install the packages (Debian, as root). Raises CalledProcessError."""
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
        subprocess.run(["apt-get", *words], check=True, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})


class Cluster:
    """A cluster in a folder. `conf`: lines of slurm.conf, with its NodeName and PartitionName lines; "@3@" is the port of
    node 3; `gpus`: of a node; `types`: of the GPUs of nodes ({"node[13-14]": "a100"}); `switches`: lines of topology.conf."""

    def __init__(
        self,
        folder: Path,
        port: int,
        conf: Sequence[str],
        gpus: int = 0,
        types: Mapping[str, str] | None = None,
        switches: Sequence[str] = (),
    ):
        self.folder, self.port, self.gpus, self.types, self.switches = folder, port, gpus, types or {}, switches
        self.env = os.environ | {"PATH": PATHS, "SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}
        self.daemons: list[subprocess.Popen] = []
        for name in ("run", "log", "state", "spool", "dev", "munge", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755), (folder / "munge").chmod(0o755)
        self._write([re.sub(r"@(\d+)@", lambda k: str(port + 9 + int(k[1])), line) for line in conf])

    def _write(self, conf: Sequence[str]) -> None:
        f, user, munge = self.folder, "root" if os.geteuid() == 0 else os.environ.get("USER", "root"), self._munge
        plain = [
            "ClusterName=check", f"SlurmctldHost={socket.gethostname().split('.')[0]}(127.0.0.1)",
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny", f"SlurmctldPort={self.port}", f"SlurmUser={user}",
            f"SlurmdUser={user}", "AuthType=auth/munge", f"AuthInfo=socket={munge}", f"SlurmctldPidFile={f}/run/slurmctld.pid",
            f"SlurmdPidFile={f}/run/slurmd.%n.pid", f"StateSaveLocation={f}/state", f"SlurmdSpoolDir={f}/spool/%n",
            f"SlurmctldLogFile={f}/log/slurmctld.log", f"SlurmdLogFile={f}/log/slurmd.%n.log", "MailProg=/bin/true",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "MpiDefault=none", "SlurmdParameters=config_overrides", "ReturnToService=2", "SelectType=select/cons_tres",
            "MinJobAge=30", "KillWait=2", "AccountingStorageType=accounting_storage/slurmdbd", "JobCompType=jobcomp/none",
            "AccountingStorageHost=127.0.0.1", f"AccountingStoragePort={self.port + 1}", f"AccountingStoragePass={munge}",
            f"DebugFlags=Backfill,Priority{',Hetjob' * (int(version()[:2]) >= 23)}", "SlurmctldDebug=debug",
            "AccountingStorageTRES=gres/gpu", "SchedulerType=sched/backfill", "PriorityType=priority/multifactor",
        ]  # fmt: skip
        plain += ["GresTypes=gpu"] if self.gpus else []
        plain += ["TopologyPlugin=topology/tree"] if self.switches else []
        (f / "slurm.conf").write_text("\n".join([*plain, *conf]) + "\n")
        if self.switches:
            (f / "topology.conf").write_text("\n".join(self.switches) + "\n")
        (f / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if int(version()[:2]) >= 23 else "")
        if self.gpus:
            for k in range(self.gpus):
                (f / "dev" / f"gpu{k}").touch()
            files = f"File={f}/dev/gpu[0-{self.gpus - 1}]"
            typed = [f"NodeName={names} Name=gpu Type={kind} {files}" for names, kind in self.types.items()]
            (f / "gres.conf").write_text("\n".join(typed or [f"Name=gpu {files}"]) + "\n")
        db = [
            "DbdHost=localhost", "DbdAddr=127.0.0.1", f"DbdPort={self.port + 1}", f"SlurmUser={user}", "AuthType=auth/munge",
            f"AuthInfo=socket={munge}", "CommunicationParameters=NoInAddrAny", f"PidFile={f}/run/slurmdbd.pid",
            f"LogFile={f}/log/slurmdbd.log", "StorageType=accounting_storage/mysql", "StorageHost=localhost",
            "StorageUser=root", "StorageLoc=slurm_acct",
        ]  # fmt: skip
        (f / "slurmdbd.conf").write_text("\n".join(db) + "\n")
        (f / "slurmdbd.conf").chmod(0o600)

    @property
    def _munge(self) -> Path:
        return self.folder / "munge" / "munge.socket"

    def run(self, *words: str, check: bool = True, **more: str) -> str:
        """What a command prints. Raises RuntimeError where it fails."""
        done = subprocess.run(words, capture_output=True, text=True, env=self.env | more, timeout=60, cwd=self.folder)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _until(self, seconds: float, what: str, *words: str, said: str | None = None) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done = subprocess.run(words, capture_output=True, text=True, env=self.env)
            if done.returncode == 0 and (said is None or set(done.stdout.split()) == {said}):
                return
            time.sleep(0.2)
        raise RuntimeError(f"{what} did not come up; see {self.folder}/log")

    def _background(self, *words: str, **more: str) -> None:
        out = (self.folder / "log" / f"{words[0]}.out").open("wb")
        done = subprocess.Popen(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.env | more)
        self.daemons.append(done)

    def start(self, accounts: Sequence[Sequence[str]]) -> None:
        """Start everything; `accounts`: words of `sacctmgr -i` that make accounts, users and QOS."""
        f, database = self.folder, self.folder / "db.sock"
        (f / "munge" / "munge.key").write_bytes(os.urandom(1024))
        (f / "munge" / "munge.key").chmod(0o600)
        given = {"key-file": "munge/munge.key", "socket": "munge/munge.socket", "pid-file": "run/munged.pid"}
        given |= {"log-file": "munge/munged.log", "seed-file": "munge/munged.seed"}
        self.run("munged", *(f"--{k}={f}/{v}" for k, v in given.items()))
        base = ("--no-defaults", f"--datadir={f}/db", f"--tmpdir={f}/tmp", "--user=root")
        self.run("mariadb-install-db", *base, "--skip-test-db", "--auth-root-authentication-method=normal")
        self._background("mariadbd", *base, "--skip-networking", f"--socket={database}", "--innodb-buffer-pool-size=64M")
        self._until(40, "mariadbd", "mariadb-admin", "--no-defaults", "-u", "root", f"--socket={database}", "ping")
        self._background("slurmdbd", "-D", MYSQL_UNIX_PORT=str(database))
        self._until(40, "slurmdbd", "sacctmgr", "-n", "show", "cluster")
        for words in (["add", "cluster", "check"], *accounts):
            self.run("sacctmgr", "-iQ", *words)
        self._background("slurmctld", "-D", "-i")
        names = [
            line.split()[0].split("=")[1]
            for line in (f / "slurm.conf").read_text().splitlines()
            if line.startswith("NodeName=")
        ]
        for name in names:
            (f / "spool" / name).mkdir(exist_ok=True)
            self._background("slurmd", "-D", "-N", name)
        self._until(60, "the nodes", "sinfo", "-h", "-o", "%T", said="idle")

    def stop(self) -> None:
        """Stop everything."""
        for done in reversed(self.daemons):
            done.terminate()
        for done in self.daemons:
            try:
                done.wait(10)
            except subprocess.TimeoutExpired:
                done.kill()
        pid = self.folder / "run" / "munged.pid"
        if pid.exists():
            subprocess.run(["kill", pid.read_text().strip()], check=False)


@contextmanager
def running(
    folder: Path, port: int, conf: Sequence[str], accounts: Sequence[Sequence[str]], gpus: int = 0
) -> Iterator[Cluster]:
    """Start a cluster that Slurm's commands of this process speak to, and stop it at the end; `gpus`: of a node."""
    cluster = Cluster(folder, port, conf, gpus)
    try:
        cluster.start(accounts)
        os.environ["SLURM_CONF"], os.environ["PATH"] = cluster.env["SLURM_CONF"], PATHS
        yield cluster
    finally:
        cluster.stop()
