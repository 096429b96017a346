"""Rewards: functions of what happened between two choices, larger is better. `z` [E]: a world's transitions; out come [E]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jobwise.errors import InputError, unknown

Reward = Callable[[np.ndarray], np.ndarray]
LATE = 1000.0  # bounded slowdown that a job's wait of one bound beyond the bound is worth


def bounded_slowdown(z: np.ndarray) -> np.ndarray:
    """Minus the jobs' gain in bounded slowdown (tau = 10 s) / jobs. An episode's sum is 1 - mean bounded slowdown."""
    return -z["slowed"] / np.maximum(z["jobs"], 1.0)


def bounded_slowdown_end(z: np.ndarray) -> np.ndarray:
    """0 until the episode is over, then minus the mean bounded slowdown (RLScheduler, SC'20)."""
    return np.where(z["over"] > 0, -z["total"] / np.maximum(z["jobs"], 1.0), 0.0)


def wait(z: np.ndarray) -> np.ndarray:
    """Minus hours waited / jobs. An episode's sum is minus the mean wait in hours."""
    return -z["waited"] / 3600.0 / np.maximum(z["jobs"], 1.0)


def dras(z: np.ndarray) -> np.ndarray:
    """wait / longest wait + size / N + used / N, each 1/3, of the chosen job; the longest wait counts as at least 6 h.

    DRAS's code (Fan et al., IPDPS'21); `used` counts the chosen job if it fits.
    """
    return (z["picked_wait"] / np.maximum(z["longest_wait"], 21_600.0) + (z["picked_size"] + z["used"]) / z["size"]) / 3.0


def theta(z: np.ndarray) -> np.ndarray:
    """Reward theta with the true longest wait (SEM's text for Theta, its second term corrected to size / N)."""
    longest = np.where(z["longest_wait"] > 0, z["longest_wait"], 1.0)
    return (z["picked_wait"] / longest + (z["picked_size"] + z["used"]) / z["size"]) / 3.0


def datastar(z: np.ndarray) -> np.ndarray:
    """Minus the sum of 1 / run time (s) over the jobs in the system, at each choice (SEM's text for DataStar)."""
    return -z["ideal"]


def datastar_time(z: np.ndarray) -> np.ndarray:
    """The reward integrated over the time to the next choice: the better-posed version. Its sum is minus the
    summed slowdown, but for the jobs that still run when the last one has started."""
    return -z["ideal_seconds"]


def bounded_wait(z: np.ndarray) -> np.ndarray:
    """`bounded_slowdown`, and LATE / jobs for each bound (`bound_s` of the environment) that a job waits beyond the first."""
    return -(z["slowed"] + LATE * z["late_bounds"]) / np.maximum(z["jobs"], 1.0)


def utilisation(z: np.ndarray) -> np.ndarray:
    """Minus the hours for which the machine stands idle, its idle share counted / jobs."""
    return -(1.0 - z["used"] / np.maximum(z["size"], 1.0)) * z["seconds"] / 3600.0 / np.maximum(z["jobs"], 1.0)


def cost(z: np.ndarray) -> np.ndarray:
    """Minus hours waited, weighted by what jobs cost, / jobs. An episode's sum is minus the mean wait of money, in hours."""
    return -z["dear_waits"] / 3600.0 / np.maximum(z["jobs"] * z["price"], 1e-12)


def energy_cost(z: np.ndarray) -> np.ndarray:
    """Minus what the energy of the jobs that started costs, against the mean price, / jobs. An episode's sum is minus the mean
    price that was paid, as a part of the mean one; where prices are carbon intensities it is that of CO2."""
    return -z["paid"] / np.maximum(z["jobs"] * z["par"], 1e-12)


REWARDS: dict[str, Reward] = {
    "bounded_slowdown": bounded_slowdown,
    "bounded_slowdown_end": bounded_slowdown_end,
    "wait": wait,
    "dras": dras,
    "theta": theta,
    "datastar": datastar,
    "datastar_time": datastar_time,
    "bounded_wait": bounded_wait,
    "utilisation": utilisation,
    "cost": cost,
    "energy_cost": energy_cost,
}
OF_RESOURCE = "utilisation:"  # and the name of a resource of the machine


def _of_resource(column: int) -> Reward:
    """`utilisation` of one resource of a machine of several."""

    def reward(z: np.ndarray) -> np.ndarray:
        return -(1.0 - z["shares"][:, column]) * z["seconds"] / 3600.0 / np.maximum(z["jobs"], 1.0)

    return reward


def slowdown(z: np.ndarray) -> np.ndarray:
    """Minus the sum of 1 / length over the jobs in the system, for each row of time that passes (DeepRM, HotNets'16).

    An episode's sum is minus the sum of its jobs' slowdowns."""
    return -z["slow"]


def completion(z: np.ndarray) -> np.ndarray:
    """Minus the jobs in the system, for each row of time: an episode's sum is minus the sum of completion times."""
    return -z["present"]


def locality(z: np.ndarray) -> np.ndarray:
    """Minus how much more the placement slows a placed job down than the best of the placements would (CuSH's second agent)."""
    return -z["penalty"]


GRID: dict[str, Reward] = {"slowdown": slowdown, "completion": completion, "locality": locality}


def safe(z: np.ndarray) -> np.ndarray:
    """The reward less the rows of work that failures undid."""
    return -z["present"] - z["lost"]


PLACED: dict[str, Reward] = {"completion": completion, "slowdown": slowdown, "safe": safe}


def throughput(z: np.ndarray) -> np.ndarray:
    """The speed of the running jobs, as a share of the cluster's (RL-TAPS without penalties), for each row that passes."""
    return z["speed"] * z["rows"] / z["peak"]


def served(z: np.ndarray) -> np.ndarray:
    """The reward less what jobs without GPUs would do at their requests (RL-TAPS with pen1 alone)."""
    return (z["speed"] - z["idle"]) * z["rows"] / z["peak"]


def rltaps(z: np.ndarray) -> np.ndarray:
    """And less what running jobs miss for having fewer GPUs than they asked for (RL-TAPS, CASCON 2020, with both penalties)."""
    return (z["speed"] - z["idle"] - z["short"]) * z["rows"] / z["peak"]


ASSIGNED: dict[str, Reward] = {"rl-taps": rltaps, "throughput": throughput, "served": served, "slowdown": slowdown}


def terms(text: str) -> list[tuple[float, str]]:
    """(weight, name) of each term of a reward: `wait + 0.5 utilisation:memory`. Raises InputError."""
    out = []
    for term in text.split("+"):
        weight, _, name = term.strip().rpartition(" ")
        try:
            value = float(weight or 1.0)
        except ValueError:
            value = np.nan
        if not 0 <= value < np.inf:
            raise InputError(f"reward {text!r}: {weight!r} is no weight; terms are a name, or a number >= 0 and a name")
        out.append((value, name))
    return out


def check(text: str, known: dict[str, Reward] = REWARDS, resources: Sequence[str] | None = None) -> list[tuple[float, str]]:
    """The terms of a reward. `resources` of the machine, if it is known. Raises InputError for names that are not known."""
    parsed = terms(text)
    for _, name in parsed:
        resource = name.removeprefix(OF_RESOURCE)
        if resource == name or OF_RESOURCE.rstrip(":") not in known:
            if name not in known:
                raise unknown("reward", name, known)
        elif resources is not None and resource not in resources:
            raise unknown("resource", resource, resources, f"reward {name}: ")
    return parsed


def resolve(reward: str | Reward, known: dict[str, Reward] = REWARDS, resources: Sequence[str] = ()) -> Reward:
    """A reward by its name, a weighted sum of them (`terms`), or a function as it is. `utilisation:memory` is that of one of
    the `resources` of the machine. Raises InputError."""
    if callable(reward):
        return reward
    if not isinstance(reward, str):
        raise InputError(f"a reward is a name or a function, not {reward!r}")
    parts = [(weight, _named(name, known, resources)) for weight, name in check(reward, known, resources)]
    if len(parts) == 1 and parts[0][0] == 1.0:
        return parts[0][1]
    return lambda z: np.sum([weight * function(z) for weight, function in parts], axis=0)


def _named(name: str, known: dict[str, Reward], resources: Sequence[str]) -> Reward:
    """One reward by its name."""
    if name in known:
        return known[name]
    return _of_resource(list(resources).index(name.removeprefix(OF_RESOURCE))) if len(resources) > 1 else utilisation
