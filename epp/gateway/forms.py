"""Forms: bodies of which nothing is read but the model they name."""

from typing import Final

from epp.request import model_in_form

__all__ = ["FORM_PATHS", "model_of_form"]

FORM_PATHS: Final = "/v1/audio/"  # what their paths begin with
_LOOKED_AT: Final = 16_384  # bytes


def model_of_form(path: str, content_type: str | None, body: bytes | None) -> str | None:
    """The model that a form names near its beginning; None for what is no form, and for one that does not."""
    if body is None or content_type is None or not path.startswith(FORM_PATHS):
        return None
    return model_in_form(content_type, body[:_LOOKED_AT])
