"""The engines that sample: transformers and vLLM."""

from gtpo.errors import ConfigError, require, require_choice
from gtpo.evaluation.sampling import ENGINES, GPU_MEMORY, Engine
from gtpo.models import find_model


def load_engine(name: str, model: str, *, gpu_memory: float = GPU_MEMORY, trust_remote_code: bool = False) -> Engine:
    """Load `model`, any name that `gtpo.models.find_model` accepts, into the engine `name`.

    `gpu_memory` is the fraction of the GPU's memory that vLLM reserves. The transformers engine takes what it needs.
    `trust_remote_code` lets the model run Python code that comes with it.
    """
    require_choice("engine", name, ENGINES)
    require(0 < gpu_memory <= 1, "gpu_memory", gpu_memory, "above 0 and at most 1")
    source = find_model(model)
    location = source.location
    if name == "vllm":
        if source.base is not None:
            remedy = "Use --engine transformers, or merge the adapter into its base"
            raise ConfigError(f"engine='vllm' takes full models only, and {model!r} is a LoRA adapter. {remedy}.")
        from gtpo.evaluation.engines.vllm import VLLMEngine

        return VLLMEngine.load(location, gpu_memory_utilization=gpu_memory, trust_remote_code=trust_remote_code)
    from gtpo.evaluation.engines.transformers import TransformersEngine

    return TransformersEngine.load(location, trust_remote_code=trust_remote_code)
