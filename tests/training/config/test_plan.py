"""Option values through TRL's parser: what is refused with its place, and what reaches the configuration."""

import pytest

from gtpo import ConfigError
from gtpo.training.config.plan import make_plan, plan_from
from gtpo.training.config.recipe import Setting, parse_overrides

WRONG = {
    "a wrong choice": ("rl: {loss_type: nonsense}", r"section rl: loss_type must be one of 'grpo', .*got 'nonsense'"),
    "a wrong type": ("rl: {num_generations: many}", r"section rl: num_generations='many': .*invalid int value"),
    "a wrong knob": ("gtpo: {entropy_filter: on_off}", r"section gtpo: entropy_filter must be one of"),
    "a refused option": ("gtpo: {loss_type: vespo}", r"section gtpo: loss_type='vespo': GTPO does not"),
    "no rows": (
        "per_device_train_batch_size: 0",
        r"recipe\.yaml: per_device_train_batch_size must be at least 1, got 0",
    ),
    "no rows for grpo": ("method: grpo\nper_device_train_batch_size: 0", r"recipe\.yaml: per_device_train_batch_size"),
    "no group for grpo": ("method: grpo\nnum_generations: 0", r"recipe\.yaml: num_generations must be at least 2"),
    "no step for sft": ("method: sft\nmax_steps: 0", "max_steps must be at least 1, or -1"),
    "a weight that is not finite for grpo": (
        "method: grpo\nreward_weights: [.inf]",
        r"recipe\.yaml: reward_weights must be finite numbers, got \[inf\]",
    ),
    "more weights than rewards": ("reward_weights: [1, 2]", "reward_weights has 2 numbers for 1 rewards"),
    "an unknown credit scheme": ("credit: fair", r"recipe\.yaml: credit='fair': There is no credit scheme 'fair'"),
    "an unknown parameter": (
        "credit: negative\ncredit_parameters: {kappa: 1}",
        r"'negative' has no parameter 'kappa'. Its parameters: positive_scale",
    ),
    "parameters that are no mapping": (
        "credit_parameters: kappa",
        r"recipe\.yaml: credit_parameters must be a mapping",
    ),
    "an adapter of rank 0": ("use_peft: true\nlora_r: 0", r"recipe\.yaml: lora_r must be at least 1"),
    "several learning rates": ("learning_rate: [1, 2]", r"recipe\.yaml: learning_rate takes one value, got \[1, 2\]"),
    "an option in a list": (
        'use_peft: true\nlora_target_modules: [q_proj, "--trust_remote_code=true"]',
        "lora_target_modules has a value that is an option, '--trust_remote_code=true'",
    ),
    "an impossible batch": (
        "per_device_train_batch_size: 7",
        r"^generation_batch_size \(7\) must be divisible by num_generations.*It is per_device_train_batch_size ×",
    ),
    "a tracker that is not installed": ("report_to: comet_ml", "report_to: CometCallback requires comet-ml"),
    "a tracker that does not exist": ("report_to: nonsense", "report_to: nonsense is not supported"),
}


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_refused_with_its_place(text, message, tmp_path):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        make_plan(tmp_path / "recipe.yaml", {})


def test_words_that_yaml_parses_as_false_keep_their_meaning(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("entropy_filter: off\nsave_strategy: no\neval_strategy: no")
    plan = make_plan(recipe, {})
    assert (plan.config.entropy_filter, plan.config.save_strategy) == ("off", "no")
    assert plan.settings["entropy_filter"] == "off"
    recipe.write_text("method: grpo\nscale_rewards: false")
    assert make_plan(recipe, {}).config.scale_rewards == "none"


@pytest.mark.parametrize("method", ["gtpo", "grpo", "sft"])
def test_every_step_is_logged_unless_the_recipe_says_otherwise(method):
    assert make_plan(None, parse_overrides(["--method", method])).config.logging_steps == 1
    chosen = ["--method", method, "--logging_steps", "5"]
    assert make_plan(None, parse_overrides(chosen)).config.logging_steps == 5


def test_the_labs_settings_do_not_apply_to_another_model():
    assert make_plan(None, parse_overrides(["--model", "lab"])).config.learning_rate == 2e-4
    other = make_plan(None, parse_overrides(["--model", "Qwen/Qwen2.5-0.5B-Instruct", "--problems", "gsm8k"])).config
    assert (other.learning_rate, other.max_completion_length, other.max_steps) == (1e-6, 512, -1)  # TRL's
    assert other.save_total_limit == 2


def test_the_command_line_overrides_the_recipe():
    words = "--learning_rate=3e-4 --num-generations 4 --use_peft --lora_target_modules q_proj v_proj"
    plan = make_plan(None, parse_overrides(words.split()))
    assert (plan.config.learning_rate, plan.config.num_generations, plan.config.max_steps) == (3e-4, 4, 80)
    assert plan.model_config.use_peft
    assert plan.model_config.lora_target_modules == ["q_proj", "v_proj"]


@pytest.mark.parametrize("words", ["format,correctness", "format correctness", "format,correctness,paper"])
def test_rewards_are_separated_by_commas_or_spaces(words):
    rewards = make_plan(None, parse_overrides(["--rewards", *words.split()])).options.rewards
    assert rewards == tuple(words.replace(",", " ").split())


def test_a_credit_scheme_and_its_parameters_come_from_the_command_line_and_from_a_recipe(tmp_path):
    words = ["--credit", "prefix_baseline", "--credit_parameters", '{"kappa": 2}']
    plan = make_plan(None, parse_overrides(words))
    (tmp_path / "recipe.yaml").write_text("gtpo: {credit: prefix_baseline, credit_parameters: {kappa: 2}}")
    for same in (plan, make_plan(tmp_path / "recipe.yaml", {}), plan_from(_settings_of(plan))):
        assert same.config.choose_credit().parameters == {"kappa": 2.0}
        assert same.config.credit == same.settings["credit"] == "prefix_baseline"


def test_a_credit_function_is_not_imported_before_it_may_be(tmp_path, monkeypatch):
    (tmp_path / "untrusted_credit.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    plan = make_plan(None, parse_overrides(["--credit", "untrusted_credit:f"]))
    with pytest.raises(ConfigError, match="cannot be imported: SystemExit"):
        plan.config.choose_credit()


def _settings_of(plan):
    return {name: Setting(value, "config.yaml") for name, value in plan.settings.items()}


def test_a_plan_can_be_made_again_from_its_settings():
    plan = make_plan(None, parse_overrides(["--seed", "5", "--rewards", "format", "--entropy_penalty", "0.2"]))
    again = plan_from(_settings_of(plan))
    assert (again.options, again.config.seed, again.config.entropy_penalty) == (plan.options, 5, 0.2)


def test_existing_paths_are_stored_as_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine.jsonl", "data", "gsm8k", "lab", "run/config.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch() if "." in name else (tmp_path / name).mkdir()
    words = "--model run --problems mine.jsonl --held_out gsm8k --data_dir data"
    settings = make_plan(None, parse_overrides(words.split())).settings
    assert settings["model"] == str(tmp_path / "run")
    assert settings["problems"] == str(tmp_path / "mine.jsonl")
    assert settings["held_out"] == "gsm8k"
    assert settings["data_dir"] == str(tmp_path / "data")
    settings = make_plan(None, {}).settings
    assert (settings["model"], settings["problems"]) == ("lab", "lab")


def test_the_default_folder_does_not_exist_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make_plan(None, {}).config.output_dir == "runs/lab-lab-gtpo-seed42"
    (tmp_path / "runs/lab-lab-gtpo-seed42").mkdir(parents=True)
    assert make_plan(None, {}).config.output_dir == "runs/lab-lab-gtpo-seed42-2"


@pytest.mark.parametrize("method", ["gtpo", "grpo", "sft"])
def test_trackers_and_bf16_are_off_on_a_cpu_unless_set(method):
    config = make_plan(None, parse_overrides(["--method", method, "--use_cpu"])).config
    assert config.report_to == []
    assert (config.bf16, config.dataloader_pin_memory) == (False, False)
