"""What holds for all tests."""

import gc

from hypothesis import HealthCheck, settings

# How long an example takes says nothing of what is tested while other tests run beside it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end; looking it through for garbage would hold event loops up."""
    gc.collect()
    gc.freeze()
