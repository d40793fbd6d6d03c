"""Problem sets and an engine without a model, for tests that need neither torch nor transformers."""

import json
from pathlib import Path

from gtpo.evaluation.evaluate import no_progress, sample_problems
from gtpo.evaluation.sampling import SampledText, SamplingSettings
from gtpo.problems import load_problems


def save_problems(path: Path, answers: list[str]) -> str:
    lines = [json.dumps({"question": f"w{i % 8} w{i // 8 % 8}", "answer": answer}) for i, answer in enumerate(answers)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


class Parrot:
    """An engine that returns the given texts, in order."""

    def __init__(self, texts: list[str], entropy: float | None = 0.5) -> None:
        self.entropy = entropy
        self.tokenizer = _SpaceTokenizer()
        self.context_length = None
        self.description = {"engine": "parrot", "weights": "none", "dtype": "none"}
        self.texts = iter(texts)

    def sample(self, prompts, seeds, settings):
        texts = [next(self.texts) for _ in prompts]
        return [SampledText(text, len(text.split()), False, self.entropy) for text in texts]


class _SpaceTokenizer:
    chat_template = None

    def __call__(self, text):
        return {"input_ids": list(range(len(text.split())))}


def save_samples(path, problems, texts, *, num_samples=2, model="parrot", entropy=0.5):
    """Write the texts as the samples of `model`; `problems` is a file of `save_problems`."""
    settings = SamplingSettings(num_samples=num_samples)
    engine, problems = Parrot(texts, entropy), load_problems(problems)
    sample_problems(engine, model, "toy", problems, settings, path, batch_size=4, progress=no_progress)
    return path
