"""Options of TRL and transformers that run code or send data need trust. A new option must be looked at."""

import dataclasses
from typing import Any

from gtpo import GTPOConfig
from gtpo.training.config.settings import REFUSED
from gtpo.training.trust import EFFECTS
from trl import GRPOConfig, ModelConfig, SFTConfig

NUMBERS = (int, float, int | None, float | None)
HARMLESS = """
accelerator_config activation_offloading assistant_only_loss auto_find_batch_size average_tokens_across_devices
batch_eval_metrics bf16 bf16_full_eval bnb_4bit_quant_storage bnb_4bit_quant_type cache_implementation
cast_lm_head_to_fp32 chat_template_kwargs completion_only_loss conflict_edges conflict_match credit_parameters
dataloader_drop_last dataloader_in_order
dataloader_multiprocessing_context dataloader_persistent_workers dataloader_pin_memory dataset_kwargs
dataset_text_field ddp_backend ddp_broadcast_buffers ddp_find_unused_parameters ddp_static_graph debug disable_dropout
disable_tqdm do_eval do_predict do_train ds3_gather_for_generation dtype enable_jit_checkpoint entropy_filter
entropy_penalty_center entropy_penalty_relative eos_token
eval_do_concat_batches eval_on_start eval_packing eval_use_gather_object fp16 fp16_full_eval fsdp_config
full_determinism gradient_checkpointing gradient_checkpointing_kwargs greater_is_better ignore_data_skip
importance_sampling_level include_for_metrics include_num_input_tokens_seen label_names length_column_name
liger_kernel_config load_best_model_at_end load_in_4bit load_in_8bit log_completions log_level log_level_replica
log_multimodal log_on_each_node log_unique_prompts logging_first_step logging_nan_inf_filter logging_strategy
lora_modules_to_save lora_target_modules lora_target_parameters lora_task_type loss_type lr_scheduler_kwargs
lr_scheduler_type mask_truncated_completions metric_for_best_model model_revision multi_objective_aggregation optim
optim_args optim_target_modules output_dir packing packing_strategy pad_to_multiple_of pad_token padding_free
parallelism_config prediction_loss_only project remove_unused_columns restore_callback_states_from_checkpoint
reward_weights run_name save_on_each_node save_strategy scale_rewards shuffle_dataset skip_memory_metrics
sync_ref_model tf32 torch_compile torch_compile_backend torch_compile_mode train_sampling_strategy trim_batches
transformers_continuous_batching_config truncation_mode use_adaptive_entropy use_bias_correction_kl
use_bnb_nested_quant use_cache use_cpu use_dora use_liger_kernel use_peft use_rslora
use_transformers_continuous_batching use_transformers_paged use_vllm vllm_enable_sleep_mode
vllm_importance_sampling_correction vllm_importance_sampling_mode vllm_mode vllm_model_impl
vllm_structured_outputs_regex
"""
SWITCHED_BY = {"hub_": "push_to_hub", "trackio_": "report_to"}
"""These prefixes have an effect only with an option that needs trust itself."""

PICKLES = "fsdp"
"""Needs trust for the checkpoints that it loads."""

IMPORTED = "credit"
"""Needs trust if it names a function, like `rewards`."""


def test_every_option_that_is_not_a_number_was_looked_at():
    fields: dict[str, Any] = {
        field.name: field.type
        for options in (GRPOConfig, SFTConfig, ModelConfig, GTPOConfig)
        for field in dataclasses.fields(options)
    }
    new = {
        name
        for name, kind in fields.items()
        if kind not in NUMBERS and not name.startswith(tuple(SWITCHED_BY)) and name not in REFUSED
    }
    assert new - EFFECTS.keys() == {*HARMLESS.split(), PICKLES, IMPORTED}
    assert EFFECTS.keys() | set(SWITCHED_BY.values()) <= fields.keys()
