"""Runs with different settings are not taken for seeds of the same variant."""

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


def test_seeds_of_one_variant_keep_the_methods_name(tmp_path):
    same = [make(tmp_path, seed, f"learning_rate: 1e-6\nseed: {seed}\noutput_dir: runs/{seed}\n") for seed in (1, 2)]
    assert methods(*same) == ["gtpo", "gtpo"]


def test_the_name_has_the_settings_that_differ(tmp_path):
    weak = make(tmp_path, 1, "learning_rate: 1e-6\nconflict_positive_weight: '1'\n")
    plain = make(tmp_path, 1, "learning_rate: 1.0e-6\n")  # the same number, written differently
    other = make(tmp_path, 1, "learning_rate: 3e-6\nbeta: 1\n", method="grpo")
    assert methods(weak, plain, other) == ["gtpo, conflict_positive_weight 1", "gtpo", "grpo"]
    fast = make(tmp_path / "fast", 1, "learning_rate: 2e-6\n")
    assert methods(plain, fast) == ["gtpo, learning_rate 1e-06", "gtpo, learning_rate 2e-06"]


def test_in_an_ablation_each_variant_is_named_after_its_own_settings(tmp_path):
    common = "learning_rate: 1e-6\n"
    changes = ["", "a: 1\n", "b: 2\n", "c: 3\nd: 4\n", "e: 5\n"]
    made = [make(tmp_path / str(number), 1, common + change) for number, change in enumerate(changes)]
    fast = make(tmp_path, 1, "learning_rate: 2e-6\n")
    suffixes = ["", ", a 1", ", b 2", ", c 3, d 4", ", e 5", ", learning_rate 2e-06"]
    assert methods(*made, fast) == [f"gtpo{suffix}" for suffix in suffixes]


def test_variants_with_many_differences_are_numbered_and_seeds_stay_together(tmp_path):
    first, second = "a: 1\nb: 1\nc: 1\nd: 1\n", "a: 2\nb: 2\nc: 2\nd: 2\n"
    runs = [make(tmp_path / "A", seed, first) for seed in (1, 2)]
    others = [make(tmp_path / "B", seed, second) for seed in (1, 2)]  # folders of the same names
    assert methods(*runs, *others) == ["gtpo, settings 1"] * 2 + ["gtpo, settings 2"] * 2


def test_a_run_without_readable_settings_keeps_its_name(tmp_path):
    broken, text = make(tmp_path, 1, "a: [1"), make(tmp_path, 1, "words only")
    assert methods(broken, text, make(tmp_path, 1, "a: 1\n\n")) == ["gtpo"] * 3


def test_a_run_is_named_after_its_credit_scheme_and_told_apart_by_its_parameters(tmp_path):
    plain, same = make(tmp_path, 1, "credit: gtpo\n"), make(tmp_path / "default", 1, "")
    balanced = make(tmp_path / "balanced", 1, "credit: balanced\n")
    wide = make(tmp_path / "wide", 1, "credit: prefix_baseline\ncredit_parameters: {kappa: 8}\n")
    tight = make(tmp_path / "tight", 1, "credit: prefix_baseline\ncredit_parameters: '{\"kappa\": 1}'\n")
    expected = [f"prefix_baseline, credit_parameters kappa={kappa}" for kappa in (8, 1)]
    assert methods(plain, same, balanced, wide, tight) == ["gtpo", "gtpo", "balanced", *expected]


def test_a_config_that_expands_without_end_is_read(tmp_path):
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    runs = [make(tmp_path / name, 1, laughs + f"lr: {name}\n") for name in ("1", "2")]
    assert methods(*runs) == ["gtpo, lr 1", "gtpo, lr 2"]
    huge = make(tmp_path / "3", 1, "a: 1\n" * 100_000)
    assert methods(huge) == ["gtpo"]
