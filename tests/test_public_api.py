"""The public API cannot change by accident."""

import inspect
import subprocess
import sys

import gtpo

SIGNATURES = {
    "conflict_mask": "completion_ids completion_mask advantages group_ids edges match valid",
    "completion_entropy": "token_entropy loss_mask",
    "entropy_filter": "entropy advantages initial_entropy threshold mode",
    "shape_advantages": (
        "completion_ids completion_mask advantages token_entropy group_ids initial_entropy loss_mask valid config"
    ),
    "ShapingConfig": (
        "conflict_edges conflict_match conflict_positive_weight conflict_negative_weight entropy_filter "
        "entropy_threshold entropy_penalty entropy_penalty_center entropy_penalty_relative"
    ),
    "watch": "trainer on_collapse record_groups record_every texts",
}


def test_all_is_sorted_and_every_name_in_it_exists():
    assert gtpo.__all__ == sorted(gtpo.__all__)
    assert all(hasattr(gtpo, name) for name in gtpo.__all__)
    assert not hasattr(gtpo, "GTPOOptimizer")


def test_parameters_keep_their_names_and_order():
    for name, parameters in SIGNATURES.items():
        assert list(inspect.signature(getattr(gtpo, name)).parameters) == parameters.split()


def test_credit_is_a_module_of_gtpo_and_keeps_its_names(monkeypatch):
    monkeypatch.delattr(gtpo, "credit", raising=False)
    credit = gtpo.credit
    assert credit.__all__ == ["SCHEMES", "CreditInput", "Scheme", "find_scheme", "token_advantages"]
    assert list(inspect.signature(credit.token_advantages).parameters) == ["scheme", "inputs", "parameters"]
    fields = inspect.signature(credit.CreditInput).parameters.values()
    assert " ".join(field.name for field in fields if field.kind is not field.KEYWORD_ONLY) == (
        "completion_ids completion_mask advantages group_ids"
    )
    assert " ".join(field.name for field in fields if field.kind is field.KEYWORD_ONLY) == (
        "loss_mask valid rewards component_advantages token_component token_entropy token_logps initial_entropy "
        "batch_entropy"
    )


def test_gtpo_config_has_the_options_of_shaping_with_the_same_defaults():
    shaping, config = gtpo.ShapingConfig(), gtpo.GTPOConfig("unused")
    for name in SIGNATURES["ShapingConfig"].split():
        assert getattr(config, name) == getattr(shaping, name)
    assert config.shaping == shaping


def test_importing_gtpo_loads_torch_and_nothing_heavier():
    code = "import sys, gtpo; sys.stdout.write(' '.join(set(sys.argv[1:]) & set(sys.modules)))"
    heavy = ["trl", "transformers", "accelerate", "datasets", "peft", "matplotlib", "math_verify", "rich"]
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == ""
