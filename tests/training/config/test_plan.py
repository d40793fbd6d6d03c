"""Wrong recipes and options: one sentence that names the place, the option, the value and the way out."""

from pathlib import Path

import pytest

from gtpo import ConfigError
from gtpo.training.config.plan import make_plan, plan_from
from gtpo.training.config.recipe import Setting, load_recipe, parse_overrides


def recipe(tmp_path, text, name="recipe.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


WRONG = {
    "an unknown option": (
        "learning_rat: 1e-5",
        r"recipe\.yaml: there is no option learning_rat\. Did you mean learning_rate\?",
    ),
    "a wrong choice": ("rl: {loss_type: nonsense}", r"section rl: loss_type must be one of grpo, .*got 'nonsense'"),
    "a wrong type": ("rl: {num_generations: many}", r"section rl: num_generations: 'many': .*invalid int value"),
    "a wrong knob": ("gtpo: {entropy_filter: on_off}", r"entropy_filter: 'on_off': .*must be one of"),
    "a refused option": ("gtpo: {scale_rewards: group}", r"scale_rewards: 'group': GTPO does not support"),
    "another method's option": (
        "sft: {}\nmethod: sft\nnum_generations: 4",
        "is an option of gtpo and grpo, not of sft",
    ),
    "trl's name for the model": ("model_name_or_path: x/y", "model_name_or_path is called model here"),
    "an unknown method": ("method: ppo", r"method must be one of 'gtpo', 'grpo', 'sft', got 'ppo'"),
    "broken yaml": ("a: [1", r"is not valid YAML: .*line"),
    "no mapping": ("- a\n- b", "must be a mapping of option: value, got list"),
    "a section that is none": ("rl: 5", "section rl must be a mapping"),
    "a base that is not there": ("base: nowhere.yaml", r"nowhere\.yaml cannot be read: No such file"),
    "an option twice": ("seed: 1\nlearning_rate: 1e-6\nseed: 2", "seed stands there twice"),
    "an option twice in a section": ("gtpo: {beta: 1, beta: 2}", "beta stands there twice"),
    "a key that is no text": ("on: 5", "True is no option: YAML reads it as bool"),
    "two bases": ("base: [a.yaml, b.yaml]", "base must be the name of a file"),
    "no rows": (
        "per_device_train_batch_size: 0",
        "recipe.yaml: per_device_train_batch_size must be at least 1",
    ),
    "no group": ("num_generations: 1", "num_generations must be at least 2"),
    "no step": ("max_steps: 0", "max_steps must be at least 1, or -1"),
    "a negative seed": ("seed: -1", "seed must be a finite number, at least 0"),
    "an adapter of no rank": ("use_peft: true\nlora_r: 0", "lora_r must be at least 1"),
    "a weight that is none": ("reward_weights: [.nan]", "reward_weights.*must be finite numbers, got"),
    "a weight that is none for grpo": (
        "method: grpo\nreward_weights: [.inf]",
        r"recipe\.yaml: reward_weights must be finite numbers, got \[inf\]",
    ),
    "a greedy policy": ("temperature: 0", "temperature must be a finite number above 0"),
    "a learning rate that is none": ("learning_rate: .nan", "learning_rate must be a finite number"),
    "several learning rates": ("learning_rate: [1, 2]", "learning_rate must be a finite number"),
    "a beta of adam's": ("adam_beta2: 5", "adam_beta2 must be at least 0 and below 1"),
    "no epoch": ("num_train_epochs: 0", "num_train_epochs must be above 0"),
    "a reward that is not there": ("rewards: [nice]", "There is no reward 'nice'"),
    "a base that is itself": ("base: recipe.yaml", "rests on itself"),
    "a number that is none": ("held_out_problems: few", "held_out_problems must be a whole number, got 'few'"),
    "an impossible batch": (
        "per_device_train_batch_size: 7",
        r"^generation_batch_size \(7\) must be divisible by num_generations.*It is per_device_train_batch_size ×",
    ),
}


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_it_is_refused_with_one_clear_sentence(text, message, tmp_path):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        make_plan(recipe(tmp_path, text), {})


def test_words_that_yaml_reads_as_false_are_taken_as_they_stand(tmp_path):
    plan = make_plan(recipe(tmp_path, "entropy_filter: off\nsave_strategy: no\neval_strategy: no"), {})
    assert (plan.config.entropy_filter, plan.config.save_strategy) == ("off", "no")
    assert plan.settings["entropy_filter"] == "off"  # as the command line writes it
    plan = make_plan(recipe(tmp_path, "method: grpo\nscale_rewards: false"), {})
    assert plan.config.scale_rewards == "none"


def test_a_missing_recipe_is_named():
    with pytest.raises(ConfigError, match=r"nowhere\.yaml cannot be read"):
        make_plan(Path("nowhere.yaml"), {})


def test_abbreviations_are_not_taken():
    with pytest.raises(
        ConfigError, match=r"command line: there is no option learning_rat\. Did you mean learning_rate\?"
    ):
        make_plan(None, parse_overrides(["--learning_rat", "1e-5"]))


def test_later_layers_win_and_sections_are_for_their_methods(tmp_path):
    recipe(
        tmp_path, "learning_rate: 1\nseed: 7\nrl: {temperature: 0.5}\ngtpo: {beta: 0.1}\nsft: {seed: 9}", "base.yaml"
    )
    top = recipe(tmp_path, "base: base.yaml\nlearning_rate: 2\nmethod: grpo")
    values = {name: setting.value for name, setting in load_recipe(top).items()}
    assert values == {"learning_rate": 2, "seed": 7, "temperature": 0.5, "method": "grpo"}
    assert load_recipe(top, "sft")["seed"].value == 9
    assert load_recipe(top, "gtpo")["beta"].origin.endswith("base.yaml, section gtpo")


def test_what_is_merged_in_by_an_anchor_may_be_overridden(tmp_path):
    text = "rl: &rl {learning_rate: 1e-6, beta: 0.0}\ngtpo: &g {<<: *rl, beta: 0.1}\n<<: *g"
    assert load_recipe(recipe(tmp_path, text))["beta"].value == 0.1


def test_epochs_take_away_the_steps_of_a_layer_below(tmp_path):
    assert make_plan(None, {}).config.max_steps == 80
    by_epochs = make_plan(None, parse_overrides(["--num_train_epochs", "2"])).config
    assert (by_epochs.max_steps, by_epochs.num_train_epochs) == (-1, 2)
    assert make_plan(None, parse_overrides(["--num_train_epochs", "2", "--max_steps", "3"])).config.max_steps == 3
    recipe(tmp_path, "max_steps: 9", "base.yaml")
    assert "max_steps" not in load_recipe(recipe(tmp_path, "base: base.yaml\nnum_train_epochs: 1"))


def test_the_labs_settings_are_not_for_a_model_of_ones_own():
    assert make_plan(None, parse_overrides(["--model", "lab"])).config.learning_rate == 2e-4
    mine = make_plan(None, parse_overrides(["--model", "Qwen/Qwen2.5-0.5B-Instruct", "--problems", "gsm8k"])).config
    assert (mine.learning_rate, mine.max_completion_length, mine.max_steps) == (1e-6, 512, -1)  # TRL's
    assert mine.save_total_limit == 2


def test_the_command_line_has_the_last_word():
    arguments = [
        "--learning_rate=3e-4",
        "--num-generations",
        "4",
        "--use_peft",
        "--lora_target_modules",
        "q_proj",
        "v_proj",
    ]
    plan = make_plan(None, parse_overrides(arguments))
    assert (plan.config.learning_rate, plan.config.num_generations) == (3e-4, 4)
    assert plan.model_config.use_peft
    assert plan.model_config.lora_target_modules == ["q_proj", "v_proj"]


def test_a_stray_word_is_not_swallowed():
    with pytest.raises(ConfigError, match=r"'recipe\.yaml' is not an option"):
        parse_overrides(["recipe.yaml"])


def test_what_was_resolved_can_be_read_back():
    plan = make_plan(None, parse_overrides(["--seed", "5", "--rewards", "format", "--entropy_penalty", "0.2"]))
    again = plan_from({name: Setting(value, "config.yaml") for name, value in plan.settings.items()})
    assert (again.options, again.config.seed, again.config.entropy_penalty) == (plan.options, 5, 0.2)


def test_trackers_are_off_unless_asked_for():
    assert make_plan(None, {}).config.report_to == []
