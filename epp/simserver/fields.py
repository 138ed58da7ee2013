"""Fields of JSON bodies, with the errors that vLLM (pydantic) gives for wrong ones."""

import json
from typing import Any, TypeVar

from epp.simserver.errors import ApiError, bad_request, validation_error

__all__ = ["optional", "parse_json", "positive_int", "wrong_type"]

T = TypeVar("T")

TYPE_ERRORS: dict[type, tuple[str, str]] = {
    bool: ("bool_type", "Input should be a valid boolean"),
    int: ("int_type", "Input should be a valid integer"),
    float: ("float_type", "Input should be a valid number"),
    str: ("string_type", "Input should be a valid string"),
    list: ("list_type", "Input should be a valid list"),
    dict: ("dict_type", "Input should be a valid dictionary"),
}


def parse_json(body: bytes) -> dict[str, Any]:
    """A JSON object; raises ApiError 400 otherwise."""
    try:
        data = json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        position = getattr(error, "pos", 0)
        reason = getattr(error, "msg", "neither JSON nor UTF-8")
        raise validation_error(
            "json_invalid",
            f"body.{position}",
            "JSON decode error",
            input="<dict of 0 items>",
            ctx={"error": reason},
        ) from error
    if not isinstance(data, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise validation_error("model_attributes_type", "body", message, input=f"<{type(data).__name__}>")
    return data


def wrong_type(name: str, kind: type) -> ApiError:
    """The field has another type than `kind`."""
    error_type, message = TYPE_ERRORS[kind]
    return validation_error(error_type, f"body.{name}", message)


def optional(data: dict[str, Any], name: str, kind: type[T]) -> T | None:
    """A field that may be absent or null; raises ApiError when it has another type."""
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise wrong_type(name, kind)
    return value


def positive_int(data: dict[str, Any], name: str) -> int | None:
    """A whole number above 0 that may be absent or null; raises ApiError otherwise."""
    value = optional(data, name, int)
    if value is not None and value < 1:
        raise bad_request(f"{name} must be at least 1, got {value}.", name, value)
    return value
