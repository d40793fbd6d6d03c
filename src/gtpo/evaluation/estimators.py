"""pass@k and maj@k from n ≥ k samples of one problem, both exact: averages over all subsets of k samples.

Nothing is simulated, so there is no seed. Counts are Python integers up to a single division at the end, and the
result is correctly rounded for any n.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from gtpo.errors import DataError, require


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """The probability that at least one of k samples is correct, drawn from n samples of which c are correct.

        pass@k = 1 − C(n − c, k) / C(n, k)

    This is an unbiased estimate of 1 − (1 − p)^k; 1 − (1 − c/n)^k is biased.

    Source: Chen et al., arXiv:2107.03374, section 2.1.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    _require_k(num_samples, k)
    require(0 <= num_correct <= num_samples, "num_correct", num_correct, f"from 0 to num_samples ({num_samples})")
    subsets = math.comb(num_samples, k)
    return (subsets - math.comb(num_samples - num_correct, k)) / subsets


def maj_at_k(answers: Sequence[str | None], is_correct: Sequence[bool], k: int) -> float:
    """The probability that the majority answer of k samples, drawn from n, is correct.

    This is the average over all C(n, k) subsets, each in the order of sampling. The answer with the most votes wins;
    a tie goes to the answer that occurs first. The winner is correct if `is_correct` is True at its first sample. None
    is a sample without an answer: it counts as one of the k but has no vote. A subset without votes is wrong. Answers
    are compared as strings, so merge those that mean the same first.

    >>> maj_at_k(["7", "7", "8"], [True, True, False], 3)
    1.0
    >>> maj_at_k(["8", "7", "7"], [False, True, True], 2)  # 8 wins {8, 7} twice, 7 wins {7, 7}
    0.3333333333333333
    """
    return maj_at_ks(answers, is_correct, [k])[0]


def maj_at_ks(answers: Sequence[str | None], is_correct: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """`maj_at_k` for several k at the cost of one.

    A generating function counts the subsets that a correct answer wins; the coefficient of x^k is the count for k.
    Let the winner's first sample be at p and let it have m votes, m − 1 of them from its a_p later samples. Any other
    answer i, with n_i samples of which a_i come after p, has fewer than m votes, or exactly m, all of them after p:

        W(x) = Σ_p Σ_m C(a_p, m−1) x^m · Π_i [ Σ_{t<m} C(n_i, t) x^t + C(a_i, m) x^m ] · (1 + x)^(without answer)

    Each polynomial is packed into one integer with x = 2^(n+1). No coefficient exceeds 2^n, so none overflows.
    """
    if len(answers) != len(is_correct):
        raise DataError(f"answers and is_correct differ in length: {len(answers)} and {len(is_correct)}.")
    for k in ks:
        _require_k(len(answers), k)
    shift = len(answers) + 1
    wins = _winning_subsets(answers, is_correct, shift)
    coefficient = (1 << shift) - 1
    return [((wins >> k * shift) & coefficient) / math.comb(len(answers), k) for k in ks]


def _winning_subsets(answers: Sequence[str | None], is_correct: Sequence[bool], shift: int) -> int:
    """W(x) of `maj_at_ks` at x = 2^shift."""
    size = Counter(answer for answer in answers if answer is not None)
    later = Counter(size)
    fewer = {answer: _partial_binomials(count, shift) for answer, count in size.items()}
    wins = 0
    for answer, right in zip(answers, is_correct, strict=True):
        if answer is None:
            continue
        later[answer] -= 1
        if not right:
            continue
        for votes in range(1, later[answer] + 2):
            rivals = [other for other, count in size.items() if other != answer and count >= votes]
            num_free = len(answers) - size[answer] - sum(size[other] for other in rivals)
            ways = (
                1 + (1 << shift)
            ) ** num_free  # samples that cannot outvote the winner, so any subset of them counts
            for other in rivals:
                ways *= fewer[other][votes] + (math.comb(later[other], votes) << votes * shift)
            wins += math.comb(later[answer], votes - 1) * ways << votes * shift
    return wins


def _partial_binomials(count: int, shift: int) -> list[int]:
    """Σ_{t<m} C(count, t) x^t for m = 0 … count."""
    return list(accumulate((math.comb(count, t) << t * shift for t in range(count)), initial=0))


def _require_k(num_samples: int, k: int) -> None:
    require(num_samples >= 1, "num_samples", num_samples, "at least 1")
    require(1 <= k <= num_samples, "k", k, f"from 1 to the number of samples ({num_samples})")
