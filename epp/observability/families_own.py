"""Families of our own: predictions against measurements, endpoints, index, and the router itself."""

from typing import Final

from epp.observability import bounds
from epp.observability.instruments import Family

ENDS: Final = Family(
    "epp_requests_total",
    "counter",
    "Requests by why they ended and the status the client got.",
    labels=("reason", "status"),
)
DROPPED: Final = Family(
    "epp_requests_dropped_total",
    "counter",
    "Requests that the router turned away, by the reason it gave (x-llm-d-request-dropped-reason).",
    labels=("reason", "priority"),
)
RETRIES: Final = Family(
    "epp_retries_total", "counter", "Repeats of requests, by the failure that caused them.", labels=("kind",)
)
DECISION: Final = Family(
    "epp_decision_seconds",
    "histogram",
    "Time a request spent in scheduling, in finer buckets.",
    bounds=bounds.ROUTER,
)
PREPARE: Final = Family(
    "epp_prepare_seconds", "histogram", "Time a request spent in parsing and hashing.", bounds=bounds.ROUTER
)
ESTIMATED_TOKENS: Final = Family(
    "epp_prompt_tokens_estimated_total",
    "counter",
    "Estimated prompt tokens of requests sent to an endpoint.",
    labels=("model_name",),
)
PREDICTED_TOKENS: Final = Family(
    "epp_predicted_hit_tokens_total",
    "counter",
    "Prompt tokens predicted to be served by a tier; cpu counts only what the gpu tier does not serve.",
    labels=("model_name", "tier"),
)
MEASURED_TOKENS: Final = Family(
    "epp_measured_cached_tokens_total",
    "counter",
    "Cached prompt tokens in the usage of responses that tell them.",
    labels=("model_name",),
)
MEASURED_PROMPT_TOKENS: Final = Family(
    "epp_measured_prompt_tokens_total",
    "counter",
    "Prompt tokens of the responses that tell cached tokens.",
    labels=("model_name",),
)
COMPARED_TOKENS: Final = Family(
    "epp_compared_predicted_tokens_total",
    "counter",
    "Predicted hit tokens, all tiers, of the responses that tell cached tokens.",
    labels=("model_name",),
)
GAP_TOKENS: Final = Family(
    "epp_prediction_gap_tokens_total",
    "counter",
    "Tokens by which predictions missed: over is predicted but not cached, under the reverse.",
    labels=("model_name", "direction"),
)
BYTES_PER_TOKEN: Final = Family(
    "epp_bytes_per_token",
    "gauge",
    "Learned bytes of prompt text in one token; absent until learned.",
    labels=("model_name",),
)
ENDPOINT_PREDICTED_TOKENS: Final = Family(
    "epp_endpoint_predicted_hit_tokens_total",
    "counter",
    "Predicted hit tokens by endpoint and tier.",
    labels=("endpoint", "tier"),
)
ENDPOINT_CACHED_TOKENS: Final = Family(
    "epp_endpoint_cached_tokens_total",
    "counter",
    "The engine's own count of cached prompt tokens, by source (device is the gpu tier, host the cpu tier).",
    labels=("endpoint", "source"),
)
ENDPOINT_PROMPT_TOKENS: Final = Family(
    "epp_endpoint_prompt_tokens_total",
    "counter",
    "The engine's own count of prompt tokens.",
    labels=("endpoint",),
)
ENDPOINT_QUEUE: Final = Family(
    "epp_endpoint_queue_size",
    "gauge",
    "Requests waiting at the endpoint, by its last fresh scrape.",
    labels=("endpoint",),
)
ENDPOINT_RUNNING: Final = Family(
    "epp_endpoint_running_requests",
    "gauge",
    "Requests running at the endpoint, by its last fresh scrape.",
    labels=("endpoint",),
)
ENDPOINT_KV: Final = Family(
    "epp_endpoint_kv_cache_utilization",
    "gauge",
    "Share of KV blocks in use, by the last fresh scrape.",
    labels=("endpoint",),
)
ENDPOINT_INFLIGHT: Final = Family(
    "epp_endpoint_inflight_requests",
    "gauge",
    "Requests of this router at the endpoint.",
    labels=("endpoint",),
)
ENDPOINT_INFLIGHT_TOKENS: Final = Family(
    "epp_endpoint_inflight_uncached_tokens",
    "gauge",
    "Uncached prompt tokens of this router that the endpoint has yet to compute.",
    labels=("endpoint",),
)
ENDPOINT_READY: Final = Family(
    "epp_endpoint_ready",
    "gauge",
    "1 while the endpoint may be picked: not draining, asleep or ejected.",
    labels=("endpoint",),
)
ENDPOINT_EJECTED: Final = Family(
    "epp_endpoint_ejected",
    "gauge",
    "1 while the endpoint is ejected, with the cause.",
    labels=("endpoint", "cause"),
)
ENDPOINT_METRICS_AGE: Final = Family(
    "epp_endpoint_metrics_age_seconds",
    "gauge",
    "Age of the last good scrape; absent before the first.",
    labels=("endpoint",),
)
ENDPOINTS: Final = Family("epp_endpoints", "gauge", "Endpoints that discovery knows.")
STALE: Final = Family("epp_stale_endpoints", "gauge", "Endpoints whose metrics are too old or never came.")
EJECTIONS: Final = Family(
    "epp_ejections_total", "counter", "Ejections, prolonged ones counted again, by cause.", labels=("cause",)
)
PANIC: Final = Family(
    "epp_panic_mode",
    "gauge",
    "1 while more endpoints of the model are ejected than may be left out (half of them).",
    labels=("model_name",),
)
INFLIGHT: Final = Family("epp_inflight_requests", "gauge", "Requests of this router at all endpoints.")
INDEX_ENTRIES: Final = Family(
    "epp_index_entries",
    "gauge",
    "Blocks that the index holds for an endpoint.",
    labels=("view", "tier", "endpoint"),
)
INDEX_TOKENS: Final = Family(
    "epp_index_tokens",
    "gauge",
    "What those blocks, live requests included, are in tokens.",
    labels=("view", "tier", "endpoint"),
)
INDEX_CAPACITY: Final = Family(
    "epp_index_capacity_tokens",
    "gauge",
    "Assumed size of the endpoint's tier.",
    labels=("view", "tier", "endpoint"),
)
INDEX_MISMATCH: Final = Family(
    "epp_index_capacity_mismatch_ratio",
    "gauge",
    "Configured size divided by the size the engine reports; present where they differ by more than 10 %.",
    labels=("view", "tier", "endpoint"),
)
BUFFERED: Final = Family("epp_buffered_bytes", "gauge", "Request bodies held in memory.")
SCRAPE_ERRORS: Final = Family(
    "epp_scrape_errors_total",
    "counter",
    "Failed scrapes of an endpoint, by kind.",
    labels=("endpoint", "kind"),
)
OBSERVER_ERRORS: Final = Family(
    "epp_observer_errors_total",
    "counter",
    "Failures of metrics, logs or records, kept from the request's path.",
    labels=("observer",),
)
LOG_DROPPED: Final = Family(
    "epp_access_log_lines_dropped_total", "counter", "Lines of the access log that could not be written."
)
FILE_RELOADS: Final = Family(
    "epp_file_reloads_total",
    "counter",
    "Times that certificates or keys were read again after the start.",
    labels=("files", "outcome"),
)
FILE_FAULT: Final = Family(
    "epp_file_fault",
    "gauge",
    "1 while the files cannot be used as they are and what was read before stays in effect.",
    labels=("files",),
)
KEY_REFUSALS: Final = Family(
    "epp_key_refusals_total",
    "counter",
    "Requests answered 401, by whether the client's key was missing or wrong.",
    labels=("cause",),
)
BUILD: Final = Family(
    "epp_build_info", "gauge", "1, with the build in its labels.", labels=("version", "python_version")
)
CONFIG: Final = Family(
    "epp_config_info", "gauge", "1, with the hash of the configuration in effect.", labels=("hash",)
)
RELOADS: Final = Family(
    "epp_config_reloads_total",
    "counter",
    "Changed configuration files, by what came of them.",
    labels=("result",),
)
RELOAD_OK: Final = Family(
    "epp_config_last_reload_success",
    "gauge",
    "1 while what runs is what the configuration files say.",
)
SOURCE_ENDPOINTS: Final = Family(
    "epp_discovery_endpoints", "gauge", "Endpoints that a discovery source knows.", labels=("source",)
)
SOURCE_OK: Final = Family(
    "epp_discovery_last_look_success", "gauge", "1 while looks of the source do not fail.", labels=("source",)
)
SOURCE_FAILURES: Final = Family(
    "epp_discovery_failures_total", "counter", "Looks of a source that failed.", labels=("source",)
)
SHADOW_CONFIG: Final = Family(
    "epp_shadow_config_info", "gauge", "1, with the hash of the shadow configuration.", labels=("hash",)
)
SHADOW_REQUESTS: Final = Family(
    "epp_shadow_requests_total",
    "counter",
    "Requests that the shadow configuration decided too, by how its pick compares.",
    labels=("verdict",),
)
SHADOW_HITS: Final = Family(
    "epp_shadow_predicted_hit_tokens_total",
    "counter",
    "Hit tokens that the shadow's views predict, for its own pick and for the one in effect.",
    labels=("pick", "tier"),
)
SHADOW_SECONDS: Final = Family(
    "epp_shadow_seconds_total", "counter", "Time that the shadow configuration has cost."
)
STATE_ENTRIES: Final = Family(
    "epp_state_loaded_entries", "gauge", "Index entries that were taken over from the process before."
)
STATE_AGE: Final = Family(
    "epp_state_loaded_age_seconds",
    "gauge",
    "Age of the saved state when it was read; absent if none was taken over.",
)
STATE_LOADS: Final = Family(
    "epp_state_loads_total",
    "counter",
    "Looks for a saved state, by what came of them: used, absent or refused.",
    labels=("result",),
)
STATE_SAVES: Final = Family(
    "epp_state_saves_total", "counter", "Saves of the state, by whether they worked.", labels=("result",)
)
STATE_SAVED_AT: Final = Family(
    "epp_state_last_save_timestamp_seconds", "gauge", "When the state was saved last; absent before."
)
STATE_BYTES: Final = Family("epp_state_bytes", "gauge", "Size of the state that was saved last.")
