"""A small run of TRL that logs its completions."""

from trl import GRPOConfig


def logging_config(folder, **options):
    return GRPOConfig(
        str(folder),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=6,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        log_completions=True,
        bf16=False,
        **options,
    )
