"""Bucket bounds of histograms; those of the Go endpoint picker are kept, since dashboards depend on them."""

from typing import Final

SECONDS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0,
    3600.0,
)  # fmt: skip
SECONDS_TO_120: Final = SECONDS[: SECONDS.index(120.0) + 1]
BYTES: Final = tuple(float(64 << n) for n in range(25))
# 32778 where 32768 was meant stands so in the Go picker.
TOKENS: Final = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32778.0,
    65536.0, 131072.0, 262144.0, 524288.0, 1048576.0,
)  # fmt: skip
TOKENS_TO_8192: Final = TOKENS[:12]
TOKENS_TO_65536: Final = TOKENS[:15]
SCHEDULING: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
ROUTER: Final = (
    0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5,
)  # fmt: skip
PER_TOKEN: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
BETWEEN_TOKENS: Final = (
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8,
    1.0, 2.0,
)  # fmt: skip
PROCESSING: Final = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
SHARE: Final = tuple(n / 10 for n in range(11))
HIT_BYTES: Final = (0.0, *(float(16 << n) for n in range(13)))
