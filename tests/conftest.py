"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Nothing is timed: a machine that has much to do makes no test wrong.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
