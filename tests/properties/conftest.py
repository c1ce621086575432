"""Hypothesis on slow, shared machines: time limits would fail tests for no fault of the code."""

from hypothesis import HealthCheck, settings

settings.register_profile("zkgroup", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zkgroup")
