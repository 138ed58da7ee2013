"""Bodies to `InferenceRequest`: pure, and never re-serialised."""

from epp.request.canonical import LARGE_BYTES
from epp.request.coding import decode_body, decode_steps
from epp.request.forms import model_in_form
from epp.request.model_value import with_model
from epp.request.parse import checked_model, is_manifold, parse_request, parse_steps
from epp.request.rewrites import ModelRewrites, Rewrite, RewriteRule, RewriteTarget
from epp.request.routes import api_of, stored_response_of
from epp.request.types import Api, Body, InferenceRequest, Prompt

__all__ = [
    "LARGE_BYTES", "Api", "Body", "InferenceRequest", "ModelRewrites", "Prompt", "Rewrite", "RewriteRule",
    "RewriteTarget", "api_of", "checked_model", "decode_body", "decode_steps", "is_manifold",
    "model_in_form", "parse_request", "parse_steps", "stored_response_of", "with_model",
]  # fmt: skip
