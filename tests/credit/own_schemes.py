"""A scheme as a user would write it, for tests that name it as package.module:function."""


def halved(inputs, share=0.5, exempt=None):
    return (1.0 if exempt else share) * inputs.advantages.unsqueeze(1).expand(inputs.completion_ids.shape)


def by_entropy(inputs):
    return inputs.token_entropy


by_entropy.needs = ("token_entropy",)
not_a_function = 3


def fails_on_long_rows(inputs):
    if inputs.completion_ids.shape[1] > 3:
        raise KeyError("no such row")
    return inputs.advantages.unsqueeze(1).expand(inputs.completion_ids.shape)


def fails(inputs):
    raise ZeroDivisionError("always")


def every_input(inputs):
    """Mixes every input over the groups, for tests of what a host passes."""
    of_group = [
        inputs.rewards[inputs.group_ids == group].sum() * (inputs.completion_ids[inputs.group_ids == group] % 7).sum()
        for group in inputs.group_ids
    ]
    by_token = inputs.token_entropy + inputs.token_logps + inputs.token_component
    total = sum(of_group) / len(of_group) * 1e-3 + inputs.initial_entropy + 2 * inputs.batch_entropy
    return by_token + inputs.component_advantages.sum(1, keepdim=True) + total


every_input.needs = (
    "rewards",
    "component_advantages",
    "token_component",
    "token_entropy",
    "token_logps",
    "initial_entropy",
    "batch_entropy",
)
