"""A scheme as a user would write it, for tests that name it as package.module:function."""


def halved(inputs, share=0.5, exempt=None):
    return (1.0 if exempt else share) * inputs.advantages.unsqueeze(1).expand(inputs.completion_ids.shape)


def by_entropy(inputs):
    return inputs.token_entropy


by_entropy.needs = ("token_entropy",)
not_a_function = 3
