"""Published experiments, by `jobwise reproduce NAME`. (This file imports nothing: the command line reads it at every start.)"""

STUDIES = {  # name: the module whose `study` runs it, the prose and the anchors
    "sem": "sem",
    "rlscheduler": "rlscheduler",
    "learners": "learners",
    "quality": "quality",
    "deeprm": "deeprm",
    "cush": "cush",
    "rl-taps": "rltaps",
    "mars": "mars",
    "telemetry": "telemetry",
    "promise": "promise",
    "trial": "trial",
    "left-out": "left_out",
    "state-use": "state_use",
    "power": "power",
}
PRESETS = ("smoke", "small", "paper")
GENERATED = ("deeprm", "cush", "rl-taps", "telemetry")  # studies that need no logs
ONE_SEED = ("quality", "promise", "left-out", "trial", "power")  # studies in which a second seed would be a choice to make
WHOLE = ("quality", "telemetry", "promise", "left-out")  # studies whose parts need each other
