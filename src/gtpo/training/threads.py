"""How torch's threads wait for each other. Must run before torch is imported."""

import os


def let_threads_sleep() -> None:
    """Let OpenMP threads sleep while they wait, instead of spinning, unless the environment says otherwise.

    A spinning thread occupies a core that the thread it waits for may need. Where another process uses one of two
    cores, spinning makes two threads slower than one. The number of threads stays as it is, and so do all results.
    """
    if "GOMP_SPINCOUNT" not in os.environ:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
