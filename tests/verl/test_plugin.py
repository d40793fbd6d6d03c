"""`import verl` registers GTPO without loading it, with and without TRL, and reports why if it cannot."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest.importorskip("verl")

import numpy as np
import torch
from verl.trainer.ppo.ray_trainer import compute_advantage

from gtpo import ConfigError
from verl import DataProto

ASK_FOR_TRAINER = "from verl.trainer.ppo.v1 import get_trainer_cls; get_trainer_cls('gtpo_sync')(None)"
ASK_FOR_ESTIMATOR = "from verl.trainer.ppo.core_algos import get_adv_estimator_fn; get_adv_estimator_fn('gtpo')()"


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


def test_each_name_is_registered_when_verl_loads_its_registry():
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


@pytest.mark.parametrize(
    ("ask", "module"), [(ASK_FOR_TRAINER, "jaxtyping"), (ASK_FOR_ESTIMATOR, "gtpo")], ids=["trainer", "estimator"]
)
def test_a_plug_in_that_cannot_load_raises_the_reason_and_the_remedy(ask, module, tmp_path):
    (tmp_path / f"{module}.py").write_text("raise ImportError('broken on purpose')")
    done = python(ask, path=tmp_path)
    assert done.returncode != 0
    last_line = done.stderr.strip().splitlines()[-1]
    assert "RuntimeError: GTPO is installed, but its plug-in for verl cannot be loaded" in last_line
    assert "broken on purpose" in last_line
    assert "pip install 'gtpo[verl]'" in last_line
    assert "ERROR" in done.stderr  # logged too, for users of other methods
    assert "Unknown trainer" not in done.stderr


def test_verl_works_where_gtpo_cannot_be_loaded(tmp_path):
    (tmp_path / "gtpo.py").write_text("raise ImportError('broken on purpose')")
    done = python("from verl.trainer.ppo.v1 import get_trainer_cls; get_trainer_cls('sync')", path=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_estimator_without_its_trainer_is_an_error_that_names_the_trainer():
    """Called as verl's older trainer (trainer.use_v1=False) and its other modes call it."""
    tensors = {"token_level_rewards": torch.ones(2, 3), "response_mask": torch.ones(2, 3)}
    data = DataProto.from_dict(tensors=tensors, non_tensors={"uid": np.array(["a", "a"], dtype=object)})
    with pytest.raises(ConfigError, match=r"trainer_mode=gtpo_sync, with trainer\.use_v1=True"):
        compute_advantage(data, adv_estimator="gtpo", config={})


PATCH_A_MODEL = """
import verl.models.transformers.monkey_patch as patches
from transformers import LlamaConfig, LlamaForCausalLM
from verl.utils.import_utils import is_trl_available

assert is_trl_available() is {has_trl} and not patches.is_trl_available()
config = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
patches.apply_monkey_patch(LlamaForCausalLM(config), use_remove_padding=False)
"""


def install_stand_in_for_trl(folder):
    """A TRL 1.16 without the class that verl patches."""
    (folder / "trl").mkdir()
    (folder / "trl" / "__init__.py").write_text("")
    (folder / "trl-1.16.0.dist-info").mkdir()
    (folder / "trl-1.16.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.16.0\n")


def test_a_worker_patches_its_model_without_trl():
    done = python("import sys; sys.modules['trl'] = None\n" + PATCH_A_MODEL.format(has_trl=False))
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_worker_patches_its_model_with_trl(tmp_path):
    install_stand_in_for_trl(tmp_path)
    done = python(PATCH_A_MODEL.format(has_trl=True), path=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_names_are_registered_with_trl(tmp_path):
    install_stand_in_for_trl(tmp_path)
    done = python(
        "import sys\n"
        "from verl.trainer.ppo.v1 import get_trainer_cls\n"
        "assert get_trainer_cls('gtpo_sync').__module__ == 'gtpo.verl.trainer'\n"
        "assert 'trl' not in sys.modules\n",
        path=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_without_the_plug_in_a_worker_fails_where_trl_is_installed(tmp_path):
    """When this fails, verl no longer needs the workaround in gtpo_verl_plugin."""
    install_stand_in_for_trl(tmp_path)
    code = PATCH_A_MODEL.partition("assert")[0] + "config" + PATCH_A_MODEL.partition("\nconfig")[2]
    done = python(code, path=tmp_path, VERL_USE_EXTERNAL_PLUGINS="none")
    assert "ImportError: cannot import name 'AutoModelForCausalLMWithValueHead' from 'trl'" in done.stderr
