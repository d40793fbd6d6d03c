#!/usr/bin/env bash
# GTPO on verl, one machine with eight GPUs: recipes/verl/run.sh MODEL [verl options]
set -euo pipefail
python -m verl.trainer.main_ppo \
  algorithm.adv_estimator=gtpo trainer.v1.trainer_mode=gtpo_sync \
  algorithm.norm_adv_by_std_in_grpo=False actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean \
  actor_rollout_ref.rollout.n=16 +algorithm.gtpo.entropy_penalty=0.1 \
  data.train_files=train.parquet data.val_files=test.parquet data.train_batch_size=64 \
  actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.model.path="$1" \
  reward.custom_reward_function.path=recipes/verl/reward.py \
  trainer.nnodes=1 trainer.n_gpus_per_node=8 "${@:2}"
