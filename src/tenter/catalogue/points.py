"""All points that something fires: those of an agent's run, then those of a loop (D§4, D§3.1)."""

from tenter.catalogue.agents import AGENT_OPERATIONS
from tenter.catalogue.loops import LOOP_OPERATIONS
from tenter.kernel import Catalogue

CATALOGUE = Catalogue(AGENT_OPERATIONS + LOOP_OPERATIONS)
"""What a runtime is given: hooks attach to these points, by any of their names."""
