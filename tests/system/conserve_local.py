#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conservation in mode local, as a program that takes its steps by itself.

A sample has one number in each variable, which it changes by 1 (exact_local.py has the
job, and says what must come out). It works for one job after the other until it is
killed:

    --step-ms MS        what a batch costs
    --shm               shares memory with psservers of its host
"""
import time

from conserve_rows import attend


def train(session, step_ms):
    from sluice import Lost
    for closure in session.closures():
        done = 0
        for step in closure.steps():
            now, more = closure.params.reshape(2, -1).copy(), True
            try:
                while more:
                    for batch in step.batches():
                        now[:, batch.samples] -= 1
                        time.sleep(step_ms / 1000)
                    step.change(now.ravel())
                    more = step.more(loss_sum=0.0)
                step.done()
                done += 1
            except Lost:
                break
        print(f"{done} steps, loss 0", flush=True)


if __name__ == "__main__":
    attend(__doc__, train, local=True)
