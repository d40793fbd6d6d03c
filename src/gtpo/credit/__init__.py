"""Token-level credit for GRPO: a scheme is a pure function from groups of completions to one advantage per token.

input       what every scheme gets
schemes     the schemes by name, and the function that applies one
choice      a scheme with its parameters, checked, for a host
metrics     what a host logs
sets        completions of a group that share tokens

Each of the other files holds the scheme it is named after. None of them does I/O, logs or keeps state.
"""

from gtpo.credit.input import CreditInput
from gtpo.credit.schemes import SCHEMES, Scheme, find_scheme, token_advantages

__all__ = ["SCHEMES", "CreditInput", "Scheme", "find_scheme", "token_advantages"]
