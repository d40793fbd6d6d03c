"""One vLLM engine on the CPU for all tests, with the lab's model in fp32. Every trainer loads its weights into it."""

from collections.abc import Iterator
from typing import Any

import pytest

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@pytest.fixture(scope="session")
def engine() -> Iterator[list[Any]]:
    """The engine, in a list that is empty until the first trainer starts it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        from trl.generation import vllm_generation
        from vllm import _custom_ops

        start, engines = vllm_generation.LLM, []

        def shared(**settings: Any) -> Any:
            if not engines:
                engines.append(start(**settings, dtype="float32", enforce_eager=True))
            return engines[0]

        patch.setattr(vllm_generation, "LLM", shared)
        patch.setattr(_custom_ops, "_supports_onednn", False)  # weights packed for oneDNN cannot be replaced
        yield engines
