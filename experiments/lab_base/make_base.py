"""Train the lab's base model: `python -m experiments.lab_base.make_base --out DIR`. A seed gives the same weights.

The model first sees only careful demonstrations, until it can calculate. Then it learns the mixture of habits that it
ships with.
"""

import argparse
import random
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from experiments.lab_base.habits import SKILL, Habits, demonstrate
from experiments.lab_base.tokenizer import make_tokenizer
from gtpo.errors import require
from gtpo.problems.lab import train_stream
from gtpo.problems.problem import Problem

_PEAK_LEARNING_RATE = 3e-3
_FRAC_SKILL = 0.6
_CHUNK_ROWS = 16
_IGNORED = -100

_Row = tuple[list[int], list[int]]


def make_base(
    out: Path,
    *,
    num_steps: int = 2000,
    batch_size: int = 32,
    seed: int = 0,
    hidden_size: int = 128,
    num_layers: int = 4,
    on_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train a base model from scratch, write it to `out` and return the loss of each step.

    The weights depend only on the seed, the sizes, the number of torch threads and the machine.
    """
    require(num_steps >= 1, "num_steps", num_steps, "at least 1")
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer = make_tokenizer()
    model = new_model(tokenizer, hidden_size=hidden_size, num_layers=num_layers).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_PEAK_LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 50) * max(0.05, 1 - step / num_steps)
    )
    problems = train_stream(rng)
    losses: list[float] = []
    for step in range(num_steps):
        habits = SKILL if step < _FRAC_SKILL * num_steps else Habits()
        rows = _demonstrations(list(islice(problems, batch_size)), habits, tokenizer, rng)
        optimizer.zero_grad()
        loss = _backward(model, rows)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss)
        if on_step is not None:
            on_step(step, loss)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return losses


def new_model(tokenizer: PreTrainedTokenizerFast, *, hidden_size: int = 128, num_layers: int = 4) -> LlamaForCausalLM:
    """An untrained model for this tokenizer, initialized with torch's global random generator."""
    vocabulary = tokenizer.get_vocab()
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=-(-len(vocabulary) // 8) * 8,
            hidden_size=hidden_size,
            intermediate_size=7 * hidden_size // 2,
            num_hidden_layers=num_layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            pad_token_id=vocabulary["<pad>"],
            eos_token_id=vocabulary["<eos>"],
            bos_token_id=vocabulary["<bos>"],
        )
    )


def _demonstrations(
    problems: list[Problem], habits: Habits, tokenizer: PreTrainedTokenizerFast, rng: random.Random
) -> list[_Row]:
    """The token ids of prompts and completions, sorted by length."""
    prompts: list[list[int]] = tokenizer(
        [f"<bos><user>{problem.question}<assistant>" for problem in problems]
    ).input_ids
    targets: list[list[int]] = tokenizer(
        [f"{demonstrate(problem, habits, rng)}<eos>" for problem in problems]
    ).input_ids
    return sorted(zip(prompts, targets, strict=True), key=lambda row: len(row[0]) + len(row[1]))


def _backward(model: LlamaForCausalLM, rows: list[_Row]) -> float:
    """Backpropagate the mean loss over the tokens of the targets, and return that loss.

    Rows of similar length share a batch, which keeps padding short.
    """
    num_tokens = sum(len(target) for _, target in rows)
    loss = 0.0
    for start in range(0, len(rows), _CHUNK_ROWS):
        chunk = rows[start : start + _CHUNK_ROWS]
        input_ids = _padded([prompt + target for prompt, target in chunk], 0)
        labels = _padded([[_IGNORED] * len(prompt) + target for prompt, target in chunk], _IGNORED)
        logits = model(input_ids=input_ids).logits[:, :-1]
        part = cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED, reduction="sum")
        (part / num_tokens).backward()
        loss += part.item() / num_tokens
    return loss


def _padded(rows: list[list[int]], value: int) -> Tensor:
    """Pad on the right, where causal attention needs no mask."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def main(arguments: list[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.lab_base.make_base", description="Train the lab's base model."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model and its tokenizer to")
    parser.add_argument("--steps", type=int, default=2000, help="training steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and data (default: %(default)s)")
    options = parser.parse_args(arguments)

    def report(step: int, loss: float) -> None:
        if (step + 1) % 100 == 0:
            sys.stderr.write(f"step {step + 1}/{options.steps}  loss {loss:.3f}\n")

    make_base(options.out, num_steps=options.steps, seed=options.seed, on_step=report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
