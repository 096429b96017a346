"""The grammar of scheduler names: ORDER[+BACKFILL][+PLACEMENT][+GUARD], the same in Python, commands and reports."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from jobwise import extensions
from jobwise.decision import Policy
from jobwise.errors import InputError, raised_in, unknown
from jobwise.extensions import imported
from jobwise.policies import files, left, parts, zoo
from jobwise.policies.attained import AttainedService
from jobwise.policies.learned import Learned
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import INDEX_DOCS, INDICES
from jobwise.policies.recommended import NAME, OPTIONS, recommended
from jobwise.policies.scheduler import scheduler
from jobwise.policies.slurm import SlurmScheduler
from jobwise.policies.zoo import PRETRAINED
from jobwise.sim.lists.orders import CODES, Order
from jobwise.worlds.spec import kinds as kinds_of_worlds
from jobwise.worlds.spec import world, worlds

LONGEST = 4000  # characters of a name
FILES = {
    "file.py:NAME": "an order function, or a policy class, of your own",
    "runs/NAME": "a run folder of `jobwise train`, or a policy file",
    "models/m000": "what a model store lets schedule now (`jobwise mars learn`)",
    "STATE/learnt": "who ranks beside a live cluster (`jobwise slurm retrain`): a generation, or the policy it began with",
}
RECOMMENDED = {
    NAME: "what we recommend: smith-aged+easy+express2%+promise1.2x; longest waits within 1.25 times those of fcfs+easy in "
    "95 % of the study's fifths of logs",
    f"{NAME}+trial": "the same where jobs may be stopped and begun again: they also run in processors that it leaves idle",
}


class Kind(NamedTuple):
    """Policies whose names begin in their own way. `rows`: {example: what it does}, for `jobwise policies`."""

    heading: str
    begins: Callable[[str], bool]
    make: Callable[[str], Policy]
    rows: Mapping[str, str]


SLURM = {"slurm": "Slurm's own scheduler with the settings of a site (`jobwise slurm site`)"}
ATTAINED = {"tiresias:3600+pack": "least attained service with preemption, two queues: 3,600 GPU-seconds for the first"}
OTHERS = "of other packages"


def kinds() -> list[Kind]:
    """Return the policies that are neither of a world nor list schedulers by name."""
    return [
        Kind("recommended", lambda name: name.split("+")[0].lower() == NAME, _recommended, RECOMMENDED),
        Kind("preemptive", lambda name: re.split("[:+]", name)[0] == "tiresias", AttainedService.named, ATTAINED),
        Kind(
            "zoo",
            lambda name: name.startswith(zoo.PREFIX),
            _of_zoo,
            {f"{zoo.PREFIX}{n}": c.result for n, c in zoo.cards().items()},
        ),
        Kind("sites", lambda name: name == "slurm", lambda name: cast(Any, SlurmScheduler()), SLURM),
    ]


def _of_prefix(policy: str) -> Policy | None:
    """Return the policy of a name PREFIX:… of a world or of another package, None for other names. Raises InputError."""
    prefix = policy.partition(":")[0]
    if ":" not in policy or prefix.endswith(".py"):
        return None
    if (spec := world(prefix)) is not None and spec.rules:
        return spec.policies.named(policy)
    if (make := extensions.load("jobwise.policies", prefix)) is None:
        return None
    with extensions.of_package("jobwise.policies", prefix, f"made no policy of {policy!r}"):
        resolved = make(policy)
        if not isinstance(resolved, Policy):
            raise TypeError(f"a {type(resolved).__name__} is no policy")
    return scheduler(resolved)


def resolve(policy: str | Policy) -> Any:
    """Return the policy of a name.

    Parameters
    ----------
    policy : str or Policy
        ``ORDER[+BACKFILL][+PLACEMENT][+GUARD]`` such as ``saf+easy+spread+guard24h``; ``mine.py:order+easy`` for a function
        or class of your own; ``runs/mine+easy`` for a trained policy (a run folder or a policy file); or a policy.

    Returns
    -------
    Scheduler
        The policy, with all that jobwise asks it for (`jobwise.policies.scheduler`).

    Raises
    ------
    InputError
        The name is unknown; the nearest one is named.
    """
    if not isinstance(policy, str):
        if isinstance(policy, Policy):
            return scheduler(policy)
        if callable(policy):
            return ListScheduler(policy)
        raise InputError(f"{policy!r} is no policy: it needs the methods reset, decide and ended")
    policy = policy.strip()
    if len(policy) > LONGEST:
        raise InputError(f"a policy's name of {len(policy):,} characters begins with {policy[:40]!r}; {LONGEST:,} are read")
    try:
        return _resolved(policy)
    except OSError as error:  # a part of it is no name of a file
        raise InputError(f"policy {policy[:80]!r}: {error.strerror}") from None


def _resolved(policy: str) -> Any:
    left.check("policies", policy)
    for kind in kinds():
        if kind.begins(policy):
            return kind.make(policy)
    if (made := _of_prefix(policy)) is not None:
        return made
    order, *options = policy.split("+")
    if order.lower() in {*CODES, *INDICES, *pretrained()}:
        order, options = order.lower(), [o.lower() for o in options]
    chosen = parts.read(parts.GRAMMAR, policy, options)
    if order in CODES or order in INDICES:
        return _placed(lambda **c: ListScheduler(order, **c), chosen)
    if ".py" in order:
        return _placed(lambda **c: _own(order, c), chosen)
    if "/" in order or order.endswith(".safetensors") or Path(order, "policy.safetensors").is_file():
        trained = load(order)
        return with_options(trained, chosen) if chosen else trained
    if order in pretrained():
        return with_options(load(PRETRAINED / f"{order}.safetensors"), {"backfill": "none"} | chosen)
    if (function := extensions.load("jobwise.orders", order)) is not None:
        return _placed(lambda **c: ListScheduler(function, label=order, **c), chosen)
    if order.endswith(".onnx"):
        raise InputError(
            f"policy {policy!r}: ONNX files are for other programs; name the run folder, or its policy.safetensors"
        )
    known = [*CODES, *INDICES, *pretrained(), *RECOMMENDED, *extensions.names("jobwise.orders")]
    raise unknown("order", order, known, f"policy {policy!r}: " if options else "")


KINDS = {  # kinds of policy files that are list schedulers: where the function (parts, weights, label) -> policy is
    "index": "jobwise.policies.list_scheduler:index_from_file",
}


def described() -> dict[str, dict[str, str]]:
    """Return {heading: {name: one line}} of the whole grammar: what `jobwise policies` prints."""
    orders = {row.label: row.doc + (f" ({row.source})" if row.source else "") for row in Order} | INDEX_DOCS
    orders |= dict.fromkeys(pretrained(), "weights learnt on other logs, which come with the package")
    tables = {"orders": dict.fromkeys(extensions.names("jobwise.orders"), "an order of another package") | orders}
    for part in parts.GRAMMAR:
        tables.setdefault(part.heading, {})[part.example] = part.doc
    for kind in kinds():
        tables[kind.heading] = dict(kind.rows)
    for spec in worlds().values():
        if spec.rules:
            tables[spec.policies.HEADING] = spec.policies.rows()
    others = {f"{name}:…": "policies of another package" for name in extensions.names("jobwise.policies")}
    others |= {name: why for group in extensions.GROUPS for name, why in extensions.loaded(group)[1].items()}
    return tables | ({OTHERS: others} if others else {}) | {"from files": FILES}


def _placed(make: Callable[..., Any], chosen: dict) -> Policy:
    """Return a list scheduler, with the placement that learns where that was chosen. Raises InputError."""
    if "cost" in chosen:
        raise InputError("+cost is for models that were trained with the encoder mars")
    if chosen.get("placement") != "learned":
        return make(**chosen)
    return Learned(make(**{k: v for k, v in chosen.items() if k != "placement"}))


def load(path: str | Path) -> Any:
    """Return the policy of a file, or of a run folder.

    Parameters
    ----------
    path : str or Path
        What `jobwise train` or `policy.save` wrote. Nothing is unpickled.

    Returns
    -------
    Scheduler

    Raises
    ------
    InputError
        There is no policy of jobwise.
    """
    if (model := Path(path, "model.json")).is_file():
        return _of_store(model)
    meta, weights, label, file = files.read(path)
    try:
        readers = kinds_of_worlds() | KINDS
        if (kind := str(meta.get("kind", ""))) not in readers:
            left.check("files", kind)
            raise unknown("kind of policy", kind, [k for k in readers if k])
        return imported(readers[kind])(meta, weights, label)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(f"{file}: its metadata are damaged: {type(error).__name__}: {error}") from None


def is_built_in(name: str) -> bool:
    """Is this the name of a rule of ours, which is read from no file?"""
    return name.split("+")[0] in {*CODES, "jobwise"}


def _of_store(file: Path) -> Any:
    """Return the present scheduler of a folder of a model store: a generation, or a built-in rule. Raises InputError."""
    try:
        model = json.loads(file.read_text())
        name, beta = str(model["schedules"]), float(model.get("beta", 0.0))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: is damaged: {type(error).__name__}: {error}") from None
    if re.fullmatch(r"(g\d+|base)\.safetensors", name):
        return with_options(load(file.parent / name), {"cost": beta} if "beta" in model else {})
    if not is_built_in(name):  # no path, no code
        raise InputError(f"{file}: {name!r} is neither a generation nor a built-in rule")
    return resolve(name)


def resolve_trained(run: str) -> tuple[Any, str]:
    """(the policy of a run folder or file with the options behind it, the folder or file). Raises InputError."""
    name, *options = run.split("+")
    policy = load(name)
    if options:
        policy = resolve(f"{Path(name) / 'policy.safetensors' if Path(name).is_dir() else Path(name)}+{'+'.join(options)}")
    return policy, name


def with_same_options(policy: Any, name: str) -> Any:
    """Return a policy with the options that a name has behind its run folder or file. Raises InputError."""
    words = name.split("+")[1:]
    return with_options(policy, parts.read(parts.GRAMMAR, name, words)) if words else policy


def with_options(policy: Any, chosen: dict) -> Any:
    """The policy with other options of the name grammar: backfill, guard. Raises InputError for those that cannot be."""
    if isinstance(policy, ListScheduler):
        return _placed(lambda **c: replace(policy, **c), chosen)
    if (made := policy.with_options(chosen)) is None:
        raise InputError(f"policy {policy.name} decides everything itself; {parts.as_typed(chosen)} does not apply")
    return made


def pretrained() -> list[str]:
    """Return the names of the orders that come trained, for logs without training."""
    return sorted(p.stem for p in PRETRAINED.glob("*.safetensors"))


def _recommended(name: str) -> Policy:
    """Return `jobwise`, with trial runs where they are asked for. Raises InputError for other options."""
    chosen = parts.read(parts.GRAMMAR, name, name.lower().split("+")[1:])
    if set(chosen) - set(OPTIONS):
        alone = f"{NAME}, {NAME}+trial or {NAME}+shift8h alone"
        raise InputError(f"policy {name!r} chooses backfilling, lane and start deadlines itself: {alone}")
    return recommended(**chosen)


def _of_zoo(name: str) -> Policy:
    """`zoo:NAME[+options]`: a policy that comes trained."""
    which, *options = name.removeprefix(zoo.PREFIX).split("+")
    chosen, trained = parts.read(parts.GRAMMAR, name, options), replace(load(zoo.file_of(which)), label=zoo.PREFIX + which)
    return with_options(trained, chosen) if chosen else trained


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
    spec = cast(Any, importlib.util.spec_from_file_location(path.stem, path))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise InputError(f"{raised_in(error) or f'{file}: '}{type(error).__name__}: {error}") from error
    if not hasattr(module, thing):
        raise unknown("name", thing, [n for n in vars(module) if not n.startswith("_")], f"{file}: ")
    target = getattr(module, thing)
    if isinstance(target, type):
        try:
            target = target()
        except (Exception, SystemExit) as error:
            raise InputError(f"{raised_in(error) or f'{file}: '}{thing}() failed: {type(error).__name__}: {error}") from error
    if isinstance(target, Policy):
        if chosen:
            raise InputError(f"policy {name!r} decides everything itself; {parts.as_typed(chosen)} does not apply")
        return scheduler(target)
    if not callable(target):
        raise InputError(f"{file}: {thing} is neither an order function nor a policy")
    return ListScheduler(target, label=thing, **chosen)
