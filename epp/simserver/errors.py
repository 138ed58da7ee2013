"""Failures in the shape and words of vLLM 0.32."""

from http import HTTPStatus

from epp.simserver.compact import compact_json

__all__ = [
    "ApiError",
    "bad_request",
    "draining",
    "engine_dead",
    "model_not_found",
    "queue_full",
    "sleeping",
    "validation_error",
]


class ApiError(Exception):
    """An answer other than success: `{"error": {"message", "type", "param", "code"}}`."""

    def __init__(self, status: int, message: str, error_type: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.type = error_type
        error = {"message": message, "type": error_type, "param": param, "code": status}
        self.body = compact_json({"error": error})

    @classmethod
    def plain(cls, status: int) -> "ApiError":
        """An error with nothing but its status."""
        phrase = HTTPStatus(status).phrase
        return cls(status, phrase, phrase)


def bad_request(message: str, param: str, value: object) -> ApiError:
    """A value that the server understood and refuses."""
    return ApiError(400, f"{message} (parameter={param}, value={value})", "BadRequestError", param)


def validation_error(error_type: str, location: str, message: str, **details: object) -> ApiError:
    """A body that does not fit the schema."""
    fields = {"type": error_type, "loc": location, "msg": message, **details}
    return ApiError(400, f"1 validation error:\n  {fields}", "Bad Request", location)


def model_not_found(model: str, served: str) -> ApiError:
    """The model is neither the base model nor an adapter."""
    message = f"The model `{model}` does not exist. Valid aliases: {served}."
    return ApiError(404, message, "NotFoundError", "model")


def queue_full() -> ApiError:
    """`--max-num-queued-reqs` is reached; vLLM sends no Retry-After."""
    message = "The engine is busy: too many requests are in flight. Try again later or use another instance."
    return ApiError(503, message, "Service Unavailable")


def draining() -> ApiError:
    """What a request gets that comes after SIGTERM."""
    return ApiError(500, "cannot schedule new futures after shutdown", "InternalServerError")


def engine_dead() -> ApiError:
    """What requests get while the engine process is gone and the API process is not yet."""
    message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    return ApiError(500, message, "InternalServerError")


def sleeping() -> ApiError:
    """What requests get while the engine sleeps; a retryable error."""
    return ApiError(503, "The engine is paused. The request can be sent again later.", "Service Unavailable")
