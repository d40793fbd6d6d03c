"""Runs that were set differently do not pass for seeds of one thing."""

from gtpo.runs.run import load_runs
from gtpo.runs.variants import name_variants
from tests.runs.making import make_run, rows


def make(folder, seed, config, method="gtpo"):
    path = make_run(folder / f"{method}-{len(config)}-seed{seed}", rows(3, accuracy=0.5), method=method, seed=seed)
    if config is not None:
        (path / "config.yaml").write_text(config)
    return path


def methods(*paths):
    return [run.method for run in name_variants(load_runs(paths))]


def test_seeds_of_one_thing_keep_its_name(tmp_path):
    same = [make(tmp_path, seed, f"learning_rate: 1e-6\nseed: {seed}\noutput_dir: runs/{seed}\n") for seed in (1, 2)]
    assert methods(*same) == ["gtpo", "gtpo"]


def test_what_differs_is_in_the_name(tmp_path):
    weak = make(tmp_path, 1, "learning_rate: 1e-6\nconflict_positive_weight: '1'\n")
    plain = make(tmp_path, 1, "learning_rate: 1.0e-6\n")  # the same number, written otherwise
    other = make(tmp_path, 1, "learning_rate: 3e-6\nbeta: 1\n", method="grpo")
    assert methods(weak, plain, other) == ["gtpo, conflict_positive_weight 1", "gtpo", "grpo"]
    fast = make(tmp_path / "fast", 1, "learning_rate: 2e-6\n")
    assert methods(plain, fast) == ["gtpo, learning_rate 1e-06", "gtpo, learning_rate 2e-06"]


def test_in_an_ablation_each_run_is_called_by_what_is_special_about_it(tmp_path):
    common = "learning_rate: 1e-6\n"
    changes = ["", "a: 1\n", "b: 2\n", "c: 3\nd: 4\n", "e: 5\n"]
    made = [make(tmp_path / str(number), 1, common + change) for number, change in enumerate(changes)]
    fast = make(tmp_path, 1, "learning_rate: 2e-6\n")
    assert methods(*made, fast) == [
        "gtpo", "gtpo, a 1", "gtpo, b 2", "gtpo, c 3, d 4", "gtpo, e 5", "gtpo, learning_rate 2e-06",
    ]  # fmt: skip


def test_many_differences_get_a_number_and_seeds_stay_together(tmp_path):
    first, second = "a: 1\nb: 1\nc: 1\nd: 1\n", "a: 2\nb: 2\nc: 2\nd: 2\n"
    one = [make(tmp_path / "A", seed, first) for seed in (1, 2)]
    two = [make(tmp_path / "B", seed, second) for seed in (1, 2)]  # folders of the same names
    assert methods(*one, *two) == ["gtpo, settings 1"] * 2 + ["gtpo, settings 2"] * 2


def test_a_run_without_readable_settings_keeps_its_name(tmp_path):
    broken, text = make(tmp_path, 1, "a: [1"), make(tmp_path, 1, "words only")
    assert methods(broken, text, make(tmp_path, 1, "a: 1\n\n")) == ["gtpo"] * 3
