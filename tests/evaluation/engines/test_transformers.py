"""Samples follow the policy at the sampling temperature and do not depend on their batch."""

import math
import shutil

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.engines import load_engine
from gtpo.evaluation.sampling import SamplingSettings, row_seed
from gtpo.problems.problem import encode_prompt
from tests.evaluation.answering import ANSWERS, WORDS, save_answering_model

PROMPT = [3, 4, 5]
STOPS = {1, *(WORDS.index(answer) for answer in ANSWERS)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_answering_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def engine(folder):
    return load_engine("transformers", folder)


@pytest.fixture(scope="module")
def policy(folder):
    """The same weights without the engine: from token ids to next-token logits."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def logits(ids):
        return model(torch.tensor([ids])).logits[0, -1].double()

    return logits


def settings(**changes):
    return SamplingSettings(**{"num_samples": 8, "max_new_tokens": 20} | changes)


def test_greedy_takes_the_most_likely_token_and_ignores_the_penalties_that_a_model_ships(engine, policy):
    (completion,) = engine.sample([PROMPT], [0], settings(num_samples=1))
    ids, entropies = list(PROMPT), []
    while len(entropies) < 20 and not (entropies and ids[-1] in STOPS):
        log_probs = policy(ids).log_softmax(-1)
        entropies.append(float(-(log_probs.exp() * log_probs).sum()))
        ids.append(int(log_probs.argmax()))
    assert completion.num_tokens == len(entropies)
    assert completion.truncated == (ids[-1] not in STOPS)
    assert completion.text.split() == [WORDS[i] for i in ids[len(PROMPT) :] if i > 1]
    assert completion.entropy == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)


def test_first_tokens_follow_the_policy_at_the_sampling_temperature(engine, policy):
    num_drawn = 4000
    drawn = engine.sample([PROMPT] * num_drawn, range(num_drawn), settings(max_new_tokens=1, temperature=0.7))
    counts = torch.zeros(len(WORDS), dtype=torch.float64)
    for completion in drawn:
        counts[WORDS.index(completion.text) if completion.text else 1] += 1
    probs = (policy(PROMPT) / 0.7).softmax(-1)
    # <pad>, <eos> and <unk> all decode to nothing, so they are counted together.
    counts[1], probs[1] = counts[:3].sum(), probs[:3].sum()
    expected = num_drawn * probs[[1, *range(3, len(WORDS))]]
    chi_square = float(((counts[[1, *range(3, len(WORDS))]] - expected) ** 2 / expected).sum())
    assert chi_square < 36.1  # 13 degrees of freedom, one in a thousand


def test_entropy_is_over_the_full_vocabulary_at_the_sampling_temperature_even_under_top_p(engine, policy):
    (completion,) = engine.sample([PROMPT], [3], settings(max_new_tokens=1, temperature=0.7, top_p=0.3))
    log_probs = (policy(PROMPT) / 0.7).log_softmax(-1)
    assert completion.entropy == pytest.approx(float(-(log_probs.exp() * log_probs).sum()), rel=1e-5)


def test_top_p_keeps_only_the_most_likely_tokens(engine, policy):
    probs, order = policy(PROMPT).softmax(-1).sort(descending=True)
    nucleus = {int(i) for i in order[: int((probs.cumsum(0) < 0.8).sum()) + 1]}
    drawn = engine.sample([PROMPT] * 300, range(300), settings(max_new_tokens=1, temperature=1.0, top_p=0.8))
    seen = {WORDS.index(completion.text) if completion.text else 1 for completion in drawn}
    assert seen - {1} == {i for i in nucleus if i >= 3}
    assert len(nucleus) < len(WORDS)


def test_a_sample_does_not_depend_on_its_batch(engine):
    prompts = [PROMPT, [3], [4, 5, 6, 7, 8, 9], [5, 5]] * 4
    seeds = [row_seed(0, 0, i) for i in range(16)]
    together = engine.sample(prompts, seeds, settings())
    alone = [engine.sample([prompt], [seed], settings())[0] for prompt, seed in zip(prompts, seeds, strict=True)]
    assert [c.text for c in together] == [c.text for c in alone]
    assert [c.num_tokens for c in together] == [c.num_tokens for c in alone]
    assert [c.entropy for c in together] == pytest.approx([c.entropy for c in alone], rel=1e-5)
    assert len({c.text for c in together}) > 4


def test_a_completion_ends_with_any_of_the_models_stop_tokens_or_is_truncated(engine):
    drawn = engine.sample([PROMPT] * 64, range(64), settings(max_new_tokens=4))
    for completion in drawn:
        words = completion.text.split()
        assert not set(ANSWERS) & set(words[:-1])
        if completion.truncated:
            assert completion.num_tokens == 4
            assert not set(ANSWERS) & set(words)
        elif set(ANSWERS) & set(words):
            assert len(words) <= completion.num_tokens <= 4
        else:
            assert len(words) < completion.num_tokens  # ended by <eos>, which is not decoded
    assert {completion.truncated for completion in drawn} == {True, False}


def test_cpu_runs_in_float32(engine):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert engine.model.dtype == torch.float32
    assert engine.description["dtype"] == "float32"


def test_the_digest_identifies_the_weights(engine, folder, tmp_path):
    other = load_engine("transformers", save_answering_model(tmp_path / "other", seed=1))
    copy = load_engine("transformers", save_answering_model(tmp_path / "copy"))
    assert other.description["weights"] != engine.description["weights"] == copy.description["weights"]


def test_a_folder_with_an_adapter_is_its_base_with_the_adapter(engine, folder, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(folder)
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapted.save_pretrained(tmp_path)
    engine.tokenizer.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = adapted(torch.tensor([PROMPT])).logits[0, -1].log_softmax(-1)
    loaded = load_engine("transformers", str(tmp_path))
    (completion,) = loaded.sample([PROMPT], [0], settings(num_samples=1, max_new_tokens=1))
    assert completion.entropy == pytest.approx(float(-(expected.exp() * expected).sum()), rel=1e-5)
    assert loaded.description["weights"] != engine.description["weights"]


def test_a_tokenizer_without_a_padding_token_is_padded_with_a_stop_token(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path / "model")
    bare = load_engine("transformers", str(tmp_path / "model"))
    assert bare.pad_id in STOPS
    short, _ = bare.sample([PROMPT[:1], PROMPT], [0, 1], settings())
    (alone,) = bare.sample([PROMPT[:1]], [0], settings())
    assert short.text == alone.text


def test_the_folder_of_a_run_stands_for_the_model_in_it(folder, engine, tmp_path):
    shutil.copytree(folder, tmp_path / "run" / "model")
    assert load_engine("transformers", str(tmp_path / "run")).description == engine.description


def test_weights_with_nan_are_refused(folder):
    broken = load_engine("transformers", folder)
    torch.nn.init.constant_(broken.model.lm_head.weight, math.nan)
    with pytest.raises(DataError, match="not finite"):
        broken.sample([PROMPT], [0], settings())


def test_a_prompt_uses_the_chat_template_or_else_plain_paragraphs(engine, tmp_path):
    messages = [{"role": "system", "content": "w1"}, {"role": "user", "content": "w2"}]
    assert encode_prompt(engine.tokenizer, messages) == [WORDS.index("w1"), WORDS.index("w2")]
    template = "{% for m in messages %}w7 {{ m['content'] }} {% endfor %}{% if add_generation_prompt %}w0{% endif %}"
    chat = load_engine("transformers", save_answering_model(tmp_path / "chat", chat_template=template))
    words = [WORDS[i] for i in encode_prompt(chat.tokenizer, messages)]
    assert words == ["w7", "w1", "w7", "w2", "w0"]
    without_system = [{"role": "system", "content": ""}, messages[1]]
    assert [WORDS[i] for i in encode_prompt(chat.tokenizer, without_system)] == ["w7", "w2", "w0"]


def test_a_chat_template_that_fails_is_refused_with_a_remedy(engine, tmp_path):
    template = "{{ raise_exception('System role not supported') }}"
    chat = load_engine("transformers", save_answering_model(tmp_path / "chat", chat_template=template))
    with pytest.raises(ConfigError, match=r"System role not supported.*set the system prompt to ''"):
        encode_prompt(chat.tokenizer, [{"role": "user", "content": "w1"}])


@pytest.mark.parametrize("model", ["/nowhere/at/all", "nobody/has-this-model", ""])
def test_a_model_that_does_not_exist_is_a_clear_error(model):
    with pytest.raises(ConfigError, match=r"cannot be loaded.*hub id, a folder"):
        load_engine("transformers", model)
