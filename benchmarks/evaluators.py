"""Processes that answer test problems next to a trainer's own vLLM engine, each with an engine of its own.

A decoding step waits for Python, so one engine leaves most of the GPU idle. Between two measurements the processes
wait for a line and use no processor time; their engines keep their memory.

    python benchmarks/evaluators.py MODEL_DIR FOLDER     # started by bench_time_to_accuracy.py --evaluators 3
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MEMORY_BYTES = 2_500_000_000  # for keys and values: about 270 completions at a time
READY = "ready"


def make_request(temperature: float, limit: int) -> Any:
    from vllm import SamplingParams

    return SamplingParams(temperature=temperature, max_tokens=limit, detokenize=False)


def ids_of(engine: Any, prompts: list[list[int]], temperature: float, limit: int) -> list[list[int]]:
    inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
    outputs = engine.generate(inputs, make_request(temperature, limit), use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def mapped_weights(folder: Path, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Tensors in bf16 that all processes share: a file in memory, written anew for every measurement."""
    import torch

    sizes = [math.prod(shape) for shape in shapes.values()]
    values = torch.from_file(str(folder / "weights"), shared=True, size=sum(sizes), dtype=torch.bfloat16)
    parts = zip(shapes.items(), values.split(sizes), strict=True)
    return {name: part.view(tuple(shape)) for (name, shape), part in parts}


class Evaluators:
    """A pool of processes. The trainer's engine takes a share of the prompts too."""

    def __init__(self, model: str, count: int) -> None:
        if count:
            self.folder = Path(tempfile.mkdtemp(prefix="gtpo-evaluators-", dir="/dev/shm"))
        self.weights: dict[str, Any] = {}
        self.processes = [self._start(model, number) for number in range(count)]

    def _start(self, model: str, number: int) -> subprocess.Popen[str]:
        folder = self.folder / str(number)
        folder.mkdir()
        environment = {**os.environ, "MASTER_PORT": str(29700 + number), "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        command = [sys.executable, __file__, model, str(folder)]
        with (folder / "log").open("w") as log:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, text=True, bufsize=1
            )

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        if self.processes:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait(self) -> None:
        for number in range(len(self.processes)):
            self._read(number, READY)

    def ids(self, trainer: Any, prompts: list[list[int]], temperature: float, limit: int) -> list[list[int]]:
        """Sampled ids for the current weights of a trainer, in the order of the prompts."""
        trainer.vllm_generation.sync_weights()
        num_shares = len(self.processes) + 1
        if self.processes:
            self._share(trainer.model)
        for number, process in enumerate(self.processes):
            job = {"prompts": prompts[number + 1 :: num_shares], "temperature": temperature, "limit": limit}
            assert process.stdin is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        shares = [ids_of(trainer.vllm_generation.llm, prompts[::num_shares], temperature, limit)]
        shares += [self._read(number, "answer") for number in range(len(self.processes))]
        return [shares[place % num_shares][place // num_shares] for place in range(len(prompts))]

    def _share(self, model: Any) -> None:
        parameters = dict(model.named_parameters())
        if not self.weights:
            shapes = {name: tuple(value.shape) for name, value in parameters.items()}
            self.weights = mapped_weights(self.folder, shapes)
            write(self.folder / "shapes", shapes)
        for name, value in self.weights.items():
            value.copy_(parameters[name].detach())

    def _read(self, number: int, name: str) -> Any:
        path = self.folder / str(number) / name
        while not path.exists():
            if self.processes[number].poll() is not None:
                log = (path.parent / "log").read_text()
                raise RuntimeError(f"evaluator {number} ended: {log[-2000:]}")
            time.sleep(0.01)
        content = json.loads(path.read_text())
        path.unlink()
        return content


def write(path: Path, content: Any) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content))
    part.rename(path)


def serve() -> None:
    model, folder = sys.argv[1], Path(sys.argv[2])
    from vllm import LLM

    engine = LLM(
        model=model,
        load_format="dummy",  # every measurement brings its weights
        dtype="bfloat16",
        gpu_memory_utilization=0.05,
        kv_cache_memory_bytes=MEMORY_BYTES,
        max_model_len=1024,
        max_num_seqs=256,
        max_num_batched_tokens=4096,
        seed=1 + int(folder.name),
    )
    policy = engine.llm_engine.model_executor.driver_worker.model_runner.model
    ids_of(engine, [[1, 2, 3]] * 256, temperature=0.9, limit=8)
    write(folder / READY, True)
    weights: dict[str, Any] = {}
    for line in sys.stdin:
        job = json.loads(line)
        weights = weights or mapped_weights(folder.parent, json.loads((folder.parent / "shapes").read_text()))
        policy.load_weights((name, value.cuda()) for name, value in weights.items())
        engine.reset_prefix_cache()
        write(folder / "answer", ids_of(engine, job["prompts"], job["temperature"], job["limit"]))


if __name__ == "__main__":
    serve()
    sys.stdout.flush()
    os._exit(0)  # vLLM's engine may not let an ordinary exit through
