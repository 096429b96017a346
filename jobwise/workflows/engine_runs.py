"""Engines at work beside the one who follows their tasks: each in a thread of its own, all on one resource manager."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobwise.errors import InputError, plain
from jobwise.files import own_folder
from jobwise.workflows.engines import Outcome, watched
from jobwise.workflows.engines.desk import Desk, Stopped
from jobwise.workflows.follow import Following


class EngineRuns:
    """The engines of workflows, by their numbers among `files`. `prepare`: their functions `prepared`; `inputs`: files of the
    values of their inputs, in order; `state`: the folder of the run; `bare`: tasks that ask for a container run without one.
    Raises InputError for workflows that cannot be run."""

    def __init__(self, prepare: dict[int, Callable], files: list[Path], inputs: list[Path], state: Path, bare: bool = False):
        if len(inputs) > len(prepare):
            many = f"{len(prepare)} workflow{'s' * (len(prepare) != 1)}" if prepare else "no workflow"
            raise InputError(f"--inputs is there {len(inputs)} times; {many} here runs commands of its own (CWL, WDL)")
        self.files, self.folder = files, state.resolve()
        files_of_inputs: list[Path | None] = [*inputs, *[None] * (len(prepare) - len(inputs))]
        folders = {i: self.folder / f"engine{i}" for i in prepare}
        for place in folders.values():
            own_folder(place)
        self._run = {i: p(files[i], x, folders[i], bare) for (i, p), x in zip(prepare.items(), files_of_inputs, strict=True)}
        self.desks = {i: Desk() for i in prepare}
        self._outcome: dict[int, Outcome] = {}
        self._raised: list[BaseException] = []

    def follow(self, following: Following, report: Callable[[int, int], None] | None = None) -> None:
        """Run all engines and follow their tasks, and the others', to their ends. Raises what an engine raised, and
        KeyboardInterrupt."""
        threads = [threading.Thread(target=self._one, args=(i,), daemon=True) for i in self.desks]
        with watched([self.files[i] for i in self.desks]) as is_stopped:

            def is_going_on() -> bool:
                if is_stopped():
                    raise KeyboardInterrupt
                return any(t.is_alive() for t in threads)

            for t in threads:
                t.start()
            try:
                following.follow(report, is_going_on)
            finally:
                for desk in self.desks.values():
                    desk.close()
                for t in threads:
                    t.join(5.0)
        if self._raised:
            raise self._raised[0]

    def _one(self, i: int) -> None:
        try:
            self._outcome[i] = self._run[i](self.desks[i])
        except Stopped:
            return
        except BaseException as error:
            self._raised.append(error)

    def outputs(self) -> dict[str, Any]:
        """The outputs of each workflow, by its file."""
        names = [str(self.files[i]) for i in self._outcome]
        twice = {n for n in names if names.count(n) > 1}
        return {f"{n}#{i}" if n in twice else n: x.outputs for n, (i, x) in zip(names, self._outcome.items(), strict=True)}

    def places(self) -> list[str]:
        """Lines with each output of each workflow that has ended well: its name, and its value or where its files are."""
        every = [(self.files[i], self.folder / f"engine{i}", x) for i, x in self._outcome.items() if not x.problem]
        lines = [f"{file}: {name}: {_shown(value)}" for file, _, x in every for name, value in x.outputs.items()]
        return lines + [f"{file}: no outputs; its folder is {place}" for file, place, x in every if not x.outputs]

    def is_failed(self) -> bool:
        """Return whether a workflow has failed."""
        return any(x.problem for x in self._outcome.values())

    def notes(self) -> list[str]:
        """Lines for the user: what was passed over, what failed, where outputs are."""
        lines = [f"{self.files[i]}: {n}" for i, x in self._outcome.items() for n in x.notes]
        failed = [i for i, x in self._outcome.items() if x.problem]
        lines += [f"{self.files[i]}: {'; '.join([self._outcome[i].problem, *self.desks[i].problems])}" for i in failed]
        if failed:
            lines += [f"it printed last: {said}"] if (said := _last_words(self.folder / "outputs")) else []
            place = f"{self.folder / 'outputs'} and {self.folder}/engine*/tasks"
            lines.append(f"what tasks printed is in {place}; the same command tries again")
        return lines


def _last_words(folder: Path) -> str:
    """The last line that the task which failed last has printed; "" where it has printed nothing."""
    printed = sorted((f for f in folder.glob("*.txt") if f.stat().st_size), key=lambda f: f.stat().st_mtime)
    lines = printed[-1].read_text(errors="replace").strip().split("\n") if printed else [""]
    return plain(lines[-1])[:200]


def _shown(value: Any) -> str:
    """The value of an output in words: of a file its path."""
    if isinstance(value, dict) and value.get("class") in ("File", "Directory"):
        return plain(str(value.get("path") or value.get("location", "")).removeprefix("file://"))
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return plain(str(value))
