"""`import verl` makes GTPO known, at no cost to those who do not ask for it, and says so when it cannot."""

import os
import subprocess
import sys
from importlib.metadata import distributions, entry_points

import pytest

pytest.importorskip("verl")

import numpy as np
import torch
from verl.trainer.ppo.ray_trainer import compute_advantage

from gtpo import ConfigError
from verl import DataProto

ASK = "from verl.trainer.ppo.v1 import get_trainer_cls; get_trainer_cls('gtpo_sync')(None)"
ASK_ESTIMATOR = "from verl.trainer.ppo.core_algos import get_adv_estimator_fn; get_adv_estimator_fn('gtpo')()"


def python(code, *, path="", **environment):
    path = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_entry_point_is_declared():
    assert [point.value for point in entry_points(group="verl.plugins", name="gtpo")] == ["gtpo_verl_plugin"]


def test_names_come_with_the_registries_and_not_before():
    done = python(
        "import sys, verl\n"
        "assert 'gtpo_verl_plugin' in sys.modules and 'gtpo' not in sys.modules\n"
        "assert 'verl.trainer.ppo.v1' not in sys.modules\n"
        "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY\n"
        "assert 'gtpo' in ADV_ESTIMATOR_REGISTRY and 'gtpo.verl.trainer' not in sys.modules\n"
        "from verl.trainer.ppo.v1 import get_trainer_cls\n"
        "assert get_trainer_cls('gtpo_sync').__module__ == 'gtpo.verl.trainer'\n"
        "assert 'trl' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_importing_gtpo_does_not_import_verl():
    done = python("import sys, gtpo; assert not {'verl', 'ray', 'gtpo_verl_plugin'} & set(sys.modules)")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("ask", [ASK, ASK_ESTIMATOR], ids=["trainer", "estimator"])
def test_a_plug_in_that_cannot_load_says_why_and_what_to_install(ask, tmp_path):
    (tmp_path / "jaxtyping.py").write_text("raise ImportError('no jaxtyping here')")
    done = python(ask, path=tmp_path)
    assert done.returncode != 0
    last_line = done.stderr.strip().splitlines()[-1]
    assert "RuntimeError: GTPO is installed, but its plug-in for verl cannot be loaded" in last_line
    assert "no jaxtyping here" in last_line
    assert "pip install 'gtpo[verl]'" in last_line
    assert "ERROR" in done.stderr  # in the log too, for those who run something else
    assert "Unknown trainer" not in done.stderr


def test_verl_itself_goes_on_where_gtpo_is_broken(tmp_path):
    (tmp_path / "jaxtyping.py").write_text("raise ImportError('no jaxtyping here')")
    done = python("from verl.trainer.ppo.v1 import get_trainer_cls; get_trainer_cls('sync')", path=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_estimator_alone_names_the_trainer_it_needs():
    """As verl's older trainer (trainer.use_v1=False) and its other modes would call it."""
    tensors = {"token_level_rewards": torch.ones(2, 3), "response_mask": torch.ones(2, 3)}
    data = DataProto.from_dict(tensors=tensors, non_tensors={"uid": np.array(["a", "a"], dtype=object)})
    with pytest.raises(ConfigError, match=r"trainer_mode=gtpo_sync, with trainer\.use_v1=True"):
        compute_advantage(data, adv_estimator="gtpo", config={})


def test_a_worker_s_model_is_patched_although_trl_no_longer_has_what_verl_patches():
    assert [point.version for point in distributions(name="trl")] == ["1.16.0"]
    done = python(
        "import verl.models.transformers.monkey_patch as patches\n"
        "from verl.utils.import_utils import is_trl_available\n"
        "assert is_trl_available() and not patches.is_trl_available()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "config = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,\n"
        "                     num_attention_heads=2)\n"
        "patches.apply_monkey_patch(LlamaForCausalLM(config), use_remove_padding=False)\n"
    )
    assert done.returncode == 0, done.stderr[-3000:]
