# SPDX-License-Identifier: Apache-2.0
"""The status of a job, or of the cluster, over one connection that stays open, told
as `sluice -o json status` tells it, without the spec. A test that waits looks forty
times a second; a process for each look costs more than what it looks at."""
import functools
import importlib.util
import sys

# A new connection is made at once, whatever became of the one before.
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


def available():
    """bench/ runs with a Python that need not have stock gRPC."""
    return all(map(importlib.util.find_spec, ("grpc", "grpc_tools")))


@functools.cache
def protocol(proto):
    """(messages, services) of jobs.proto, for stock gRPC."""
    import grpc
    if proto not in sys.path:
        sys.path.insert(0, proto)
    return grpc.protos_and_services("jobs.proto")


def told(field):
    """How a value of a field is told: proto/pbjson.h, written again for the
    types that a status has. None: as it is."""
    if field.message_type:
        return dict_of
    if field.enum_type:  # JOB_RUNNING: running
        return {value.number: value.name.split("_", 1)[1].lower()
                for value in field.enum_type.values}.get
    if field.type == field.TYPE_FIXED64:
        return "0x{:016x}".format
    return None


# Numbers that may not be known: null in the command's JSON.
MAYBE = {"loss", "accuracy", "train_loss", "train_accuracy", "value", "best"}


@functools.cache
def fields_of(descriptor):
    return [(f.name, f.label == f.LABEL_REPEATED, f.has_presence, told(f))
            for f in descriptor.fields]


def dict_of(message):
    out = {}
    for name, repeated, may_lack, tell in fields_of(message.DESCRIPTOR):
        value = getattr(message, name)
        if may_lack and not message.HasField(name):
            if name in MAYBE and f"known_{name}" in message.DESCRIPTOR.oneofs_by_name:
                out[name] = None
            continue
        if repeated:
            out[name] = list(map(tell, value) if tell else value)
        else:
            out[name] = tell(value) if tell else value
    return out


class Asker:
    """`tls`, if any, gives the paths of the authority, key and certificate, and
    the name of whom they are shown to."""

    def __init__(self, address, proto, tls=None):
        self.address, self.proto, self.tls = address, str(proto), tls
        self.channel = self.stub = None

    def open(self):
        import grpc
        if self.tls is None:
            return grpc.insecure_channel(self.address, options=OPTIONS)
        *paths, name = self.tls()
        return grpc.secure_channel(
            self.address,
            grpc.ssl_channel_credentials(*(p.read_bytes() for p in paths)),
            options=[*OPTIONS, ("grpc.ssl_target_name_override", name)])

    def status(self, job, timeout_s):
        messages, _ = protocol(self.proto)
        return self.ask("Get", messages.JobRequest(id=job, shards=True), timeout_s)

    def cluster(self, timeout_s):
        messages, _ = protocol(self.proto)
        return self.ask("Cluster", messages.ClusterRequest(), timeout_s)

    def ask(self, call, request, timeout_s):
        """None where nobody answers, or with an error: `sluice` says why."""
        import grpc
        _, services = protocol(self.proto)
        try:
            if self.channel is None:
                self.channel = self.open()
                self.stub = services.JobsStub(self.channel)
            return dict_of(getattr(self.stub, call)(request, timeout=timeout_s))
        except grpc.RpcError:
            self.close()
            return None

    def close(self):
        if self.channel is not None:
            self.channel.close()
        self.channel = self.stub = None
