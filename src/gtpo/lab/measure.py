"""What a policy does on the lab's held-out problems: `python -m gtpo.lab.measure [--model DIR]` prints it as JSON."""

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gtpo.errors import require
from gtpo.lab.model import lab_model_dir
from gtpo.problems.lab import lab_problems

_COMPLETE = re.compile(r"<reasoning>([^<>]+)</reasoning>\s*<answer>([^<>]+)</answer>\s*")
"""One reasoning pair, then one answer pair that ends the text, neither empty."""


def measure(
    model: Any,
    tokenizer: Any,
    *,
    num_problems: int = 256,
    num_samples: int = 16,
    temperature: float = 1.0,
    seed: int = 0,
    max_new_tokens: int = 96,
    batch_size: int = 512,
) -> dict[str, float]:
    """Accuracy (right answer in a complete format), pass@`num_samples`, format, entropy and length of what it samples.

    Entropy is that of the full vocabulary in nats, averaged over the tokens of each completion, then over
    completions. At temperature 0 there is one greedy sample a problem.
    """
    require(temperature >= 0, "temperature", temperature, "at least 0")
    num_samples = num_samples if temperature > 0 else 1
    problems = [problem for problem in lab_problems("test", num_problems) for _ in range(num_samples)]
    torch.manual_seed(seed)
    texts: list[str] = []
    entropies: list[float] = []
    lengths: list[int] = []
    for start in range(0, len(problems), batch_size):
        questions = [problem.question for problem in problems[start : start + batch_size]]
        for completion, entropy, length in _sample(model, tokenizer, questions, temperature, max_new_tokens):
            texts.append(completion)
            entropies.append(entropy)
            lengths.append(length)
    matches = [_COMPLETE.fullmatch(text) for text in texts]
    right = [
        match is not None and match[2].strip() == problem.answer
        for match, problem in zip(matches, problems, strict=True)
    ]
    groups = [right[start : start + num_samples] for start in range(0, len(right), num_samples)]
    num = len(texts)
    return {
        "accuracy": sum(right) / num,
        f"pass@{num_samples}": sum(map(any, groups)) / len(groups),
        "format": sum(match is not None for match in matches) / num,
        "entropy": sum(entropies) / num,
        "frac_above_ln2": sum(entropy > math.log(2) for entropy in entropies) / num,
        "length": sum(lengths) / num,
        "longest": max(lengths),
    }


@torch.no_grad()
def _sample(
    model: Any, tokenizer: Any, questions: list[str], temperature: float, max_new_tokens: int
) -> list[tuple[str, float, int]]:
    """Each completion with its mean entropy and its length, the end of sequence counted in."""
    prompts = tokenizer.apply_chat_template(
        [[{"role": "user", "content": question}] for question in questions],
        add_generation_prompt=True,
        padding=True,
        return_dict=True,
        return_tensors="pt",
    )
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature > 0 else {}
    output = model.eval().generate(
        input_ids=prompts["input_ids"],
        attention_mask=prompts["attention_mask"],
        max_new_tokens=max_new_tokens,
        return_dict_in_generate=True,
        output_logits=True,
        **(sampling or {"do_sample": False}),
    )
    ids = output.sequences[:, prompts["input_ids"].shape[1] :]
    logps = torch.log_softmax(torch.stack(output.logits, 1).float() / (temperature or 1.0), -1)
    entropy = -(logps.exp() * logps).sum(-1)
    is_end = (ids == tokenizer.eos_token_id).int()
    inside = is_end.cumsum(1) - is_end == 0
    means = (entropy * inside).sum(1) / inside.sum(1)
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return list(zip(texts, means.tolist(), inside.sum(1).tolist(), strict=True))


def main(arguments: list[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m gtpo.lab.measure", description="Measure a policy in the lab.")
    parser.add_argument("--model", type=Path, default=lab_model_dir(), help="model folder (default: the shipped base)")
    parser.add_argument("--samples", type=int, default=16, help="completions a problem (default: %(default)s)")
    parser.add_argument("--problems", type=int, default=256, help="held-out problems (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=1.0, help="0 is greedy (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampling (default: %(default)s)")
    options = parser.parse_args(arguments)
    result = measure(
        AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
        AutoTokenizer.from_pretrained(options.model),
        num_problems=options.problems,
        num_samples=options.samples,
        temperature=options.temperature,
        seed=options.seed,
    )
    sys.stdout.write(json.dumps({name: round(value, 4) for name, value in result.items()}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
