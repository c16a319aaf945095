"""Prices in cents."""

from prices.discount import discounted

__all__ = ["discounted"]
