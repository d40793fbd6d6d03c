"""The engines that sample: transformers and vLLM."""

from gtpo.errors import require, require_choice
from gtpo.evaluation.sampling import ENGINES, GPU_MEMORY, Engine, model_of_run


def load_engine(name: str, model: str, *, gpu_memory: float = GPU_MEMORY) -> Engine:
    """Load `model` (a hub id, the folder of a model or of a run, or the word "lab") into the engine `name`.

    `gpu_memory` is the fraction of the GPU's memory that vLLM reserves. The transformers engine takes what it needs.
    """
    require_choice("engine", name, ENGINES)
    require(0 < gpu_memory <= 1, "gpu_memory", gpu_memory, "above 0 and at most 1")
    if model == "lab":
        from gtpo.lab.model import lab_model_dir

        model = str(lab_model_dir())
    model = model_of_run(model)
    if name == "vllm":
        from gtpo.evaluation.engines.vllm import VLLMEngine

        return VLLMEngine(model, gpu_memory_utilization=gpu_memory)
    from gtpo.evaluation.engines.transformers import TransformersEngine

    return TransformersEngine(model)
