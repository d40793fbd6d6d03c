#!/usr/bin/env bash
# Several machines under Slurm:  sbatch recipes/multi-gpu/slurm.sh fsdp2.yaml recipes/multi-gpu/config.yaml [--option value …]
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
set -euo pipefail
config=recipes/multi-gpu/$1
shift
gpus=${SLURM_GPUS_ON_NODE:-8}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export config gpus first
# One launcher a machine; SLURM_NODEID is known only there.
srun bash -c 'accelerate launch --config_file "$config" \
  --num_machines "$SLURM_NNODES" --num_processes $((SLURM_NNODES * gpus)) --machine_rank "$SLURM_NODEID" \
  --main_process_ip "$first" --main_process_port 29500 -m gtpo.cli.main train "$@"' launch "$@"
