"""What `import verl` loads where gtpo is installed (entry point `verl.plugins`).

It registers two names with verl: `algorithm.adv_estimator=gtpo` and `trainer.v1.trainer_mode=gtpo_sync`. It is a
module of its own and imports nothing of gtpo, for two reasons. Every process of a run imports verl, inference servers
too, and only the one that trains needs the trainer: each name is registered when verl loads the registry that it
belongs to. And verl silently drops a plug-in that fails to load: this one logs the error, and raises it again when a
user asks for GTPO by name.

It also works around a bug. Where TRL 1.16 is installed, verl 0.9.1 patches a class that TRL no longer has, and every
FSDP worker fails. GTPO on verl does not need TRL. If TRL is installed all the same, it is hidden from that one module.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

ESTIMATORS = "verl.trainer.ppo.core_algos"
TRAINERS = "verl.trainer.ppo.v1"
PATCHES = "verl.models.transformers.monkey_patch"
OURS = {ESTIMATORS: "gtpo.verl.estimator", TRAINERS: "gtpo.verl.trainer"}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls the function in ON_IMPORT right after verl has loaded one of its modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target) if fullname in ON_IMPORT else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_call(module: ModuleType) -> None:
                load(module)
                ON_IMPORT[module.__name__](module)

            spec.loader.exec_module = load_and_call
        return spec


def register(registry: Any) -> None:
    """Import our part for this registry of verl. If that fails, register a stand-in that raises the reason."""
    try:
        importlib.import_module(OURS[registry.__name__])
    except Exception as error:
        _register_stand_in(registry, error)


def _register_stand_in(registry: Any, error: Exception) -> None:
    reason = (
        f"GTPO is installed, but its plug-in for verl cannot be loaded: {type(error).__name__}: {error}. "
        "Remedy: pip install 'gtpo[verl]', with the constraints in constraints-verl.txt."
    )
    logging.getLogger("gtpo").error(reason)

    def fail(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(reason) from error

    with contextlib.suppress(Exception):  # other versions of verl may lack these names, and must still work
        if registry.__name__ == ESTIMATORS:
            registry.register_adv_est("gtpo")(fail)
        else:
            registry.register_trainer("gtpo_sync")(type("GTPOStandIn", (registry.PPOTrainerSync,), {"__init__": fail}))


def hide_trl(patches: Any) -> None:
    """Skip the patch of TRL's value head, which only a critic needs. GTPO has no critic."""
    if any(distribution.version.startswith("1.16.") for distribution in importlib.metadata.distributions(name="trl")):
        patches.is_trl_available = lambda: False


ON_IMPORT: dict[str, Callable[[Any], None]] = {ESTIMATORS: register, TRAINERS: register, PATCHES: hide_trl}
sys.meta_path.insert(0, _AfterImport())
for name, call in ON_IMPORT.items():
    if name in sys.modules:
        call(sys.modules[name])
