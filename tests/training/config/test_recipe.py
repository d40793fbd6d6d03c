"""Recipes and the command line: layers, sections, and mistakes that are found without TRL."""

import os
import time

import pytest

from gtpo import ConfigError
from gtpo.training.config.recipe import load_recipe, parse_overrides
from gtpo.training.config.settings import check_settings, read_settings


def write_recipe(folder, text, name="recipe.yaml"):
    path = folder / name
    path.write_text(text)
    return path


WRONG = {
    "an unknown option": (
        "learning_rat: 1e-5",
        r"recipe\.yaml: gtpo has no option learning_rat\. Did you mean learning_rate\?",
    ),
    "an unknown option like no other": ("zzzzz: 1", r"gtpo has no option zzzzz\. `gtpo train --help-all` lists"),
    "an unknown option in a section": ("rl: {num_generation: 4}", "section rl: .* Did you mean num_generations"),
    "an option of other methods": (
        "method: sft\nnum_generations: 4",
        r"sft has no option num_generations\. It is one of gtpo and grpo: leave it out, or put it into a section",
    ),
    "TRL's name for the model": (
        "model_name_or_path: x/y",
        "model_name_or_path is not supported. It is called model here",
    ),
    "an unknown method": ("method: ppo", r"recipe\.yaml: method must be one of 'gtpo', 'grpo', 'sft', got 'ppo'"),
    "broken YAML": ("a: [1", r"recipe\.yaml cannot be read: .*line"),
    "a list": ("- a\n- b", "must be a mapping of option: value, got list"),
    "a section that is a number": ("rl: 5", "section rl must be a mapping"),
    "a base that does not exist": ("base: nowhere.yaml", r"nowhere\.yaml cannot be read: No such file"),
    "a circular base": ("base: recipe.yaml", r"Circular `base` in recipe\.yaml: recipe\.yaml → recipe\.yaml"),
    "two bases": ("base: [a.yaml, b.yaml]", "cannot be read: No such file"),
    "an option twice": ("seed: 1\nlearning_rate: 1e-6\nseed: 2", "duplicate key seed"),
    "an option twice in a section": ("gtpo: {beta: 1, beta: 2}", "duplicate key beta"),
    "a key that is not text": ("on: 5", "gtpo has no option True"),
    "a word for a number": (
        "held_out_problems: few",
        r"\.yaml: held_out_problems must be a whole number, got 'few'\.$",
    ),
    "a number for a word": ("problems: 5", "problems must be text, got 5"),
    "columns of a built-in set": ("columns: answer=truth", "`columns` only applies to data of your own"),
    "no held-out sample": ("held_out_samples: 0", r"recipe\.yaml: held_out_samples must be at least 1, got 0"),
    "no reward": ("rewards: []", "rewards must be at least one reward"),
    "LoRA without use_peft": ("lora_r: 8", r"recipe\.yaml: lora_r has no effect without use_peft: true"),
    "vLLM's option without vLLM": ("vllm_mode: server", "vllm_mode has no effect without use_vllm: true"),
    "TRL's way to resume": ("resume_from_checkpoint: x", "is not supported. Use `gtpo train --resume RUN`"),
    "weights without the optimizer": ("save_only_model: true", "cannot be resumed without its optimizer state"),
    "TRL's evaluation": ("eval_strategy: steps", "Use held_out and held_out_every to evaluate while training"),
    "a health check for SFT": ("method: sft\non_collapse: stop", "an SFT run has no health check"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_refused_with_its_place(text, message, tmp_path):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        read_settings(write_recipe(tmp_path, text), {})


def nested_aliases(levels):
    """Each level has nine aliases of the level before: 9 ** levels values."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels + 1))]
    return "\n".join(lines)


UNBOUNDED = {
    "a value that contains itself": ("model_init_kwargs: &a {x: *a}", "Circular reference detected"),
    "an endless number": ("seed: 0x" + "f" * 20_000, "Exceeds the limit"),
    "nested brackets": ("seed: " + "[" * 100_000, "more than 20 nested levels or 8 aliases"),
    "aliases of aliases": (nested_aliases(9), "more than 20 nested levels or 8 aliases"),
    "a device as its base": ("base: /dev/zero", "/dev/zero cannot be read: it is not a regular file"),
    "a pipe as its base": ("base: pipe", "pipe cannot be read: it is not a regular file"),
    "half a megabyte": ("# " + "x" * 2**19, "it is larger than 262,144 bytes"),
    "a base with a long name": (f"base: {'x' * 100_000}", "cannot be read: File name too long"),
    "a base with a NUL": ('base: "a\\0b"', "cannot be read: embedded null byte"),
    "a base that links to itself": ("base: loop", "cannot be read: "),
    "a date that does not exist": ("seed: 2001-99-99", "cannot be read: month must be in 1..12"),
    "a number of many digits": ("seed: " + "9" * 5000, "cannot be read: Exceeds the limit"),
    "a value of many digits": (f"problems: [{'7' * 4000}]", "problems must be text, got \\[7"),
    "a long name": (f"? {'x' * 100_000}\n: 1", "gtpo has no option xxx"),
}


@pytest.mark.parametrize(("text", "message"), UNBOUNDED.values(), ids=UNBOUNDED.keys())
def test_a_recipe_without_bounds_is_refused_in_a_short_sentence(text, message, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    start = time.monotonic()
    with pytest.raises(ConfigError, match=f"(?s){message}") as error:
        read_settings(write_recipe(tmp_path, text), {})
    assert len(str(error.value)) < 2_000
    assert time.monotonic() - start < 5


def test_a_long_chain_of_bases_is_refused(tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.yaml").write_text(f"base: {number + 1}.yaml")
    with pytest.raises(ConfigError, match=r"0\.yaml extends more than 10 recipes"):
        read_settings(tmp_path / "0.yaml", {})


HUB_CODE = {"trust_remote_code": "true", "attn_implementation": "nobody/kernel"}


@pytest.mark.parametrize(("name", "value"), HUB_CODE.items())
def test_code_of_a_model_or_the_hub_must_be_asked_for_on_the_command_line(name, value, tmp_path):
    recipe = write_recipe(tmp_path, f"rl: {{{name}: {value}}}")
    with pytest.raises(ConfigError, match=f"section rl: {name} runs code .* add --{name} {value} to the command"):
        read_settings(recipe, {})
    assert read_settings(recipe, parse_overrides([f"--{name}", value]))[name].value == value
    harmless = write_recipe(tmp_path, "trust_remote_code: false\nattn_implementation: sdpa")
    assert read_settings(harmless, {})["attn_implementation"].value == "sdpa"


def test_a_missing_recipe_and_one_that_is_not_text_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml cannot be read"):
        read_settings(tmp_path / "nowhere.yaml", {})
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml cannot be read: 'utf-8' codec"):
        read_settings(tmp_path / "binary.yaml", {})


def test_later_layers_win_and_sections_are_for_their_methods(tmp_path):
    base = "learning_rate: 1\nseed: 7\nrl: {temperature: 0.5}\ngtpo: {beta: 0.1}\nsft: {seed: 9}"
    write_recipe(tmp_path, base, "base.yaml")
    top = write_recipe(tmp_path, "base: base.yaml\nlearning_rate: 2\nmethod: grpo")
    values = {name: setting.value for name, setting in load_recipe(top).items()}
    assert values == {"learning_rate": 2, "seed": 7, "temperature": 0.5, "method": "grpo"}
    assert load_recipe(top, "sft")["seed"].value == 9
    assert load_recipe(top, "gtpo")["beta"].origin.endswith("base.yaml, section gtpo")


def test_an_option_that_an_anchor_merges_in_may_be_overridden(tmp_path):
    text = "rl: &rl {learning_rate: 1e-6, beta: 0.0}\ngtpo: &g {<<: *rl, beta: 0.1}\n<<: *g"
    assert load_recipe(write_recipe(tmp_path, text))["beta"].value == 0.1


def test_columns_may_be_a_mapping(tmp_path):
    path = write_recipe(tmp_path, "problems: mine.jsonl\ncolumns: {question: task, answer: truth, solution: null}")
    options = check_settings(read_settings(path, {}))
    assert options.columns_of("mine.jsonl") == {"question": "task", "answer": "truth"}
    for wrong in ("{question: yes}", "{question: [a]}", "{question: 'a,answer=b'}"):
        with pytest.raises(ConfigError, match=r"recipe\.yaml: columns must map names to names"):
            read_settings(write_recipe(tmp_path, f"problems: mine.jsonl\ncolumns: {wrong}"), {})


def test_epochs_override_the_steps_of_a_lower_layer(tmp_path):
    write_recipe(tmp_path, "max_steps: 9", "base.yaml")
    assert "max_steps" not in load_recipe(write_recipe(tmp_path, "base: base.yaml\nnum_train_epochs: 1"))
    by_epochs = read_settings(None, parse_overrides(["--num_train_epochs", "2"]))
    assert "max_steps" not in by_epochs
    both = read_settings(None, parse_overrides(["--num_train_epochs", "2", "--max_steps", "3"]))
    assert both["max_steps"].value == "3"


def test_the_command_line_has_flags_values_and_lists():
    words = "--learning_rate=3e-4 --num-generations 4 --use_peft --lora_target_modules q_proj v_proj"
    values = {name: setting.value for name, setting in parse_overrides(words.split()).items()}
    assert values == {
        "learning_rate": "3e-4",
        "num_generations": "4",
        "use_peft": True,
        "lora_target_modules": ["q_proj", "v_proj"],
    }
    with pytest.raises(ConfigError, match=r"'recipe\.yaml' is not an option"):
        parse_overrides(["recipe.yaml"])


def test_switching_vllm_off_on_the_command_line_drops_its_options_in_the_recipe(tmp_path):
    recipe = write_recipe(tmp_path, "rl: {use_vllm: true, vllm_mode: server}")
    assert "vllm_mode" not in read_settings(recipe, parse_overrides(["--use_vllm", "false"]))
    recipe = write_recipe(tmp_path, "rl: {use_vllm: false, vllm_mode: server}")
    with pytest.raises(ConfigError, match=r"section rl: vllm_mode has no effect without use_vllm: true"):
        read_settings(recipe, {})
