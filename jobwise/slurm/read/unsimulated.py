"""What Slurm prints of a site and its jobs, key by key: what is read, what changes no schedule, and what no replay does.

The last kind is named, with how many jobs it touches; so is a key that no table has. The tables hold every key that 22.05,
24.11 and 26.05 print.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from jobwise.slurm.read.text import nodes, said
from jobwise.workloads.accounting import Accounting

UNSIMULATED = "not simulated: "  # how such a remark among the guesses of a site begins


class Keys:
    """The keys of one of Slurm's outputs. `read`, and those that are `harmless` to any schedule, whatever they say: words.
    `only`: keys that change no schedule as long as they say some of these words, or nothing, `none`, `no`."""

    def __init__(self, read: str, harmless: str, only: dict[str, str]):
        self.known = frozenset(f"{read} {harmless}".lower().split())
        self.only = {k.lower(): frozenset(v.lower().split()) | {"none", "no"} for k, v in only.items()}
        self.names = {k.lower(): k for k in only}

    def ignored(self, record: dict[str, str]) -> dict[str, str]:
        """Return the keys of a record that say something that is not simulated."""
        return {self.names.get(k.lower(), k): v for k, v in record.items() if self._counts(k.lower(), v)}

    def _counts(self, key: str, value: str) -> bool:
        key = re.sub(r"\[\d+\]", "", key.replace(" ", ""))  # Epilog[0]
        if key in self.known or not said(value):
            return False
        return not set(value.lower().replace(" ", "").split(",")) <= self.only.get(key, {"none", "no"})


CONFIG = Keys(
    read="""
        PriorityType PriorityWeightAge PriorityWeightFairShare PriorityWeightJobSize PriorityWeightPartition
        PriorityWeightQOS PriorityMaxAge PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall KillWait
        PriorityWeightTRES SchedulerParameters BOOT_TIME Epilog AccountingStorageEnforce ClusterName DefMemPerCPU
        DefMemPerNode Licenses SLURM_VERSION PreemptType PreemptMode PreemptExemptTime
    """,
    harmless="""
        AccountingStorageBackupHost AccountingStorageHost AccountingStorageExternalHost AccountingStorageParameters
        AccountingStoragePort AccountingStorageTRES AccountingStorageType AccountingStorageUser AccountingStoreFlags
        AccountingStoragePass AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType
        AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AuthAltTypes AuthAltParameters AuthInfo
        AuthType BatchStartTimeout BcastExclude BcastParameters CertgenParameters CertgenType CertmgrParameters
        CertmgrType CgroupAutomount CgroupPlugin CliFilterParameters CliFilterPlugins CommunicationParameters
        ConstrainCores ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace CoreSpecPlugin CpuFreqDef
        ControlAddr ControlMachine
        CpuFreqGovernors CredType DataParserParameters DebugFlags DisableRootJobs EioTimeout EnforcePartLimits
        EpilogMsgTime ExtSensorsType ExtSensorsFreq FirstJobId GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce
        GroupUpdateTime HASH_VAL HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram
        HealthCheckTimeout HttpParserType InactiveLimit InteractiveStepOptions JobAcctGatherFrequency
        JobAcctGatherType JobAcctGatherParams JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPort JobCompType
        JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend JobRequeue
        JobSubmitPlugins KillOnBadExit LaunchParameters LaunchType LogTimeFormat MailDomain MailProg MaxArraySize
        MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxNodeCount MaxStepCount MessageTimeout MetricsAuthUsers
        MetricsParameters MetricsType MinJobAge MpiDefault MpiParams MULTIPLE_SLURMD NamespaceType NEXT_JOB_ID
        PMIxCliTmpDirBase PMIxCollFence PMIxDebug PMIxDirectConn PMIxDirectConnEarly PMIxDirectConnUCX
        PMIxDirectSameArch PMIxEnv PMIxFenceBarrier PMIxNetDevicesUCX PMIxTimeout PMIxTlsUCX PluginDir PlugStackConfig
        PowerParameters PowerPlugin PrEpParameters PrEpPlugins PrioritySiteFactorParameters PrivateData ProctrackType
        Prolog PrologEpilogTimeout PrologFlags PropagatePrioProcess PropagateResourceLimits
        PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram
        ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvProlog ReturnToService RoutePlugin SchedulerTimeSlice
        ScronParameters SlurmUser SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldHttpAuthParameters
        SlurmctldLogFile SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg
        SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug SlurmdHttpAuthParameters
        SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout
        SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SLURM_CONF SrunEpilog SrunPortRange SrunProlog
        StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTimeout
        SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType
        TmpFS TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout UrlParserType UsePam VSizeFactor
        WaitTime X11Parameters
    """,
    only={
        "AllowSpecResourcesUsage": "0",
        "BurstBufferType": "",
        "CompleteWait": "0sec 0",
        "DependencyParameters": "kill_invalid_depend",
        "EpilogSlurmctld": "",
        "FairShareDampeningFactor": "1",
        "FederationParameters": "",
        "JobDefaults": "",
        "LicenseParameters": "",
        "MaxMemPerNode": "unlimited",
        "MaxMemPerCPU": "unlimited",
        "MaxTasksPerNode": "512",
        "MCSPlugin": "mcs/none",
        "MCSParameters": "",
        "NodeFeaturesPlugins": "",
        "OverTimeLimit": "0min 0",
        "PreemptParameters": "youngest_first send_user_signal",
        "PriorityFlags": "no_fair_tree small_relative_to_time fair_tree calculate_running",
        "PriorityParameters": "",
        "PrioritySiteFactorPlugin": "",
        "PriorityUsageResetPeriod": "",
        "PriorityWeightAssoc": "0",
        "PrologSlurmctld": "",
        "ResvOverRun": "0min 0",
        "SchedulerType": "sched/backfill sched/builtin",
        "SelectType": "select/cons_tres select/cons_res select/linear",
        "SelectTypeParameters": "cr_cpu cr_cpu_memory cr_core cr_core_memory cr_socket cr_socket_memory "
        "cr_core_default_dist_block",
        "SuspendTime": "-1sec -1 infinite",
        "TopologyParam": "topooptional dragonfly switchasnoderank routepart routetree",  # named where the switches are read
        "TopologyPlugin": "topology/none topology/default topology/flat topology/tree",
    },
)
PARTITIONS = Keys(
    read="""
        PartitionName Nodes PriorityJobFactor PriorityTier MaxTime MaxNodes State OverSubscribe Exclusive QoS
        PreemptMode GraceTime NodeSets
    """,
    harmless="""
        AllocNodes AllowAccounts AllowGroups AllowQos Alternate Default DefaultTime DefMemPerCPU DefMemPerNode
        DenyAccounts DenyQos DisableRootJobs Hidden ReqResv ResumeTimeout RootOnly SuspendTimeout TotalCPUs TotalNodes
        TRES
    """,
    only={
        "ExclusiveTopo": "",
        "ExclusiveUser": "",
        "JobDefaults": "",
        "LLN": "",
        "MaxCPUsPerNode": "unlimited",
        "MaxCPUsPerSocket": "unlimited",
        "MaxMemPerCPU": "unlimited",
        "MaxMemPerNode": "unlimited",
        "MinNodes": "0 1",
        "OverTimeLimit": "0",
        "PowerDownOnIdle": "",
        "SelectTypeParameters": "",
        "SuspendTime": "-1 infinite",
        "Topology": "",
        "TRESBillingWeights": "",
    },
)
NODES = Keys(
    read="""
        NodeName CPUTot CPUEfctv RealMemory Gres Weight State AvailableFeatures ThreadsPerCore CoresPerSocket Sockets
        CoreSpecCount MemSpecLimit CPUSpecList Partitions
    """,
    harmless="""
        Arch CPUAlloc CPULoad ActiveFeatures NodeAddr NodeHostName Port Version OS AllocMem FreeMem Boards TmpDisk
        BootTime SlurmdStartTime LastBusyTime CfgTRES AllocTRES CapWatts CurrentWatts AveWatts ExtSensorsJoules
        ExtSensorsWatts ExtSensorsTemp LowestJoules ConsumedJoules Reason Comment Extra InstanceId InstanceType
        GresDrain GresUsed BcastAddr NextState CertFlags
    """,
    only={
        "MCS_label": "n/a",
        "Owner": "n/a",
        "ResumeAfterTime": "unknown",
        "SuspendTime": "-1 infinite",
        "Topology": "",
    },
)
SUBMITTED = (
    "GrpSubmit MaxSubmit MaxSubmitPU MaxSubmitPA MaxSubmitJobsPU MaxSubmitJobsPA "  # no more jobs are submitted than that
)
PER_JOB = "MaxTRES MaxTRESPerNode MaxTRESMins MaxWall MinTRES "  # who asks for more is refused: those that ran did not
QOS = Keys(
    read="Name Priority MaxWall GrpTRES GrpJobs MaxTRESPU MaxJobsPU Preempt PreemptMode PreemptExemptTime GraceTime",
    harmless=SUBMITTED + PER_JOB + "Description ID UsageThres Blacklist",
    only={
        "Flags": "denyonlimit nodecay partitionmaxnodes partitionminnodes partitiontimelimit deleted",
        "GrpTRESMins": "",
        "GrpTRESRunMins": "",
        "GrpWall": "",
        "LimitFactor": "0.000000 0",
        "MaxJobsPA": "",
        "MaxTRESPA": "",
        "MaxTRESRunMinsPA": "",
        "MaxTRESRunMinsPU": "",
        "UsageFactor": "1.000000 1",
    },
)
ASSOCIATIONS = Keys(
    read="Cluster Account User Share ParentName ParName RawUsage GrpJobs GrpTRES MaxJobs",
    harmless=SUBMITTED + PER_JOB + "QOS DefQOS DefaultQOS LFT RGT ID ParentID UsageThres Lineage Comment Flags",
    only={"GrpTRESMins": "", "GrpTRESRunMins": "", "GrpWall": "", "Partition": "", "Priority": "0"},
)
GRES = r"\s--(?:gres|tres-per-node|tres-per-job|tres-per-task)[=\s]\s*([\w:/=,.]+)"
LINES = {  # pattern of a SubmitLine -> what of it is not simulated
    r"\s(?:-S[\s=]?\d+|--core-spec[=\s]|--thread-spec[=\s])": "--core-spec",
    r"\s(?:-s\s|--oversubscribe\b)": "--oversubscribe",
    r"\s--contiguous\b": "--contiguous",
    r"\s--time-min[=\s]": "--time-min",
    r"\s--spread-job\b": "--spread-job",
    r"\s--use-min-nodes\b": "--use-min-nodes",
    r"\s--(?:mincpus|tmp)[=\s]": "--mincpus and --tmp",
    r"\s(?:-B[\s=]|--(?:extra-node-info|sockets-per-node|cores-per-socket|ntasks-per-socket|gpus-per-socket)[=\s])": "sockets",
    r"\s--(?:threads-per-core|ntasks-per-core|hint)[=\s]": "threads of a core (--hint, --threads-per-core)",
    r"\s--exclusive=(?:user|topo)": "--exclusive=user and =topo",
    r"\s--(?:bb|bbf)[=\s]": "burst buffers",
    r"\s(?:-M[\s=]?|--clusters[=\s])\S+": "--clusters",
    r"\s--(?:segment|deadline|prefer|reboot)\b": "--segment, --deadline, --prefer and --reboot",
    r"\s(?:-F\s|--nodefile[=\s])": "--nodefile",
}


def of_records(
    records: list[dict[str, str]], keys: Keys, name: str, touched: Callable[[list[str]], int] | None = None
) -> list[str]:
    """Return the keys of records that say something that is not simulated: the first of each, and how many records have one.
    `touched`: how many jobs are of the records of these names."""
    rows_of: dict[str, list[tuple[str, str]]] = {}
    for r in records:
        first = next(iter(r.values()), "")
        for key, value in keys.ignored(r).items():
            rows_of.setdefault(key, []).append((first, value))
    out = []
    for key, rows in rows_of.items():
        more = f" and {len(rows) - 1} more {name}" if len(rows) > 1 else ""
        jobs = f" ({touched([n for n, _ in rows]):,} jobs)" if touched else ""
        out.append(f"{key}={rows[0][1][:60]} of {rows[0][0]}{more}{jobs}")
    return out


def jobs_of(a: Accounting, column: str) -> Callable[[list[str]], int]:
    """Return a function of names: how many rows of the accounting have one of them in a column (a list of partitions or nodes
    counts for each of its names)."""

    def touched(names: list[str]) -> int:
        which, texts = a.distinct(column)
        count, wanted = np.bincount(which, minlength=len(texts)), set(names)
        return sum(int(n) for n, text in zip(count, texts, strict=True) if not wanted.isdisjoint(names_in(text)))

    return touched


def names_in(text: str) -> list[str]:
    """Return the nodes that a list names; a text that is none stays whole."""
    try:
        return nodes(text)
    except ValueError:
        return [text]


def of_config(known: dict[str, str]) -> list[str]:
    """Return the settings of a configuration (`text.config`) that the simulator does not carry out."""
    return [f"{k}={v[:60]}" for k, v in CONFIG.ignored(known).items()]


def of_jobs(a: Accounting) -> list[str]:
    """Return what jobs ask for in their lines and no replay gives them, each with how many jobs."""
    if not a.has("SubmitLine") or not (some := a.matches("|".join((*LINES, GRES)), "SubmitLine")).any():
        return []
    few = Accounting(a.where, a.line[some], {"SubmitLine": a.columns["SubmitLine"].filter(pa.array(some))})
    out = {name: int(few.matches(pattern, "SubmitLine").sum()) for pattern, name in LINES.items()}
    for line in few.columns["SubmitLine"].to_pylist():
        for text in set(re.findall(GRES, line)):
            for name in {x.removeprefix("gres:").removeprefix("gres/").split(":")[0].split("=")[0] for x in text.split(",")}:
                if name not in ("gpu", "none", ""):
                    out[f"GRES {name}"] = out.get(f"GRES {name}", 0) + 1
    return [f"{name} of {n:,} jobs" for name, n in out.items() if n]
