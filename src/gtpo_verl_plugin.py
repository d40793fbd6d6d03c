"""What `import verl` loads where gtpo is installed (entry point `verl.plugins`).

It makes two names known to verl: `algorithm.adv_estimator=gtpo` and `trainer.v1.trainer_mode=gtpo_sync`. It stands
outside the package and imports nothing of it, for two reasons. Every process of a run imports verl, inference servers
too, and only the one that trains needs the trainer: so each name waits until verl loads the registry it belongs to.
And verl drops a plug-in that fails to load without a word: here whatever goes wrong is logged as an error, and raised
again where somebody asks for GTPO by name.

It also mends one thing. gtpo brings TRL along, and where TRL is installed verl 0.9.1 wants to patch a class that TRL
1.16 no longer has, and every FSDP worker dies of it. So that one file of verl's is told that there is no TRL.
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
VALUE_HEADS = "verl.models.transformers.monkey_patch"
OURS = {ESTIMATORS: "gtpo.verl.estimator", TRAINERS: "gtpo.verl.trainer"}


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Acts right after verl has loaded one of the modules that concern us."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target) if fullname in WATCHED else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_act(module: ModuleType) -> None:
                load(module)
                WATCHED[module.__name__](module)

            spec.loader.exec_module = load_and_act
        return spec


def register(registry: Any) -> None:
    """Load our part for this registry of verl's, or a stand-in that says why there is none."""
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

    with contextlib.suppress(Exception):  # another verl may not have these, and must not break because of us
        if registry.__name__ == ESTIMATORS:
            registry.register_adv_est("gtpo")(fail)
        else:
            registry.register_trainer("gtpo_sync")(type("GTPOStandIn", (registry.PPOTrainerSync,), {"__init__": fail}))


def leave_trl_alone(patches: Any) -> None:
    """The class in question belongs to critics, which GTPO does not have."""
    if any(found.version.startswith("1.16.") for found in importlib.metadata.distributions(name="trl")):
        patches.is_trl_available = lambda: False


WATCHED: dict[str, Callable[[Any], None]] = {ESTIMATORS: register, TRAINERS: register, VALUE_HEADS: leave_trl_alone}
sys.meta_path.insert(0, _WhenLoaded())
for name, act in WATCHED.items():
    if name in sys.modules:
        act(sys.modules[name])
