"""A server of HyperQueue in the folder of the first argument, and two workers, each a process."""

import os
import signal
import sys

from hyperqueue import LocalCluster
from hyperqueue.cluster import WorkerConfig

cluster = LocalCluster(sys.argv[1])


def worker():
    """The package starts workers as threads: a process is forked for each, so that one can die."""
    child = os.fork()
    if child == 0:
        cluster.start_worker(WorkerConfig(cores=1))
        while True:
            signal.pause()
    return child


print("workers", worker(), worker(), flush=True)
sys.stdin.read()
