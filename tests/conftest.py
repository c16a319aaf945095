"""What holds for all tests."""

import gc


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end; looking it through for garbage would hold event loops up."""
    gc.collect()
    gc.freeze()
