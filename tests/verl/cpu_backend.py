"""For tests only: what verl lacks to run `main_ppo` without a GPU, added through verl's own registries.

A platform "cpu" and a rollout "hf_cpu": transformers' `generate` in a Ray actor, which gets the weights after every
update and writes every sample to the file HF_CPU_SAMPLES. VERL_USE_EXTERNAL_MODULES loads this in every process.
"""

import json
import os
import types
from contextlib import contextmanager

import ray
import torch
import verl.utils.distributed as distributed
from transformers import AutoModelForCausalLM
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base as rollout_base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

SERVER = "hf_cpu_server"


def _zero(*args, **kwargs):
    return 0


_UNUSED = (
    "max_memory_allocated max_memory_reserved memory_allocated memory_reserved current_device manual_seed "
    "manual_seed_all empty_cache synchronize ipc_collect reset_peak_memory_stats set_device"
)
_DEVICE = types.SimpleNamespace(
    **dict.fromkeys(_UNUSED.split(), _zero),
    device_count=lambda: 1,
    is_available=lambda: True,
    get_device_name=lambda *args: "cpu",
    get_rng_state=lambda *args: torch.get_rng_state(),
    set_rng_state=lambda state, *args: torch.set_rng_state(state),
    mem_get_info=lambda *args: (1 << 33, 1 << 34),
    get_device_properties=lambda *args: types.SimpleNamespace(total_memory=1 << 34, name="cpu"),
)


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """Presents one CPU to verl as a device. Ray gets as many GPUs as there are workers."""

    device_name = vendor_name = "cpu"
    device_module = _DEVICE

    def is_available(self):
        return True

    def is_platform_available(self, use_smi_check=False):
        return False

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 1

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def ray_resource_name(self):
        return "GPU"

    def ray_resource_options(self, num_gpus):
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    def _nothing(self, *args, **kwargs):
        return None

    set_device = synchronize = set_allocator_settings = empty_cache = _nothing
    profiler_start = profiler_stop = cudart = _nothing


class Server:
    """Samples one completion at a time and returns the log-probs of its tokens."""

    def __init__(self, path, max_tokens):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.max_tokens, self.step = max_tokens, 0

    async def load(self, weights, step):
        self.model.load_state_dict(weights)
        self.step = step or 0

    async def generate(self, prompt_ids, sampling_params, request_id=None, **kwargs):
        ids = torch.tensor([list(prompt_ids)])
        temperature = float(sampling_params["temperature"])
        with torch.no_grad():
            sampled = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                temperature=temperature,
                max_new_tokens=self.max_tokens,
                output_logits=True,
                return_dict_in_generate=True,
            )
        tokens = sampled.sequences[0, ids.shape[1] :].tolist()
        with open(os.environ["HF_CPU_SAMPLES"], "a") as file:
            file.write(json.dumps({"step": self.step, "prompt": list(prompt_ids), "tokens": tokens}) + "\n")
        log_probs = [(logits[0] / temperature).log_softmax(-1) for logits in sampled.logits]
        return TokenOutput(
            token_ids=tokens,
            log_probs=[row[token].item() for row, token in zip(log_probs, tokens, strict=True)],
            stop_reason="completed",
            extra_fields={"global_steps": self.step},
        )

    async def nothing(self, *args, **kwargs):
        return None

    sleep = wake_up = abort_all_requests = resume_generation = clear_kv_cache = release_kv_cache = nothing
    resume_kv_cache = start_profile = stop_profile = wait_for_requests_to_drain = nothing


class Replica(RolloutReplica):
    """The server that all workers share."""

    async def launch_servers(self):
        try:
            server = ray.get_actor(SERVER)
        except ValueError:
            remote = ray.remote(Server).options(name=SERVER, num_cpus=0, max_concurrency=8)
            server = remote.remote(self.model_config.path, self.config.response_length)
        await server.nothing.remote()
        self.servers, self._server_handle, self._server_address = [server], server, "hf_cpu:0"


class Adapter(BaseRollout):
    """Sends the actor's weights to the server."""

    async def resume(self, tags):
        return None

    async def release(self):
        return None

    async def update_weights(self, weights, wire_format="named_tensors", global_steps=None, **kwargs):
        state = {}
        for name, tensor in weights:
            full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
            state[name] = full.detach().float().cpu().clone()
        await ray.get_actor(SERVER).load.remote(state, global_steps)


_initialize = distributed.initialize_global_process_group_ray
distributed.initialize_global_process_group_ray = lambda timeout_second=None, backend=None: _initialize(
    timeout_second, backend or "gloo"
)
rollout_base._ROLLOUT_REGISTRY["hf_cpu", "async"] = f"{__name__}.Adapter"
RolloutReplicaRegistry.register("hf_cpu", lambda: Replica)
