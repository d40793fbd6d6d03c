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


def forgets_needs(inputs):
    return inputs.advantages.unsqueeze(1) * inputs.token_entropy


def fails(inputs):
    raise ZeroDivisionError("always")


def every_input(inputs):
    """Mixes every input over the groups, for tests of what a host passes."""
    mine = inputs.group_ids.unsqueeze(1) == inputs.group_ids
    tokens = (inputs.completion_ids % 7 * inputs.completion_mask).sum(1)
    of_group = (mine * inputs.rewards * tokens).sum(1, keepdim=True) / 100
    by_token = inputs.token_entropy + inputs.token_logps + inputs.token_component
    by_row = inputs.component_advantages.sum(1, keepdim=True) + of_group
    return (by_token + by_row + inputs.initial_entropy + 2 * inputs.batch_entropy) / 10


every_input.needs = (
    "rewards",
    "component_advantages",
    "token_component",
    "token_entropy",
    "token_logps",
    "initial_entropy",
    "batch_entropy",
)
