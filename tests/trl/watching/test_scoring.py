"""Which trainers can score a few completions by themselves."""

from types import SimpleNamespace

import pytest
from accelerate.utils import DistributedType

from gtpo.trl.watching.scoring import can_score

TEXT = {"prompt_ids": 0, "prompt_mask": 0, "completion_ids": 0, "completion_mask": 0, "advantages": 0, "tool_mask": 0}


@pytest.mark.parametrize(
    ("kind", "zero_stage", "extra", "expected"),
    [
        (DistributedType.NO, None, {}, True),
        (DistributedType.MULTI_GPU, None, {"old_per_token_logps": 0, "num_items_in_batch": 0}, True),
        (DistributedType.MULTI_CPU, None, {"importance_sampling_ratio": 0, "sampling_per_token_logps": 0}, True),
        (DistributedType.DEEPSPEED, 2, {}, True),
        (DistributedType.DEEPSPEED, 3, {}, False),
        (DistributedType.FSDP, None, {}, False),
        (DistributedType.NO, None, {"pixel_values": 0, "num_images": 0}, False),
        (DistributedType.NO, None, {"mm_token_type_ids": 0}, False),
    ],
)
def test_a_sharded_or_multimodal_model_is_not_scored(kind, zero_stage, extra, expected):
    plugin = None if zero_stage is None else SimpleNamespace(zero_stage=zero_stage)
    accelerator = SimpleNamespace(distributed_type=kind, state=SimpleNamespace(deepspeed_plugin=plugin))
    assert can_score(SimpleNamespace(accelerator=accelerator), TEXT | extra) == expected
