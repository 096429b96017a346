"""The grammar of scheduler names: ORDER[+BACKFILL][+PLACEMENT][+GUARD], the same in Python, commands and reports."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.decision import Policy
from jobwise.errors import InputError, unknown
from jobwise.policies import assignments, files, flow_net, loglinear, neural, nodes, recommended, refit
from jobwise.policies.foreseen import PRETRAINED
from jobwise.policies.gate import Gate
from jobwise.policies.learned import Learned
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import INDICES
from jobwise.policies.neural import NeuralPolicy
from jobwise.policies.slots import SlotRule
from jobwise.policies.slurm import SlurmScheduler
from jobwise.sim.list_pass import BACKFILLS, ESTIMATES
from jobwise.sim.orders import ORDERS
from jobwise.sim.placement import PLACEMENTS
from jobwise.worlds.slots_world import Slots

_GUARD = re.compile(r"guard(\d+(?:\.\d+)?)(s|m|h|d|x)")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def resolve(policy: str | Policy) -> Policy:
    """A policy from its name, e.g. `saf+easy+spread+guard24h`, `mine.py:order+easy` for a function of your own,
    `runs/mine+easy` for a trained one (a run folder or a policy file).

    Anything that already is a policy is returned as it is. Raises InputError for an unknown name, with the nearest one.
    """
    if not isinstance(policy, str):
        if isinstance(policy, Policy):
            return policy
        if callable(policy):
            return ListScheduler(policy)
        raise InputError(f"{policy!r} is no policy: it needs the methods reset, decide and ended")
    policy = policy.strip()
    if policy.startswith("gated:"):
        return _gated(policy)
    if policy == "slurm":
        return SlurmScheduler()
    if (first := re.split("[:+]", policy)[0]).lower() in recommended.NAMES:
        return _recommended(first.lower() + policy[len(first) :])
    if policy.startswith("slots:"):
        rule, _, row = policy.removeprefix("slots:").partition("@")
        if row and not re.fullmatch(r"\d+(\.\d+)?s", row):
            raise InputError(f"policy {policy!r}: the length of a row is given in seconds, e.g. slots:{rule}@600s")
        return SlotRule(rule, Slots(reserve=False), float(row[:-1]) if row else 1.0)
    if policy.startswith("gpus:"):
        return assignments.named(policy)
    if policy.startswith("nodes:"):
        return nodes.named(policy)
    order, *options = policy.split("+")
    if order.lower() in {*ORDERS, *INDICES, *pretrained()}:
        order, options = order.lower(), [o.lower() for o in options]
    chosen = _options(policy, options)
    if "cost" in chosen and (order in ORDERS or order in INDICES or ".py" in order):
        raise InputError(f"policy {policy!r}: +cost is for models that were trained with the encoder mars")
    if order in ORDERS or order in INDICES:
        return _placed(lambda **c: ListScheduler(order, **c), chosen)
    if ".py" in order:
        return _placed(lambda **c: _own(order, c), chosen)
    if "/" in order or order.endswith(".safetensors") or Path(order, "policy.safetensors").is_file():
        found = load(order)
        return with_options(found, chosen) if chosen else found
    if (trained := PRETRAINED / f"{order.removesuffix('-aged')}.safetensors").is_file() and order in pretrained():
        found = load(trained)
        if order.endswith("-aged"):
            found = replace(found, order=recommended.aged(found.order))
        return with_options(found, {"backfill": "none"} | chosen)
    known = [*ORDERS, *INDICES, *pretrained(), *recommended.NAMES]
    raise unknown("order", order, known, f"policy {policy!r}: " if options else "")


def _placed(make, chosen: dict) -> Policy:
    """A list scheduler, with the placement that learns where that was chosen."""
    if chosen.get("placement") != "learned":
        return make(**chosen)
    return Learned(make(**{k: v for k, v in chosen.items() if k != "placement"}))


def _options(policy: str, options: list[str]) -> dict:
    """What is behind the order of a name: keys of `ListScheduler` and values. Raises InputError."""
    chosen: dict = {}

    def choose(key: str, value) -> None:
        if key in chosen:
            raise InputError(f"policy {policy!r} names two choices of {key}")
        chosen[key] = value

    for option in options:
        guard = _GUARD.fullmatch(option)
        if option in BACKFILLS:
            choose("backfill", option)
        elif option in PLACEMENTS or option == "learned":
            choose("placement", option)
        elif guard and guard[2] == "x":
            choose("times", float(guard[1]))
        elif guard:
            choose("guard", float(guard[1]) * _UNIT[guard[2]])
        elif lane := re.fullmatch(r"express(\d+(?:\.\d+)?)%", option):
            choose("express", float(lane[1]) / 100)
        elif again := re.fullmatch(r"refit(\d*)", option):
            choose("refit", int(again[1] or refit.DEFAULT) or 1)  # so that refit0 is refused, not taken for none
        elif said := re.fullmatch(r"promise(\d+(?:\.\d+)?)x", option):
            choose("promise", float(said[1]))
        elif kept := re.fullmatch(r"reserve(0?\.\d+)x(\d+(?:\.\d+)?)([smhd])", option):
            choose("reserve", (float(kept[1]), float(kept[2]) * _UNIT[kept[3]]))
        elif dear := re.fullmatch(r"cost(\d+(?:\.\d+)?)", option):
            choose("cost", float(dear[1]))
        elif option in ESTIMATES:
            choose("estimate", option)
        elif option == "commit":
            choose("commit", True)
        else:
            raise unknown(
                "option",
                option,
                [
                    *BACKFILLS,
                    *PLACEMENTS,
                    "learned",
                    "guard24h",
                    "guard0.8x",
                    "reserve0.2x100s",
                    "cost0.5",
                    "express1%",
                    "promise1.1x",
                    "refit",
                    *ESTIMATES,
                    "commit",
                ],
                f"policy {policy!r}: ",
            )
    return chosen


def load(path: str | Path) -> NeuralPolicy | ListScheduler:
    """The policy of a file, or of a run folder. Raises InputError for anything that is no policy of ours."""
    if (model := Path(path, "model.json")).is_file():
        return _of_store(model)
    parts, weights, label, file = files.read(path)
    try:
        if parts.get("kind") == "index":
            order, times = loglinear.from_file(parts, weights, label)
            return ListScheduler(order, "easy", times=times)
        if parts.get("kind") == "flow-net":
            order, reserve = flow_net.from_file(parts, weights, label)
            return ListScheduler(order, reserve=reserve)
        if parts.get("kind") == "knapsack":
            return assignments.from_file(parts, weights, label)
        if parts.get("kind") == "costs":
            return nodes.from_file(parts, weights, label)
        return neural.from_file(parts, weights, label)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(f"{file}: its metadata are damaged: {type(error).__name__}: {error}") from None


def _of_store(file: Path) -> NeuralPolicy | ListScheduler:
    """What schedules now in a folder of a model store: one of its generations, or a built-in rule. Raises InputError."""
    try:
        told = json.loads(file.read_text())
        name, beta = str(told["schedules"]), float(told["beta"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: is damaged: {type(error).__name__}: {error}") from None
    if re.fullmatch(r"g\d+\.safetensors", name):
        return with_options(load(file.parent / name), {"cost": beta})
    if name.split("+")[0] not in ORDERS:  # no path, no code
        raise InputError(f"{file}: {name!r} is neither a generation nor a built-in rule")
    return resolve(name)


def resolve_trained(run: str) -> tuple[NeuralPolicy, str]:
    """(the policy of a run folder or file with the options behind it, the folder or file). Raises InputError."""
    name, *options = run.split("+")
    found = load(name)
    if options:
        found = resolve(f"{Path(name) / 'policy.safetensors' if Path(name).is_dir() else Path(name)}+{'+'.join(options)}")
    return found, name


def with_options(policy: NeuralPolicy | ListScheduler, chosen: dict) -> NeuralPolicy | ListScheduler:
    """The policy with other options of the name grammar: backfill, guard. Raises InputError for those that cannot be."""
    if isinstance(policy, ListScheduler):
        if "cost" in chosen:
            raise InputError(f"policy {policy.name}: +cost is for models that were trained with the encoder mars")
        return replace(policy, **chosen)
    return policy.with_options(chosen)


def pretrained() -> list[str]:
    """Names of the orders that come trained, for logs that nobody has learnt from."""
    return sorted([*(p.stem for p in PRETRAINED.glob("*.safetensors")), "smith-forecast-aged"])


def _recommended(name: str) -> Gate:
    """`jobwise` and `jobwise-unbounded`, with the forest that comes with the package, or, `jobwise:RUN`, of a run folder; or
    with trees that are fitted anew (`+refit`)."""
    which, _, run = (own := name.removesuffix("+refit")).partition(":")
    if "+" in which + run.split("/")[-1]:
        raise InputError(f"policy {name!r} chooses backfilling, lane and promise itself; only +refit goes with it")
    if own.endswith(":"):
        raise InputError(f"policy {name!r}: which run? jobwise:runs/NAME, or jobwise alone")
    orders = [getattr(load(run or PRETRAINED / "smith-forecast.safetensors"), "order", None), resolve("general").order]
    if not isinstance(orders[0], loglinear.Index):
        raise InputError(f"policy {name!r}: {run} is no order with a forest; train one with jobwise train smith-forecast")
    return recommended.recommended(which, *orders, name, refit.DEFAULT if name != own else 0)


def _gated(name: str) -> Gate:
    """`gated:RULE,CANDIDATE,…[,1.2x]`: the rule to fall back on, candidates, a bound on the longest wait."""
    parts = name.removeprefix("gated:").split(",")
    bound = np.inf
    if parts and re.fullmatch(r"\d+(\.\d+)?x", parts[-1].strip()):
        bound = float(parts.pop().strip()[:-1])
    if not all(p.strip() for p in parts):
        raise InputError(f"policy {name!r}: an empty name between commas; write gated:RULE,CANDIDATE[,1.2x]")
    return Gate([resolve(p) for p in parts], bound)


def _own(name: str, chosen: dict) -> Policy:
    """`file.py:thing` where thing is an order function, a policy class, or a policy."""
    file, _, thing = name.partition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"policy {name!r}: there is no file {file}")
    if not thing:
        raise InputError(f"policy {name!r}: which function or class of {file}? write {file}:NAME")
    if path.suffix != ".py":
        raise InputError(f"policy {name!r}: {file} is no Python file (.py)")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise InputError(f"{file}: {type(error).__name__}: {error}") from error
    if not hasattr(module, thing):
        raise unknown("name", thing, [n for n in vars(module) if not n.startswith("_")], f"{file}: ")
    found = getattr(module, thing)
    if isinstance(found, type):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise InputError(f"{file}: {thing}() failed: {type(error).__name__}: {error}") from error
    if isinstance(found, Policy):
        if chosen:
            raise InputError(f"policy {name!r} decides everything itself; +{'+'.join(chosen)} does not apply")
        return found
    if not callable(found):
        raise InputError(f"{file}: {thing} is neither an order function nor a policy")
    return ListScheduler(found, label=thing, **chosen)
