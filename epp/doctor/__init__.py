"""Preflight: asks every endpoint, and says what would blind a scorer and how to fix it.

`observe` asks; everything else is pure: observations, configuration and settings in, findings out.
"""

from epp.doctor.examine import examine, exit_status
from epp.doctor.finding import CODES, Finding, Severity
from epp.doctor.observation import Answer, Observation, read_observation
from epp.doctor.observe import ObserveOptions, observe_endpoints
from epp.doctor.report import as_dict, as_text

__all__ = [
    "CODES", "Answer", "Finding", "Observation", "ObserveOptions", "Severity", "as_dict", "as_text",
    "examine", "exit_status", "observe_endpoints", "read_observation",
]  # fmt: skip
