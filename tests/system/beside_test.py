#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libsluice beside TensorFlow, grpcio, torch and JAX, loaded before it and after it.
TensorFlow brings a gRPC and an OpenSSL of its own, and lets everybody see their
symbols: a library that takes those for its own ends the process."""
from access_test import Guarded
from cluster import BIN, check
from frames import main_with, run

PROGRAM = """
import os, sys
if sys.argv[1] == "sluice":
    import sluice._native
    sluice._native.lib()
import tensorflow, grpc, jax, torch, sluice.torch
torch.set_num_threads(1)
SGD = {"type": "sgd", "learning_rate": 0.1}  # one of torch's own loads torch._dynamo: seconds
for mode in ("async", "allreduce", "hybrid"):
    x = torch.randn(96, 4)
    y = (x[:, 0] > 0).long()
    model = torch.nn.Linear(4, 2)
    more = {} if mode == "async" else {"ranks": 2}
    with sluice.torch.Trainer(model, f"beside-{mode}-{sys.argv[1]}", sys.argv[2],
                              optimizer=SGD, mode=mode, tls=sys.argv[3],
                              submit_tls=sys.argv[4], **more) as t:
        for batch in t.batches((x, y), 8, 1):
            t.step(lambda: torch.nn.functional.cross_entropy(model(batch.x), batch.y))
        assert t.load()
    print(mode, "trained", flush=True)
"""


def one_grpc_beside_another():
    with Guarded(psservers=1, workers=0) as c:
        for first in ("others", "sluice"):
            said = run(PROGRAM, first, c.address, str(c.certs / "worker"),
                       str(c.certs / "client"))
            for mode in ("async", "allreduce", "hybrid"):
                check(f"{mode} trained" in said, f"{first} first: {mode}", said)


def a_malloc_that_is_put_before_stays_one():
    """Memory of a preloaded malloc is freed by it: the library is loaded the usual way."""
    code = """
import os, sys, sluice._native as n
print("deep" if n._binding() & os.RTLD_DEEPBIND else "usual", flush=True)
"""
    check("deep" in run(code), "TensorFlow's symbols would be taken")
    counter = BIN.parent / "lib" / "liballoc_count.so"
    if counter.exists():
        check("usual" in run(code, LD_PRELOAD=str(counter)),
              "another malloc is passed over")


if __name__ == "__main__":
    main_with("tensorflow", [one_grpc_beside_another,
                             a_malloc_that_is_put_before_stays_one])
