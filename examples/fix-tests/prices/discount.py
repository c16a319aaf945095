"""Discounts."""


def discounted(cents: int, percent: int) -> int:
    """The price after `percent` off, rounded down to whole cents."""
    if not 0 <= percent <= 100:
        raise ValueError(f"a discount is between 0 and 100 percent, not {percent}")
    return cents - cents * percent // 10
