"""pass@k and maj@k from n ≥ k samples of one problem, both exact: averages over every subset of k samples.

Neither is a simulation. Counts stay Python integers up to the one division at the end, so that the value is the
correctly rounded one for any n, and there is no seed to choose.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from gtpo.errors import DataError, require


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """The chance that at least one of k samples, drawn from n of which c are right, is right.

        pass@k = 1 − C(n − c, k) / C(n, k)

    It is the unbiased estimate of 1 − (1 − p)^k, which 1 − (1 − c/n)^k is not.

    Source: Chen et al., arXiv:2107.03374, section 2.1.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    _require_k(num_samples, k)
    require(0 <= num_correct <= num_samples, "num_correct", num_correct, f"from 0 to num_samples ({num_samples})")
    subsets = math.comb(num_samples, k)
    return (subsets - math.comb(num_samples - num_correct, k)) / subsets


def maj_at_k(answers: Sequence[str | None], is_correct: Sequence[bool], k: int) -> float:
    """The chance that the majority answer of k samples, drawn from n, is right.

    The average over all C(n, k) subsets, each read in the order of sampling. The answer with the most votes wins, the
    one seen first among equals; `is_correct` at the first sample of the winner says whether it is right. None is a
    sample without an answer: it takes a place among the k and has no vote, and a subset without votes is wrong.
    Answers are compared as strings: merge those that mean the same before.

    >>> maj_at_k(["7", "7", "8"], [True, True, False], 3)
    1.0
    >>> maj_at_k(["8", "7", "7"], [False, True, True], 2)  # {8, 7} twice, won by 8, and {7, 7}
    0.3333333333333333
    """
    return maj_at_ks(answers, is_correct, [k])[0]


def maj_at_ks(answers: Sequence[str | None], is_correct: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """`maj_at_k` for several k at the price of one.

    The subsets that a right answer wins are counted by a generating function whose coefficient of x^k belongs to k.
    Let the winner's first sample be at p and its votes be m. Of its later samples it has m − 1. Another answer i, with
    n_i samples of which a_i come after p, has fewer than m votes, or m of those after p:

        W(x) = Σ_p Σ_m C(a_p, m−1) x^m · Π_i [ Σ_{t<m} C(n_i, t) x^t + C(a_i, m) x^m ] · (1 + x)^(without answer)

    Polynomials are packed into one integer each, x = 2^(n+1): no coefficient exceeds 2^n, so none runs over.
    """
    if len(answers) != len(is_correct):
        raise DataError(f"Each answer needs its is_correct, got {len(answers)} answers and {len(is_correct)}.")
    for k in ks:
        _require_k(len(answers), k)
    shift = len(answers) + 1
    wins = _winning_subsets(answers, is_correct, shift)
    coefficient = (1 << shift) - 1
    return [((wins >> k * shift) & coefficient) / math.comb(len(answers), k) for k in ks]


def _winning_subsets(answers: Sequence[str | None], is_correct: Sequence[bool], shift: int) -> int:
    """W(x) above, at x = 2^shift."""
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
            ways = (1 + (1 << shift)) ** num_free  # no vote of theirs can matter: any subset of them goes
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
