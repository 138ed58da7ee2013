"""A CPU tier for vLLM's CPU backend: its OffloadingConnector with copies between host tensors.

vLLM 0.32 ships the copying half of native offload for GPUs only. This plug-in supplies it, so that everything
that decides runs unchanged: the connector's scheduler, its LRU, events and metrics. Loaded by vLLM through
`spec_module_path`, in its own interpreter; never imported by tests.
"""

import time

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec


class HostCopyWorker(OffloadingWorker):
    """Copies blocks at once; a transfer is finished when it is submitted."""

    def __init__(self, kv_caches, blocks_per_chunk, num_chunks):
        self._per_chunk = blocks_per_chunk
        self._groups = kv_caches.group_data_refs
        self._device = [c.tensor.view(torch.int8).view(-1, c.page_size_bytes) for c in kv_caches.tensors]
        rows = num_chunks * blocks_per_chunk
        self._host = [torch.zeros(rows, pages.shape[1], dtype=torch.int8) for pages in self._device]
        self._finished = []

    def submit_store(self, job_id, src_spec, dst_spec):
        return self._submit(job_id, src_spec, dst_spec, self._store)

    def submit_load(self, job_id, src_spec, dst_spec):
        return self._submit(job_id, dst_spec, src_spec, self._load)

    def get_finished(self):
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids):
        return

    def _submit(self, job_id, device_spec, host_spec, copy):
        started = time.perf_counter()
        copied_bytes = sum(
            copy(tensor, torch.tensor(blocks), torch.tensor(rows))
            for tensors, blocks, rows in self._pairs(device_spec, host_spec)
            for tensor in tensors
        )
        self._finished.append(TransferResult(job_id, True, copied_bytes, time.perf_counter() - started))
        return True

    def _pairs(self, device_spec, host_spec):
        """By group of tensors: their numbers, device blocks, and the host row of each of these blocks."""
        blocks, chunks = device_spec.block_ids.tolist(), host_spec.block_ids.tolist()
        sizes = zip(device_spec.group_sizes, device_spec.block_indices, self._groups, strict=False)
        for size, first, refs in sizes:
            skipped = first % self._per_chunk
            used = -(-(size + skipped) // self._per_chunk)
            rows = [c * self._per_chunk + place for c in chunks[:used] for place in range(self._per_chunk)]
            if size:
                yield {r.tensor_idx for r in refs}, blocks[:size], rows[skipped : skipped + size]
            blocks, chunks = blocks[size:], chunks[used if size else 0 :]

    def _store(self, tensor, blocks, rows):
        self._host[tensor].index_copy_(0, rows, self._device[tensor].index_select(0, blocks))
        return len(rows) * self._host[tensor].shape[1]

    def _load(self, tensor, blocks, rows):
        self._device[tensor].index_copy_(0, blocks, self._host[tensor].index_select(0, rows))
        return len(rows) * self._host[tensor].shape[1]


class HostTensorSpec(CPUOffloadingSpec):
    """vLLM's CPU tier, with the worker above in place of the GPU's."""

    def get_worker(self, kv_caches):
        if not self._worker:
            self._worker = HostCopyWorker(kv_caches, self.blocks_per_chunk, self.num_chunks)
        return self._worker
