"""Vision-language models: entropies are those of the policy that sees the images, and batches stay TRL's."""

import logging

import pytest
import torch
from datasets import Dataset
from PIL import Image
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from tests.tiny import tiny_model, tiny_tokenizer
from tests.trl.checked import CheckedTrainer, settings, train

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ' ' }}{% for part in m['content'] %}"
    "{{ '<image> ' if part['type'] == 'image' else part['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


def processor():
    """Images of 8 × 8 pixels are four tokens."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    images = CLIPImageProcessor(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8})
    return LlavaProcessor(
        images,
        tokenizer,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=CHAT_TEMPLATE,
    )


def vision_language_model():
    text = tiny_model()
    torch.manual_seed(0)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=8,
        patch_size=4,
        projection_dim=16,
    )
    model = LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text.config, image_token_index=62, image_seq_length=4)
    )
    model.generation_config = text.generation_config
    return model


def pictures(count=16):
    """Prompts of two lengths, each with an image of another colour."""
    prompts = [[{"role": "user", "content": "say red" if i % 2 else "say red : w1 w2"}] for i in range(count)]
    images = [[Image.new("RGB", (8, 8), (15 * i, 255 - 15 * i, 40 * (i % 7)))] for i in range(count)]
    return Dataset.from_dict({"prompt": prompts, "images": images})


OPTIONS = {"our own pass": {"entropy_filter": "all"}, "TRL's pass": {"num_iterations": 2}, "the update": {}}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_advantages_are_the_papers_with_images(options, tmp_path, caplog):
    model, chosen = vision_language_model(), settings(tmp_path, max_steps=2, record_every=1, **options)
    projector = model.get_parameter("model.multi_modal_projector.linear_1.weight")
    before = projector.clone()
    with caplog.at_level(logging.WARNING):
        trainer = train(model, dataset=pictures(), processing_class=processor(), **chosen)
    assert trainer.passes == (trainer.checks if options else 0)
    assert trainer.checks >= 1
    assert min(trainer.seen[name] for name in ("kept", "filtered", "conflict")) > 0
    assert not projector.equal(before)
    assert (tmp_path / "groups.jsonl").exists()
    padded = [record.message for record in caplog.records if "keep their padding" in record.message]
    assert padded == ["Batches keep their padding: the model takes images."]


def test_trimming_leaves_batches_with_images_alone(tmp_path):
    class Watched(CheckedTrainer):
        def _compute_loss(self, model, inputs):
            widths.append(inputs["completion_ids"].shape)
            assert len(inputs["pixel_values"]) == len(inputs["completion_ids"])
            return super()._compute_loss(model, inputs)

    shapes, logged = [], []
    for trims in (True, False):
        widths: list = []
        options = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "trim_batches": trims}
        chosen = settings(tmp_path, max_steps=2, record_groups=0, **options)
        trainer = train(
            vision_language_model(), dataset=pictures(), processing_class=processor(), trainer=Watched, **chosen
        )
        shapes.append(widths)
        logged.append([(entry["loss"], entry["grad_norm"]) for entry in trainer.state.log_history if "loss" in entry])
    assert len(shapes[0]) == 4
    assert shapes[0] == shapes[1]
    assert logged[0] == [pytest.approx(values, rel=1e-4, abs=1e-6) for values in logged[1]]
