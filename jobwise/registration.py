"""Makes `gymnasium.make("jobwise/Window-v0")` work after `import jobwise`, without importing Gymnasium for it.

Gymnasium (from 1.1 on) looks for no plugins. So `import jobwise` registers where Gymnasium is loaded already, and else
leaves a finder that registers when Gymnasium is loaded.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import Any


def register_environments() -> None:
    """Register the environments with the Gymnasium that is loaded."""
    from gymnasium.envs.registration import register, registry

    from jobwise.worlds.spec import worlds

    for spec in worlds().values():
        for name in spec.ids:
            if f"jobwise/{name}-v0" not in registry:
                one, many = f"{spec.env}Env", f"{spec.env}VectorEnv"
                register(id=f"jobwise/{name}-v0", entry_point=one, vector_entry_point=many)


class _WhenLoaded:
    """A finder that finds nothing but notices when `gymnasium.envs` is loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name != "gymnasium.envs":
            return None
        sys.meta_path.remove(_WhenLoaded)
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            register_environments()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def hook() -> None:
    """Register now, or when Gymnasium is loaded."""
    if "gymnasium.envs" in sys.modules:
        register_environments()
    elif _WhenLoaded not in sys.meta_path:
        sys.meta_path.insert(0, _WhenLoaded)
