"""FastGRPOTrainer: TRL's GRPOTrainer with padding-free updates and exact resume."""

import copy
import importlib.metadata
from typing import Any

from trl.trainer.grpo_trainer import GRPOTrainer

from gtpo.trl.fast.correction import CorrectionInUpdate
from gtpo.trl.fast.generation import REQUEST, LeanGeneration
from gtpo.trl.fast.resume import ExactResume
from gtpo.trl.fast.trimming import TrimmedBatches
from gtpo.trl.versions import warn_if_untested


class FastGRPOTrainer(CorrectionInUpdate, TrimmedBatches, ExactResume, GRPOTrainer):
    """TRL's GRPOTrainer, with the same arguments, the same GRPOConfig and the same gradients in less time.

    ```python
    trainer = FastGRPOTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        reward_funcs=my_reward,
        args=GRPOConfig(output_dir="out"),
        train_dataset=my_prompts,
    )
    trainer.train()
    ```

    Updates and scoring passes compute no padding, compute the prompt of a group once where the model allows it, and
    leave out completions without weight (gtpo.trl.fast.trimming, gtpo.trl.fast.sharing),
    and `train(resume_from_checkpoint=True)` continues exactly where the last complete checkpoint was written
    (gtpo.trl.fast.resume). Where an option rules out other micro-batches, a warning is logged and TRL's are used. A
    colocated vLLM returns token ids without their text, which TRL does not use, and the correction for its log-probs
    needs no scoring pass (gtpo.trl.fast.correction).
    """

    def __init__(self, model: Any, reward_funcs: Any = None, args: Any = None, *rest: Any, **kwargs: Any) -> None:
        warn_if_untested(importlib.metadata.version("trl"))
        samples_itself = kwargs.get("rollout_func") is None
        if args is not None and args.use_vllm and args.vllm_mode == "colocate" and samples_itself:
            sampling: dict[str, Any] = args.generation_kwargs or {}
            if "stop" not in sampling:  # vLLM finds stop strings in the text
                args = copy.copy(args)  # the caller may use it again
                args.generation_kwargs = {**REQUEST, **sampling}
        super().__init__(model, reward_funcs, args, *rest, **kwargs)
        LeanGeneration.adopt(getattr(self, "vllm_generation", None))
