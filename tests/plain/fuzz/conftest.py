"""How many cases are tried: a few, the same each time, or as many new ones as LAB_FUZZ says."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("LAB_FUZZ", "60")),
    derandomize="LAB_FUZZ" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("fuzz")
