"""`epp` whose durations are CPU time: a decision that waits for the processor is not a slow one."""

import sys
import time

from epp.cli import main

if __name__ == "__main__":
    time.perf_counter = time.thread_time
    sys.exit(main(sys.argv[1:]))
