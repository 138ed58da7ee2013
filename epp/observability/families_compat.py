"""Families that keep the names, labels and buckets of the Go endpoint picker, so that its dashboards work.

Each `llm_d_epp_*` family has a twin under the name that the seed's era knew.
"""

from typing import Final

from epp.observability import bounds
from epp.observability.instruments import Family, Twin, twin

MODEL: Final = ("model_name", "target_model_name")
FLOW: Final = (*MODEL, "fairness_id", "priority")
VIEW: Final = ("plugin_name", "plugin_type", "tier")

REQUESTS: Final = Family(
    "llm_d_epp_request_total",
    "counter",
    "Requests, whatever became of them.",
    labels=FLOW,
    twin=twin("inference_objective_request_total", *MODEL),
)
REQUEST_ERRORS: Final = Family(
    "llm_d_epp_request_error_total",
    "counter",
    "Requests that failed, by error code, upstream_4xx, upstream_5xx or the reason of their end.",
    labels=(*FLOW, "error_code"),
    twin=twin("inference_objective_request_error_total", *MODEL, "error_code"),
)
REQUEST_DURATION: Final = Family(
    "llm_d_epp_request_duration_seconds",
    "histogram",
    "From the request's head to the end of an endpoint's complete response.",
    labels=FLOW,
    bounds=bounds.SECONDS,
    twin=twin("inference_objective_request_duration_seconds", *MODEL),
)
REQUEST_SIZE: Final = Family(
    "llm_d_epp_request_size_bytes",
    "histogram",
    "Size of request bodies that were sent to an endpoint.",
    labels=FLOW,
    bounds=bounds.BYTES,
    twin=twin("inference_objective_request_sizes", *MODEL),
)
RESPONSE_SIZE: Final = Family(
    "llm_d_epp_response_size_bytes",
    "histogram",
    "Size of relayed response bodies.",
    labels=FLOW,
    bounds=bounds.TOKENS_TO_65536,
    twin=twin("inference_objective_response_sizes", *MODEL),
)
INPUT_TOKENS: Final = Family(
    "llm_d_epp_request_input_tokens",
    "histogram",
    "Prompt tokens as endpoints reported them.",
    labels=FLOW,
    bounds=bounds.TOKENS,
    twin=twin("inference_objective_input_tokens", *MODEL),
)
OUTPUT_TOKENS: Final = Family(
    "llm_d_epp_request_output_tokens",
    "histogram",
    "Completion tokens as endpoints reported them.",
    labels=FLOW,
    bounds=bounds.TOKENS_TO_8192,
    twin=twin("inference_objective_output_tokens", *MODEL),
)
CACHED_TOKENS: Final = Family(
    "llm_d_epp_request_cached_tokens",
    "histogram",
    "Cached prompt tokens as endpoints reported them.",
    labels=FLOW,
    bounds=bounds.TOKENS,
    twin=twin("inference_objective_prompt_cached_tokens", *MODEL),
)
RUNNING: Final = Family(
    "llm_d_epp_request_running",
    "gauge",
    "Requests at endpoints at this time.",
    labels=FLOW,
    twin=twin("inference_objective_running_requests", "model_name"),
)
PER_OUTPUT_TOKEN: Final = Family(
    "llm_d_epp_request_ntpot_seconds",
    "histogram",
    "Duration of a request divided by its completion tokens.",
    labels=FLOW,
    bounds=bounds.PER_TOKEN,
    twin=twin("inference_objective_normalized_time_per_output_token_seconds", *MODEL),
)
FIRST_BYTE: Final = Family(
    "llm_d_epp_request_ttft_seconds",
    "histogram",
    "From the request's head to the first byte of the response's body.",
    labels=(*FLOW, "streaming"),
    bounds=bounds.SECONDS_TO_120,
    twin=twin("inference_objective_request_ttft_seconds", *MODEL),
)
BETWEEN_TOKENS: Final = Family(
    "llm_d_epp_request_streaming_tpot_seconds",
    "histogram",
    "Streams only: time after the first byte divided by completion tokens but one.",
    labels=FLOW,
    bounds=bounds.BETWEEN_TOKENS,
    twin=twin("inference_objective_request_tpot_seconds", *MODEL),
)
PROCESSING: Final = Family(
    "llm_d_epp_request_processing_duration_seconds",
    "histogram",
    "The router's own work on a request before it is sent: parsing, hashing, scheduling.",
    bounds=bounds.PROCESSING,
)
AVERAGE_KV: Final = Family(
    "llm_d_epp_average_kv_cache_utilization",
    "gauge",
    "Mean KV cache use of endpoints with fresh metrics.",
    labels=("name",),
    twin=twin("inference_pool_average_kv_cache_utilization", "name"),
)
AVERAGE_QUEUE: Final = Family(
    "llm_d_epp_average_queue_size",
    "gauge",
    "Mean number of waiting requests of endpoints with fresh metrics.",
    labels=("name",),
    twin=twin("inference_pool_average_queue_size", "name"),
)
AVERAGE_RUNNING: Final = Family(
    "llm_d_epp_average_running_requests",
    "gauge",
    "Mean number of running requests of endpoints with fresh metrics.",
    labels=("name",),
    twin=twin("inference_pool_average_running_requests", "name"),
)
DEVIATION_KV: Final = Family(
    "llm_d_epp_std_dev_kv_cache_utilization", "gauge", "Standard deviation of KV cache use.", labels=("name",)
)
DEVIATION_QUEUE: Final = Family(
    "llm_d_epp_std_dev_queue_size",
    "gauge",
    "Standard deviation of the number of waiting requests.",
    labels=("name",),
)
DEVIATION_RUNNING: Final = Family(
    "llm_d_epp_std_dev_running_requests",
    "gauge",
    "Standard deviation of the number of running requests.",
    labels=("name",),
)
READY: Final = Family(
    "llm_d_epp_ready_endpoints",
    "gauge",
    "Endpoints that may be picked and whose metrics are fresh.",
    labels=("name",),
    twin=twin("inference_pool_ready_pods", "name"),
)
QUEUE_BY_ENDPOINT: Final = Family(
    "llm_d_epp_per_endpoint_queue_size",
    "gauge",
    "Waiting requests of an endpoint.",
    labels=("name", "model_server_endpoint"),
    twin=Twin(
        "inference_pool_per_pod_queue_size", {"name": "name", "model_server_pod": "model_server_endpoint"}
    ),
)
POOL_SATURATION: Final = Family(
    "llm_d_epp_flow_control_pool_saturation",
    "gauge",
    "How full the pool is by its saturation detector; at 1 requests of negative priority are shed.",
    labels=("inference_pool", "stage"),
    twin=twin("inference_extension_flow_control_pool_saturation", "inference_pool"),
)
SCHEDULER_DURATION: Final = Family(
    "llm_d_epp_scheduler_e2e_duration_seconds",
    "histogram",
    "Time a request spent in scheduling.",
    bounds=bounds.SCHEDULING,
    twin=twin("inference_extension_scheduler_e2e_duration_seconds"),
)
SCHEDULER_ATTEMPTS: Final = Family(
    "llm_d_epp_scheduler_attempts_total",
    "counter",
    "Requests that came to scheduling, by outcome and endpoint.",
    labels=("status", "target_model_name", "endpoint_name", "namespace", "port"),
    twin=Twin(
        "inference_extension_scheduler_attempts_total",
        {
            "status": "status",
            "target_model_name": "target_model_name",
            "pod_name": "endpoint_name",
            "namespace": "namespace",
            "port": "port",
        },
    ),
)
INFO: Final = Family(
    "llm_d_epp_info",
    "gauge",
    "1, with the build in its labels.",
    labels=("commit", "build_ref"),
    twin=twin("inference_extension_info", "commit", "build_ref"),
)
POLL_ERRORS: Final = Family(
    "llm_d_epp_datalayer_poll_errors_total",
    "counter",
    "Failed scrapes of all endpoints.",
    labels=("source_type",),
    twin=twin("llm_d_inference_scheduler_datalayer_poll_errors_total", "source_type"),
)
INDEXER_SIZE: Final = Family(
    "llm_d_epp_prefix_indexer_size",
    "gauge",
    "Blocks in the prefix index, all endpoints.",
    labels=VIEW,
    twin=twin("inference_extension_prefix_indexer_size", *VIEW),
)
REWRITES: Final = Family(
    "llm_d_epp_model_rewrite_decisions_total",
    "counter",
    "Requests that a rule of a model rewrite was applied to.",
    labels=("model_rewrite_name", "model_name", "target_model"),
    twin=twin(
        "inference_extension_model_rewrite_decisions_total",
        "model_rewrite_name",
        "model_name",
        "target_model",
    ),
)
INDEXER_HIT_RATIO: Final = Family(
    "llm_d_epp_prefix_indexer_hit_ratio",
    "histogram",
    "Matched share of a prompt's blocks at the endpoint that was picked.",
    labels=VIEW,
    bounds=bounds.SHARE,
    twin=twin("inference_extension_prefix_indexer_hit_ratio", *VIEW),
)
INDEXER_HIT_BYTES: Final = Family(
    "llm_d_epp_prefix_indexer_hit_bytes",
    "histogram",
    "Matched bytes of a prompt at the endpoint that was picked.",
    labels=VIEW,
    bounds=bounds.HIT_BYTES,
    twin=twin("inference_extension_prefix_indexer_hit_bytes", *VIEW),
)
INFLIGHT_BY_PRODUCER: Final = Family(
    "llm_d_epp_inflight_requests",
    "gauge",
    "Requests of this router in flight at an endpoint.",
    labels=("endpoint_name", "namespace", "producer_name", "fairness_id", "priority"),
)
INFLIGHT_TOKENS_BY_PRODUCER: Final = Family(
    "llm_d_epp_inflight_tokens",
    "gauge",
    "Uncached prompt tokens of this router that an endpoint has yet to compute.",
    labels=("endpoint_name", "namespace", "producer_name", "fairness_id", "priority"),
)
