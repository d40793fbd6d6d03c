"""FastGRPOTrainer: TRL's GRPOTrainer with padding-free updates and exact resume."""

from trl.trainer.grpo_trainer import GRPOTrainer

from gtpo.trl.resume import ExactResume
from gtpo.trl.trimming import TrimmedBatches


class FastGRPOTrainer(TrimmedBatches, ExactResume, GRPOTrainer):
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

    Updates and scoring passes compute no padding and leave out completions without weight (gtpo.trl.trimming), and
    `train(resume_from_checkpoint=True)` continues exactly where the last complete checkpoint was written
    (gtpo.trl.resume). Where an option rules out other micro-batches, a warning says so and TRL's are used.
    """
