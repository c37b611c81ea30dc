# SPDX-License-Identifier: Apache-2.0
"""Many workers that only attend: what they say is Hello, by stock gRPC."""
import asyncio
import pathlib
import sys
import threading

from cluster import LIMIT, ROOT

STREAMS = 90  # of one connection
# They send no heartbeats.
PATIENT = ("--heartbeat-ms", "60000", "--lease-ms", "600000")


class Crowd:
    def __init__(self, address, count):
        sys.path.insert(0, str(pathlib.Path(ROOT, "proto")))
        import grpc
        self.coord, self.calls = grpc.protos_and_services("coord.proto")
        self.address, self.count = address, count
        self.loop = asyncio.new_event_loop()
        self.stop = None
        self.here = threading.Semaphore(0)
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self.run(),))

    def __enter__(self):
        self.thread.start()
        for _ in range(self.count):
            assert self.here.acquire(timeout=60 * LIMIT), "not all of them were welcomed"
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    async def run(self):
        from grpc import aio
        self.stop = asyncio.Event()
        channels = [aio.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)])
                    for _ in range(0, self.count, STREAMS)]
        streams = [self.calls.CoordinatorStub(channels[i // STREAMS]).Attend()
                   for i in range(self.count)]
        await asyncio.gather(*(self.attend(i, s) for i, s in enumerate(streams)))
        await self.stop.wait()
        for stream in streams:
            stream.cancel()
        for channel in channels:
            await channel.close()

    async def attend(self, i, stream):
        await stream.write(self.coord.AttendUp(hello=self.coord.Hello(
            role=self.coord.Role.Value("ROLE_WORKER"), name=f"many-{i}", process=i + 1, pid=i + 1,
            host=f"host-{i % 50}", version="test", device="cpu", protocol=2)))
        await stream.read()
        self.here.release()
