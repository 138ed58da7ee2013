"""The composition root: from settings and configuration to a running router.

`uvicorn --factory epp.app:create_app` serves through the plain ASGI relay, configured by `EPP_*` variables.
"""

from epp.app.factory import create_app
from epp.app.runtime import Runtime
from epp.app.server import Started, serve

__all__ = ["Runtime", "Started", "create_app", "serve"]
