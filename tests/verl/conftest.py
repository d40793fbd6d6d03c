"""One local Ray and one TransferQueue for all tests, with all their files in a temporary folder."""

import os
import shutil
import tempfile

import pytest

collect_ignore_glob = [
    "stored.py",
    "cpu_backend.py",
    "full_run.py",
]  # need verl to import; full_run.py has a target of its own
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # otherwise Ray writes a token into the home folder
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture(scope="session")
def transfer_queue():
    ray = pytest.importorskip("ray")
    import transfer_queue as tq

    from tests.verl.stored import verl_config

    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # Ray's sockets need a short path
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
    tq.init(verl_config().transfer_queue)
    yield tq
    tq.close()
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
