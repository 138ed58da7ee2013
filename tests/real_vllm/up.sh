#!/usr/bin/env bash
# Start one real vLLM server on CPU, in the foreground: up.sh VENV MODEL_DIR PORT ZMQ_PORT LOG [more vLLM flags …]
#
# 256 device blocks of 32 tokens (8,192 tokens) and 16 MiB (65,536 tokens of the tiny model) of host tier, both
# real. KV events are published on ZMQ_PORT, replayed on ZMQ_PORT + 1000.
set -euo pipefail
venv=$1 model=$2 port=$3 zmq=$4 log=$5
shift 5
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=$here HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 VLLM_CPU_CI_ENV=1
export VLLM_SERVER_DEV_MODE=1   # /reset_prefix_cache, so that tests begin with empty tiers
unset PYTHONDONTWRITEBYTECODE   # a start without bytecode takes two to three times as long
exec "$venv/bin/python" -m vllm.entrypoints.openai.api_server --model "$model" --host 127.0.0.1 --port "$port" \
  --served-model-name tiny --load-format dummy --dtype bfloat16 --enforce-eager --block-size 32 --max-model-len 4096 \
  --max-num-seqs 32 --enable-prefix-caching --kv-cache-memory-bytes 128M --num-gpu-blocks-override 256 \
  --enable-prompt-tokens-details --enable-request-id-headers --enable-server-load-tracking \
  --kv-events-config "{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:$zmq\",\"replay_endpoint\":\"tcp://127.0.0.1:$((zmq + 1000))\",\"topic\":\"kv@127.0.0.1:$port@tiny\"}" \
  --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"HostTensorSpec","spec_module_path":"hostspec","cpu_bytes_to_use":16777216}}' \
  "$@" >"$log" 2>&1
