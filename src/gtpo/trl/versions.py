"""The versions of TRL that `make test-matrix` tests."""

import functools
import logging
import re

OLDEST, NEWEST = (1, 10), (1, 16)
"""Major and minor version."""

logger = logging.getLogger(__name__)


@functools.cache
def warn_if_untested(version: str) -> None:
    """Log a warning, once, if this version of TRL is outside the tested window."""
    major_and_minor = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if not OLDEST <= major_and_minor <= NEWEST:
        oldest, newest = (".".join(map(str, tested)) for tested in (OLDEST, NEWEST))
        logger.warning(
            "gtpo is tested with TRL %s to %s, but TRL %s is installed. If a run fails, install a tested version: "
            "pip install 'trl==%s.*'.",
            oldest,
            newest,
            version,
            newest,
        )
