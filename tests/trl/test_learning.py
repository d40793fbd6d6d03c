"""A seeded run on a random tiny model learns a format and the right word, with a reward for each."""

from datasets import Dataset

from gtpo import GTPOTrainer
from tests.tiny import save_tiny_model
from tests.trl.checked import settings, train

COLOURS = ["red", "blue"]


def has_the_tag(completions, **kwargs):
    return [10.0 * ("<a>" in text.split()) for text in completions]


def says_the_colour(completions, colour, **kwargs):
    return [10.0 * (wanted in text.split()) for text, wanted in zip(completions, colour, strict=True)]


def test_the_reward_rises_for_the_format_and_for_the_answer(tmp_path):
    save_tiny_model(tmp_path / "flat", initializer_range=0.1)
    dataset = Dataset.from_dict({"prompt": [f"say {c} :" for c in COLOURS] * 32, "colour": COLOURS * 32})
    options = settings(
        tmp_path,
        per_device_train_batch_size=128,
        num_generations=32,
        max_completion_length=4,
        max_steps=80,
        top_k=0,
        learning_rate=5e-3,
        max_grad_norm=1.0,
        initial_entropy=None,
        trainer=GTPOTrainer,
    )
    trainer = train(str(tmp_path / "flat"), [has_the_tag, says_the_colour], dataset, **options)
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]

    def mean(name, entries):
        return sum(entry[f"rewards/{name}/mean"] for entry in entries) / len(entries)

    assert mean("has_the_tag", logs[:3]) < 3
    assert mean("has_the_tag", logs[-5:]) > 9.5
    assert mean("says_the_colour", logs[:3]) < 1
    assert mean("says_the_colour", logs[-5:]) > 3
