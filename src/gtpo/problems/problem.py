"""A problem, and what trainers and models need from it: chat messages, data sets and token ids."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from gtpo.errors import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset

SYSTEM_PROMPT = """\
Respond in the following format:
<reasoning>
...
</reasoning>
<answer>
...
</answer>
Think about the problem between <reasoning> and </reasoning>, then give the final answer alone between <answer> and \
</answer>."""
"""The paper's instruction in our words: think between the reasoning tags, answer between the answer tags."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Problem:
    """A question and its final answer. `solution` is "" if none is published; `source` names the set and the row.

    The user's own data may have no answer (""), a prompt of several chat messages, whose last question is `question`,
    and a system prompt for each row. `others` holds the remaining columns, for reward functions and graders.
    """

    question: str
    answer: str
    source: str
    solution: str = ""
    subject: str | None = None
    level: int | None = None
    prompt: Sequence[dict[str, str]] | None = field(default=None, hash=False)
    system_prompt: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)


COLUMNS = tuple(column.name for column in fields(Problem) if column.name != "others")


def to_messages(problem: Problem, system_prompt: str | None = SYSTEM_PROMPT) -> list[dict[str, str]]:
    """The chat prompt of a problem. Its own system message or system prompt wins over `system_prompt`.

    Without a system message if `system_prompt` is None or "".

    >>> to_messages(Problem("2 + 3 = ?", "5", "mine"), "Be brief.")
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': '2 + 3 = ?'}]
    """
    messages = list(problem.prompt or [{"role": "user", "content": problem.question}])
    text = system_prompt if problem.system_prompt is None else problem.system_prompt
    has_system = any(message["role"] == "system" for message in messages)
    return messages if has_system or not text else [{"role": "system", "content": text}, *messages]


def to_dataset(problems: Iterable[Problem], system_prompt: str | None = SYSTEM_PROMPT) -> "Dataset":
    """A data set for TRL: `prompt` as chat messages, the fields of Problem except the question, and other columns.

    TRL passes the columns to reward functions as keyword arguments; `paper_reward` takes `answer`.
    """
    from datasets import Dataset, Features, Value

    texts = {name: Value("string") for name in ("answer", "source", "solution", "subject")}
    message = {"role": Value("string"), "content": Value("string")}
    features = Features({"prompt": [message], **texts, "level": Value("int64")})
    problems = list(problems)
    rows = [
        vars(problem) | {"prompt": to_messages(problem, system_prompt), "answer": problem.answer or None}
        for problem in problems
    ]
    dataset = Dataset.from_dict({name: [row[name] for row in rows] for name in features}, features=features)
    for name in dict.fromkeys(name for problem in problems for name in problem.others):
        values = [problem.others.get(name) for problem in problems]
        if name in features:  # some rows hold what the field cannot, such as a list of solutions
            values = [
                problem.others.get(name, None if row[name] == "" else row[name])
                for problem, row in zip(problems, rows, strict=True)
            ]
            dataset = dataset.remove_columns(name)
        try:
            dataset = dataset.add_column(name, values)
        except (ValueError, TypeError, OverflowError) as error:  # Arrow's errors derive from the first two
            logger.warning("The column %r does not reach rewards: its values do not fit a data set (%s).", name, error)
            continue
        if any(isinstance(value, dict | list) for value in values) and _has_new_keys(dataset[name][:], values):
            logger.warning(
                "The objects in the column %r have different keys: rewards get them with all keys, None where a row "
                "has none. Store them as JSON text to keep them as they are.",
                name,
            )
    return dataset


def _has_new_keys(stored: Any, given: Any) -> bool:
    """Whether Arrow has added keys: all objects of a column get the same ones."""
    if isinstance(stored, dict) and isinstance(given, dict):
        return stored.keys() != given.keys() or any(_has_new_keys(stored[key], given[key]) for key in stored)
    return isinstance(stored, list) and isinstance(given, list) and any(map(_has_new_keys, stored, given))


def encode_prompt(tokenizer: Any, messages: Sequence[dict[str, str]]) -> list[int]:
    """Token ids of the messages, by the chat template of the model, or as plain paragraphs if it has none."""
    filled = [message for message in messages if message["content"]]
    if not tokenizer.chat_template:
        return list(tokenizer("\n\n".join(message["content"] for message in filled))["input_ids"])
    try:
        text = tokenizer.apply_chat_template(filled, tokenize=False, add_generation_prompt=True)
    except Exception as error:
        raise ConfigError(
            f"The tokenizer's chat template refuses the prompt ({error}). Change the order or the roles of its "
            "messages. If it does not support system messages, set the system prompt to ''."
        ) from error
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def filter_by_length(
    problems: Sequence[Problem], tokenizer: Any, max_prompt_tokens: int, system_prompt: str | None = SYSTEM_PROMPT
) -> tuple[list[Problem], int]:
    """The problems whose encoded prompt has at most `max_prompt_tokens` tokens, and how many were dropped."""
    from tqdm.auto import tqdm

    kept: list[Problem] = []
    for problem in tqdm(problems, desc="measuring prompts", unit=" problems", disable=None):
        if len(encode_prompt(tokenizer, to_messages(problem, system_prompt))) <= max_prompt_tokens:
            kept.append(problem)
    num_dropped = len(problems) - len(kept)
    if num_dropped:
        logger.warning(
            "Dropped %d of %d problems longer than %d tokens.", num_dropped, len(problems), max_prompt_tokens
        )
    return kept, num_dropped
