"""A pure observer of responses, and the names of models in them."""

from epp.response.errors import is_engine_down
from epp.response.observer import DEFAULT_LIMIT_BYTES, ResponseObserver
from epp.response.renaming import AnswerNames, answer_names
from epp.response.stored import StoredResponseReader
from epp.response.types import Usage
from epp.response.usage import merge_usage, usage_of

__all__ = [
    "DEFAULT_LIMIT_BYTES",
    "AnswerNames",
    "ResponseObserver",
    "StoredResponseReader",
    "Usage",
    "answer_names",
    "is_engine_down",
    "merge_usage",
    "usage_of",
]
