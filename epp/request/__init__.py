"""Bodies to `InferenceRequest`: pure, and never re-serialised."""

from epp.request.coding import decode_body
from epp.request.forms import model_in_form
from epp.request.parse import checked_model, parse_request
from epp.request.routes import api_of, stored_response_of
from epp.request.types import Api, InferenceRequest, Prompt

__all__ = [
    "Api", "InferenceRequest", "Prompt", "api_of", "checked_model", "decode_body", "model_in_form",
    "parse_request", "stored_response_of",
]  # fmt: skip
