# SPDX-License-Identifier: Apache-2.0
"""Shared memory in a worker of anyone's: proto/ps.proto and proto/local.h, written
again from their words."""
import fcntl
import mmap
import os
import socket
import struct

NOTE = struct.Struct("=IIQQQQ")  # magic, kind, token, tag, region, bytes
MAGIC, MAP, MAPPED = 0x31534C53, 1, 2
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
WAIT_S = 10


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        return f.read().strip()


class Room:
    """Memory with a gradient at 0 and parameters behind it, mapped by one
    psserver. OSError: not to be had now."""

    def __init__(self, local, size):
        if not local.path or local.boot_id != boot_id():
            raise OSError("not on this host")
        self.size = size
        fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, 2 * size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
            self.memory = mmap.mmap(fd, 2 * size)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.socket.settimeout(WAIT_S)
            self.socket.connect(local.path)
            socket.send_fds(self.socket, [NOTE.pack(MAGIC, MAP, local.token, 1, 0,
                                                    2 * size)], [fd])
            answer = self.socket.recv(NOTE.size)
        finally:
            os.close(fd)
        if len(answer) != NOTE.size:
            raise OSError("cut off")
        _, kind, _, _, self.region, _ = NOTE.unpack(answer)
        if kind != MAPPED:
            raise OSError("refused")

    def close(self):
        self.socket.close()
        self.memory.close()


def sharing(example, base):
    """`base`, a worker, which shares memory wherever that works; a room whose
    call had no answer is not used again."""
    ps = example.ps

    class Sharer(base):
        rooms = None
        shared = 0  # pushes that were counted through it

        def room(self, address, shard, size):
            self.rooms = self.rooms or {}
            if (address, shard) not in self.rooms:
                local = self.channels[address].Local(ps.LocalRequest(),
                                                     timeout=WAIT_S)
                self.rooms[address, shard] = Room(local, size)
            return self.rooms[address, shard]

        def drop(self, address, shard):
            room = (self.rooms or {}).pop((address, shard), None)
            if room:
                room.close()

        def say_push(self, lease, job, shard, step, numbers, data, named, late):
            def make(incarnation):
                # A second try: the first one had no answer.
                if named:
                    self.drop(*named.pop())
                request = ps.PushRequest(
                    **self.keys(lease, job, shard, incarnation), step=step,
                    based_on=self.versions[shard], map_version=job.map.version,
                    samples=len(numbers), late=late,
                    digest=example.digest(job.epoch_of(lease.closure), numbers))
                address, _ = self.entry(lease, job, shard)
                try:
                    room = self.room(address, shard, len(data))
                except (OSError, example.grpc.RpcError):
                    request.payload = data
                    return request
                room.memory[:len(data)] = data
                request.shm.CopyFrom(ps.ShmRef(region=room.region, bytes=len(data)))
                request.answer.CopyFrom(ps.ShmRef(
                    region=room.region, offset=len(data), bytes=len(data)))
                named.append((address, shard))
                return request
            return make

        def push(self, lease, job, shard, step, numbers, grad, incarnation,
                 late=False):
            first, end = job.ranges[shard]
            data, named = example.payload(grad[first:end]), []
            make = self.say_push(lease, job, shard, step, numbers, data, named, late)
            try:
                reply, _ = self.call(lease, job, shard, "PushPull", make)
            except example.Dropped:
                if named:
                    self.drop(*named.pop())
                raise
            while reply.refused.why == ps.REFUSED_REGION:
                self.drop(*named.pop())
                reply, _ = self.call(lease, job, shard, "PushPull", make)
            if reply.refused.why == ps.REFUSED_STALE:
                return False
            self.check_refused(job, reply)
            if reply.incarnation != incarnation:
                raise LookupError("evidence is of another incarnation")
            values = reply.payload
            if reply.in_shm:
                values = self.rooms[named[-1]].memory[len(data):2 * len(data)]
                self.shared += 1
                if self.shared == 1 or self.shared % 100 == 0:
                    print(f"{self.shared} through shared memory", flush=True)
            job.parameters[first:end] = example.floats(values)
            self.versions[shard] = reply.version
            return True

    return Sharer
