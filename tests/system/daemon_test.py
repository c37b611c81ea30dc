#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each daemon does apart from training: health and reflection, refusals
to bind, locks, unreachable peers, drain, exit codes."""
import re
import signal
import socket
import subprocess

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from cluster import (BIN, LIMIT, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)


def addresses(c):
    """The address of each role; the worker logs the one that it chose."""
    def worker():
        found = re.search(r'"port":([1-9]\d*)', c.log("w-0"))
        return found and f"127.0.0.1:{found.group(1)}"
    return {"coordinator": c.address, "psserver": f"unix:{c.dir}/ps-0.sock",
            "worker": wait_for("the worker to say where it listens", worker)}


def health_and_reflection_on_each_daemon():
    services = {"coordinator": {"sluice.v1.Jobs", "sluice.v1.Coordinator"},
                "psserver": {"sluice.v1.Shards"}, "worker": set()}
    with Cluster(psservers=1, workers=1) as c:
        for role, address in addresses(c).items():
            with grpc.insecure_channel(address) as channel:
                health = health_pb2_grpc.HealthStub(channel)
                for name in ("", "liveness", "readiness", *services[role]):
                    reply = health.Check(health_pb2.HealthCheckRequest(service=name),
                                         timeout=10 * LIMIT)
                    check_equal(reply.status, 1, f"{role}: health of '{name}'")
                try:
                    health.Check(health_pb2.HealthCheckRequest(service="no"),
                                 timeout=10 * LIMIT)
                    check(False, f"{role}: health of an unknown service")
                except grpc.RpcError as error:
                    check_equal(error.code(), grpc.StatusCode.NOT_FOUND, role)
                check(services[role] | {"grpc.health.v1.Health"}
                      <= listed(channel, role), f"{role}: services missing")
                try:
                    channel.unary_unary("/sluice.v1.Jobs/NoSuch")(b"", timeout=10 * LIMIT)
                    check(False, f"{role}: an unknown method was answered")
                except grpc.RpcError as error:
                    check_equal(error.code(), grpc.StatusCode.UNIMPLEMENTED, role)


def listed(channel, role):
    """Service names by reflection; each one's file must be there too."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    Request = reflection_pb2.ServerReflectionRequest
    replies = stub.ServerReflectionInfo(
        iter([Request(list_services="")]), timeout=10 * LIMIT)
    names = {s.name for s in next(replies).list_services_response.service}
    for name in names:
        reply = next(stub.ServerReflectionInfo(
            iter([Request(file_containing_symbol=name)]), timeout=10 * LIMIT))
        check(reply.file_descriptor_response.file_descriptor_proto,
              f"{role}: no file for {name}")
    return names


def ends(*words, limit_s=20):
    """Runs a daemon that must end by itself; its exit status and words."""
    done = subprocess.run([str(BIN / words[0]), *map(str, words[1:])],
                          capture_output=True, text=True, timeout=limit_s * LIMIT,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout + done.stderr


def refuses_an_open_address_without_tls():
    with Cluster(psservers=0, workers=0) as c:
        code, text = ends("coordinator", "--listen", "0.0.0.0:0", "--state", c.dir / "s")
        check_equal(code, 2, "exit status")
        check("TLS" in text and "sluice cert init" in text, "no advice in", text)


def a_taken_port_is_named():
    with Cluster(psservers=0, workers=0) as c, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        address = f"127.0.0.1:{s.getsockname()[1]}"
        code, text = ends("coordinator", "--listen", address, "--state", c.dir / "s")
        check_equal(code, 2, "exit status")
        check(address in text, "the address is not named", text)


def one_process_per_state_folder():
    with Cluster(psservers=1, workers=0) as c:
        code, text = ends("coordinator", "--listen", "127.0.0.1:0",
                          "--state", c.dir / "coordinator")
        check_equal(code, 2, "exit status")
        check(str(c.processes["coordinator"].pid) in text, "the holder is not named", text)


def bad_flags_and_help():
    for role in ("coordinator", "psserver", "worker"):
        code, text = ends(role, "--stat", "x")
        check_equal(code, 2, f"{role} --stat")
        code, text = ends(role, "--help")
        check_equal(code, 0, f"{role} --help")
        check("Example" in text or "example" in text, f"{role}: no example", text)
        check(max(map(len, text.splitlines())) <= 80, f"{role}: wide help", text)


def an_unreachable_coordinator_is_named():
    with Cluster(psservers=0, workers=0) as c:
        c.kill("coordinator")
        done = c.run("--timeout", "2s", "jobs", want=4)
        check(str(c.dir) in done.stderr, "the address is not named", done.stderr)
        c.start("w-0", wait=False)
        wait_for("the worker to say whom it cannot reach",
                 lambda: c.log("w-0").count("coordinator.sock") >= 1)
        check(c.processes["w-0"].poll() is None, "the worker gave up")
        c.start("coordinator")
        wait_for("the worker to attach", lambda: [
            m for m in c.cluster_status()["members"] if m["name"] == "w-0"])


def drains_with_documented_exit_codes():
    with Cluster(psservers=1, workers=1) as c:
        for name in ("w-0", "ps-0", "coordinator"):
            status = c.kill(name, signal.SIGTERM)
            check(status in (143, -signal.SIGTERM), f"{name}: exit status {status}")
        left = [p.name for p in c.dir.iterdir() if p.is_socket()]
        check_equal(left, [], "sockets left")


def a_psserver_of_another_cluster_is_refused_and_named():
    with Cluster(psservers=1, workers=0) as theirs, \
            Cluster(psservers=1, workers=1) as ours:
        theirs.kill("ps-0")
        theirs.address = ours.address  # somebody wrote down the wrong one
        theirs.start("ps-0")
        said = wait_for("the stranger to be named", lambda: ours.cluster_status()
                        .get("warnings"))
        check("belongs to cluster" in said[0], "not why", said)
        check("warning" in ours.run("status").stdout, "status does not warn")
        found = ours.json("doctor", want=None)["findings"]
        check([f for f in found if "belongs to cluster" in f["text"]],
              "doctor does not say it", found)
        check_counts(ours.wait_state(ours.submit(mlp_job(epochs=1))))
        wait_for("the stranger to know why", lambda: "belongs to cluster" in theirs.log("ps-0"))


def a_store_that_is_not_mounted_is_waited_for():
    with Cluster(psservers=1, workers=1) as c:
        job = c.submit(mlp_job(samples=3200, epochs=150))
        wait_for("a checkpoint", lambda: int(c.status(job).get("cuts", 0)) > 0)
        c.kill("ps-0")
        c.kill("coordinator")
        (c.dir / "store").rename(c.dir / "away")
        (c.dir / "store").mkdir()  # the mount point
        for name in ("ps-0", "coordinator"):
            at = len(c.log(name))
            process = c.start(name, wait=False)
            check_equal(process.wait(timeout=60 * LIMIT), 1, f"{name}: exit status")
            c.processes.pop(name)
            check("Mount it" in c.log(name)[at:], "it does not say why", c.log(name))
        (c.dir / "store").rmdir()
        (c.dir / "away").rename(c.dir / "store")
        c.start("coordinator")
        c.start("ps-0")
        check_counts(c.wait_state(job))


if __name__ == "__main__":
    main([health_and_reflection_on_each_daemon, refuses_an_open_address_without_tls,
          a_taken_port_is_named, one_process_per_state_folder, bad_flags_and_help,
          an_unreachable_coordinator_is_named, drains_with_documented_exit_codes,
          a_psserver_of_another_cluster_is_refused_and_named,
          a_store_that_is_not_mounted_is_waited_for])
