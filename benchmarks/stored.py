"""Stored rollouts: completions, a model with random weights and a tokenizer, all from a seed."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl.generation.vllm_generation import VLLMGeneration

from gtpo.training import prepare
from gtpo.trl.fast.generation import LeanGeneration

PAD, EOS, UNK = 0, 1, 2
SHAPES: dict[str, dict[str, int]] = {
    "qwen2.5-1.5b": {
        "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
        "intermediate_size": 8960, "vocab_size": 151936,
    },
    "qwen2.5-0.5b": {
        "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
        "intermediate_size": 4864, "vocab_size": 151936,
    },
    "150m": {
        "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4,
        "intermediate_size": 2816, "vocab_size": 32768,
    },
    "6m": {
        "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
        "intermediate_size": 704, "vocab_size": 8192,
    },
    "tiny": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 64, "vocab_size": 512,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Rollouts:
    """Prompts, each with its completions: `completions[p][g]` belongs to `prompts[p]`."""

    prompts: list[list[int]]
    completions: list[list[list[int]]]
    log_prob: float  # of every token: uniform over the vocabulary, as with random weights

    @property
    def lengths(self) -> torch.Tensor:
        return torch.tensor([len(ids) for group in self.completions for ids in group])

    def dataset(self) -> Dataset:
        return Dataset.from_dict({"prompt": [str(number) for number in range(len(self.prompts))]})

    def sampler(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """TRL's `rollout_func`: the stored completions of each prompt, in their order."""
        seen: dict[str, int] = {}
        output: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "logprobs": []}
        for prompt in prompts:
            copy = seen[prompt] = seen.get(prompt, -1) + 1
            ids = self.completions[int(prompt)][copy]
            output["prompt_ids"].append(self.prompts[int(prompt)])
            output["completion_ids"].append(ids)
            output["logprobs"].append([self.log_prob] * len(ids))
        return output


def make_rollouts(
    num_prompts: int, group_size: int, limit: int, vocabulary: int, *, prompt_tokens: tuple[int, int], seed: int = 0
) -> Rollouts:
    """Log-normal lengths with a mean of a third of the limit; groups share beginnings and endings."""
    generator = torch.Generator().manual_seed(seed)

    def tokens(count: int) -> list[int]:
        return torch.randint(UNK + 1, vocabulary, (count,), generator=generator).tolist()

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    spread = 0.6
    noise = torch.randn(num_prompts * group_size, generator=generator) * spread
    lengths = (noise + math.log(limit / 3) - spread**2 / 2).exp().round().long().clamp(min(8, limit), limit)
    lengths[0] = limit  # at least one is truncated, so padding reaches the limit
    prompts: list[list[int]] = []
    completions: list[list[list[int]]] = []
    for number in range(num_prompts):
        opening, ending = tokens(6), tokens(3)
        prompts.append(tokens(integer(*prompt_tokens)))
        group: list[list[int]] = []
        for copy in range(group_size):
            length = int(lengths[number * group_size + copy])
            start, stop = opening[: integer(0, 6)], ending[integer(0, 3) :]
            ids = (start + tokens(limit))[: max(0, length - len(stop) - 1)] + stop + [EOS]
            group.append((start + tokens(limit))[:length] if length == limit else ids)
        completions.append(group)
    return Rollouts(prompts, completions, -math.log(vocabulary))


def token_reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """1 for half of the completions: takes no time, and few groups are tied."""
    return [float(sum(ids[:8]) % 2) for ids in completion_ids]


def save_model(folder: Path, shape: str, vocabulary: int | None = None) -> str:
    """A Qwen2 with random weights and tied embeddings, and a tokenizer of the same size; bf16 on a GPU."""
    settings: dict[str, Any] = {**SHAPES[shape], "max_position_embeddings": 8192, "tie_word_embeddings": True}
    settings["vocab_size"] = vocabulary or settings["vocab_size"]
    config = Qwen2Config(**settings, pad_token_id=PAD, eos_token_id=EOS, bos_token_id=None)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen2ForCausalLM(config)
    model.to(torch.bfloat16 if torch.cuda.is_available() else torch.float32)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = EOS, PAD
    model.save_pretrained(folder)
    make_tokenizer(settings["vocab_size"]).save_pretrained(folder)
    return str(folder)


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    words = {"<pad>": PAD, "<eos>": EOS, "<unk>": UNK, **{f"w{number}": number for number in range(3, vocabulary)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


class SamplerStandIn:
    """The method of TRL's VLLMGeneration that the trainer calls when a `rollout_func` samples."""

    def sync_weights(self) -> None:
        pass


def pretend_vllm(trainer: Any) -> None:
    """Make TRL assume that vLLM sampled, so that it corrects for the log-probs of the sampler."""
    trainer.use_vllm, trainer._last_loaded_step, trainer.vllm_generation = True, -1, SamplerStandIn()


def replace_vllm() -> None:
    """Replace vLLM by random completions behind TRL's interface to it, for the rest of the process."""

    def generate(self: Any, prompts: list[list[int]], *_: Any, **__: Any) -> tuple[Any, ...]:
        vocabulary, limit = self.model.config.vocab_size, self.max_completion_length
        lengths = torch.randint(2, limit + 1, (len(prompts),)).tolist()
        ids = [torch.randint(UNK + 1, vocabulary, (length,)).tolist() for length in lengths]
        return prompts, ids, [[[-math.log(vocabulary)]] * length for length in lengths], None

    prepare.is_vllm_available = lambda: True
    VLLMGeneration._init_vllm = VLLMGeneration.sync_weights = lambda self: None
    VLLMGeneration.generate = generate
    LeanGeneration.adopt = lambda generation: None
