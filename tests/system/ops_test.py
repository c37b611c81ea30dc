#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ops port: who is alive, who can do its job, and figures that are true."""
import datetime
import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import catalogue
from access_test import Guarded
from cluster import (BIN, LIMIT, LONG_LEASE, ROOT, Cluster, check, check_equal, full_disk, main, mlp_job,
                     wait_for)
from emulated_test import Emulated
from imds import Clouds
from scrape import OPS, address, get, metrics, value


def cluster(lasting=False, **more):
    """`lasting`: no member is lost for want of a heartbeat."""
    return Cluster(coordinator_args=[*OPS, *(LONG_LEASE if lasting else ())],
                   psserver_args=OPS, worker_args=OPS, **more)


def becomes(c, name, status, text):
    """/readyz?verbose of a daemon comes to that; /livez stays what it is."""
    where = address(c, name)

    def probe():
        check_equal(get(where, "/livez")[0], 200, f"/livez of {name}")
        return get(where, "/readyz?verbose")
    wait_for(f"{name} to be {status} with '{text}'",
             lambda: (lambda got: got[0] == status and text in got[1])(probe()))


def members_without_a_coordinator_live_and_are_not_ready():
    with cluster(psservers=0, workers=0) as c:
        c.kill("coordinator")
        c.start("ps-0")
        c.start("w-0")
        becomes(c, "ps-0", 503, "[-]map failed: waiting for the coordinator\n")
        becomes(c, "w-0", 503, "[-]registered failed: waiting for the coordinator\n")
        c.start("coordinator")
        becomes(c, "coordinator", 200, "[+]journal ok\n[+]store ok\n[+]term ok\n")
        becomes(c, "ps-0", 200, "[+]state ok\n[+]space ok\n[+]map ok\n[+]notice ok\n[+]port ok\nready\n")
        becomes(c, "w-0", 200, "[+]registered ok\n[+]notice ok\n[+]data ok\nready\n")
        c.kill("coordinator")
        becomes(c, "w-0", 503, "[-]registered failed")


def a_drain_and_a_notice_are_not_ready():
    with cluster(psservers=1, workers=1) as c:
        going = c.dir / "going"
        going.touch()
        c.start("w-1", extra=["--preempt-source", f"file:{going}"])
        becomes(c, "w-1", 503, "[-]notice failed")
        going.unlink()
        becomes(c, "w-1", 200, "[+]notice ok")
        job = c.submit(mlp_job(epochs=1000))
        c.wait_steps(job, 20)
        # A psserver that does not answer makes the drain of a worker last.
        c.pause("ps-0")
        wait_for("w-0 to hold a lease", lambda: value(
            metrics(address(c, "w-0")), "sluice_worker_leases") > 0)
        c.processes["w-0"].send_signal(signal.SIGTERM)
        becomes(c, "w-0", 503, "[-]staying failed: draining\n")
        c.resume("ps-0")


def a_data_root_that_goes_away_is_said():
    class Here(Cluster):
        def data_roots(self):
            return [f"--data-root={self.dir}/data"]

    with Here(psservers=0, workers=0, worker_args=OPS) as c:
        (c.dir / "data").mkdir()
        c.start("w-0")
        becomes(c, "w-0", 200, "[+]data ok")
        (c.dir / "data").rename(c.dir / "elsewhere")
        becomes(c, "w-0", 503, f"[-]data failed: {c.dir}/data: No such file")


class Small(Cluster):
    """Its psserver has a disk of its own for snapshots, of 8 MiB: a net's are 0.6 MiB,
    four are kept, one is written, and three that are gone may be mapped still by
    evaluations (TAGGED_MAX)."""

    def command(self, name):
        line = super().command(name)
        if not name.startswith("ps"):
            return line
        store = self.dir / "small"
        store.mkdir(exist_ok=True)
        return ["unshare", "-m", "sh", "-c",
                'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"', str(store), *line,
                "--store", str(store)]


def a_psserver_without_space_is_not_ready_and_recovers():
    with Small(psservers=1, workers=1, psserver_args=OPS) as c:
        job = c.submit(mlp_job(epochs=1000))
        c.wait_steps(job, 20)
        becomes(c, "ps-0", 200, "[+]space ok")
        with full_disk(c.processes["ps-0"], c.dir / "small"):
            becomes(c, "ps-0", 503, "[-]space failed: the last snapshot found no space")
            check(value(metrics(address(c, "ps-0")), "sluice_snapshots_total",
                        result="enospc") > 0, "the figure does not say so")
        becomes(c, "ps-0", 200, "[+]space ok")


def a_process_that_stands_still_does_not_answer():
    with cluster(psservers=0, workers=0) as c:
        where = address(c, "coordinator")
        c.pause("coordinator")
        check_equal(get(where, "/livez", limit_s=1)[0], 0, "/livez of a stopped process")
        c.resume("coordinator")
        wait_for("the coordinator to answer again",
                 lambda: get(where, "/livez")[0] == 200)


def a_wrong_address_ends_it_with_2():
    with socket.socket() as taken, tempfile.TemporaryDirectory() as folder:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for bind, words in ((f"127.0.0.1:{taken.getsockname()[1]}", "in use"),
                            ("nowhere", "not an address to listen on"),
                            ("example.org:80", "not an address to listen on")):
            done = subprocess.run(
                [str(BIN / "coordinator"), "--state", f"{folder}/c", "--listen",
                 f"unix:{folder}/sock", "--ops-bind", bind],
                capture_output=True, text=True, timeout=60, check=False)
            check_equal(done.returncode, 2, f"--ops-bind {bind}: {done.stderr}")
            check("--ops-bind" in done.stderr and words in done.stderr,
                  "it does not say why", done.stderr)


# A host of IPv6 alone, as in a cluster that has nothing else; what is after it runs there.
IPV6 = """ip link set lo up && ip -6 addr add fd00::7/128 dev lo nodad &&
ip -4 addr flush dev lo && exec "$@\""""


def ops_ipv6():
    """0.0.0.0 is every address of the host, as it is for gRPC: probes of a cluster with
    IPv6 alone reach it, and those of IPv4 where there is IPv4."""
    unshare = ["unshare", "--net"]
    if os.geteuid() != 0 or subprocess.run([*unshare, "true"], check=False,
                                           capture_output=True).returncode:
        print("no network namespace can be made here: left out")
        return
    for bind in ("0.0.0.0:9100", "[::]:9100"):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                [*unshare, "sh", "-c", IPV6, "sh", BIN / "coordinator", "--state",
                 f"{folder}/c", "--listen", f"unix:{folder}/s", "--ops-bind", bind],
                stderr=subprocess.DEVNULL)
            try:
                wait_for(f"{bind} to listen", lambda: process.poll() is not None or
                         pathlib.Path(folder, "c/ops.address").exists())

                def asked(url):
                    return subprocess.run(
                        ["nsenter", f"--net=/proc/{process.pid}/ns/net", sys.executable, "-c",
                         "import sys, urllib.request as u; "
                         "print(u.urlopen(sys.argv[1], timeout=60).status)", url],
                        check=False, capture_output=True, text=True).stdout.strip()
                check_equal(asked("http://[fd00::7]:9100/livez"), "200", f"{bind} over IPv6")
                check_equal(asked("http://127.0.0.1:9100/livez"), "", "IPv4, which is not there")
                subprocess.run(["nsenter", f"--net=/proc/{process.pid}/ns/net", "ip", "addr",
                                "add", "127.0.0.1/8", "dev", "lo"], check=True)
                check_equal(asked("http://127.0.0.1:9100/livez"), "200", f"{bind} over IPv4")
            finally:
                process.terminate()
                process.wait(timeout=60 * LIMIT)


def hostile_requests_leave_a_daemon_alive():
    with cluster(psservers=0, workers=0) as c:
        where = address(c, "coordinator")
        host, port = where.split(":")
        for text in (b"\0" * 4096, b"GET " + b"/x" * 40000 + b" HTTP/1.1\r\n\r\n",
                     b"GET /metrics HTTP/9.9\r\nHost: \xff\r\n\r\n",
                     b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
            with socket.create_connection((host, int(port)), timeout=60) as s:
                s.sendall(text)
        check_equal(get(where, "/livez"), (200, "ok\n"), "/livez")
        check_equal(get(where, "/../../etc/passwd")[0], 404, "a path above")
        check(c.processes["coordinator"].poll() is None, "the coordinator has ended")


ROLES = {"coordinator": "coordinator", "ps-0": "psserver", "worker-0": "worker"}


def wrong_port(where, more):
    """A coordinator's address that is a web server's: said, not waited for."""
    for words in (("status",), ("submit", ROOT / "examples" / "toy.yaml")):
        done = subprocess.run([BIN / "sluice", "--coordinator", where, "--timeout", "10m", *words],
                              capture_output=True, text=True, timeout=120, check=False)
        check_equal(done.returncode, 2, f"exit: {done.stderr}")
        check(f"{where}: what answers there speaks HTTP/1 and is no gRPC server{more}"
              in done.stderr and "Waiting" not in done.stderr, done.stderr)


def wrong_port_of_a_web_server():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wrong_port("127.0.0.1:%d" % server.server_port, "; ")
        server.shutdown()


def up_gives_each_daemon_one():
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [str(BIN / "sluice"), "up", "--dir", f"{folder}/c", "--psservers", "1",
             "--workers", "1", "--listen", f"unix:{folder}/s"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said = [process.stdout.readline() for _ in range(3)]
            where = pathlib.Path(folder, "c/coordinator/ops.address").read_text().strip()
            check_equal(said[2], f"Look:  http://{where}/ (and /metrics, /readyz?verbose)\n",
                        "the third line")
            for name in ("coordinator", "ps-0", "worker-0"):
                where = pathlib.Path(folder, f"c/{name}/ops.address")
                wait_for(f"{name} to open its ops port", where.exists)
                where = where.read_text().strip()
                wait_for(f"{name} to be ready", lambda: get(where, "/readyz")[0] == 200)
                wrong_port(where, f": it is the ops port of a {ROLES[name]}; ")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60 * LIMIT)
        check_equal(list(pathlib.Path(folder, "c").glob("*/ops.address")), [], "left behind")


def all_of(c, role):
    """The figures of every member of a role that is there."""
    return [metrics(address(c, name)) for name in c.processes if name.startswith(role)]


def total(found, name, **labels):
    return sum(value(one, name, **labels) for one in found)


def histograms_add_up(found):
    """What promtool does not look at: buckets rise, the last is the count."""
    last = {}
    for (name, labels), number in found.items():
        if name.endswith("_bucket"):
            series = (name, tuple(l for l in labels if l[0] != "le"))
            check(number >= last.get(series, 0), f"{series} falls")
            last[series] = number
    for (name, labels), number in last.items():
        check_equal(found[(name[:-len("bucket")] + "count", labels)], number,
                    f"the last bucket of {name} {labels}")


def the_page_has_each_figure():
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder, Cluster(
            psservers=1, workers=1, coordinator_args=(*OPS, "--metrics-per-job"),
            psserver_args=(*OPS, "--rows-dir", folder, "--rows-disk", "1GiB"),
            worker_args=OPS) as c:
        made = catalogue.table({role: get(address(c, name), "/metrics")[1] for role, name in
                                zip(catalogue.ROLES, ("coordinator", "ps-0", "w-0"))})
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").splitlines()
    missing = [line for line in made if line not in page]
    check(not missing, "docs/operations.md lacks (tests/system/catalogue.py)", *missing)
    extra = [line for line in page if line.startswith(("| `sluice_", "| `process_"))
             and line not in made]
    check(not extra, "docs/operations.md has what no daemon says", *extra)


def figures_of_a_job_are_its_counts():
    with cluster(lasting=True, psservers=2, workers=2) as c:
        before = metrics(address(c, "coordinator"))
        job = c.submit(mlp_job(samples=3200, epochs=2, steps_per_closure=10))
        status = c.wait_state(job)
        steps, samples = int(status["steps_asked"]), 2 * 3200
        shards = status["shards"]

        def all_ready():
            boss = metrics(address(c, "coordinator"))
            return boss if 2 == value(boss, "sluice_workers", state="ready") == value(
                boss, "sluice_psservers", state="ready") else None
        boss = wait_for("two workers and two psservers to be ready", all_ready)
        servers, workers = all_of(c, "ps"), all_of(c, "w")
        for found in (boss, *servers, *workers):
            histograms_add_up(found)
        check_equal(value(before, "sluice_samples_counted_total"), 0, "samples before")
        check_equal(value(boss, "sluice_build_info", role="coordinator"), 1, "build info")
        check_equal(value(boss, "sluice_samples_counted_total"), samples, "samples")
        check_equal(value(boss, "sluice_closures_finished_total", result="counted"),
                    int(status["closures_counted"]), "closures")
        check_equal(value(boss, "sluice_closure_retries_total"),
                    int(status["closures_retried"]), "closures retried")
        check_equal(value(boss, "sluice_cuts_total", result="published"),
                    int(status["cuts"]), "cuts")
        check_equal(value(boss, "sluice_jobs", state="finished"), 1, "jobs finished")
        check_equal(value(boss, "sluice_coordinator_term"), int(status["term"]), "term")
        check_equal(value(boss, "sluice_rpc_requests_total", method="Submit", code="OK"),
                    1, "calls of Submit")
        check(value(boss, "sluice_journal_commit_seconds_count") > 0, "no commit was seen")
        applied = sum(int(s["counts"]["applied"]) for s in shards)
        check_equal(applied, steps * len(shards), "updates applied")
        check_equal(total(servers, "sluice_pushes_total", result="applied"), applied, "pushes")
        check_equal(total(servers, "sluice_apply_seconds_count"), applied, "applies")
        check(total(servers, "sluice_snapshots_total", result="written") >= len(shards),
              "fewer snapshots than one of each shard")
        check_equal(total(workers, "sluice_steps_total", result="counted"), steps, "steps")
        check_equal(total(workers, "sluice_samples_total"), samples, "samples of workers")
        check_equal(total(workers, "sluice_staleness_updates_count"), applied, "staleness")
        for phase in ("input", "pull", "compute", "push"):
            check_equal(total(workers, "sluice_step_seconds_count", phase=phase), steps,
                        f"steps that have spent {phase}")


def figures_of_what_goes_wrong():
    with cluster(lasting=True, psservers=1, workers=1) as c:
        c.start("w-1", extra=["--preempt-source", f"file:{c.dir}/going"])
        job = c.submit(mlp_job(epochs=200, steps_per_closure=10))
        c.wait_steps(job, 20)
        slots = value(metrics(address(c, "ps-0")), "sluice_parameter_bytes", kind="slots")
        values = value(metrics(address(c, "ps-0")), "sluice_parameter_bytes", kind="values")
        check_equal((values, slots), (4 * 50890, 8 * 50890), "bytes of adam's net")
        check(total(all_of(c, "w"), "sluice_device_memory_bytes", kind="used") > 4 * 50890,
              "the job takes no memory of a worker")
        (c.dir / "going").touch()
        wait_for("w-1 to end", lambda: c.processes["w-1"].poll() is not None)
        c.kill("w-1")
        c.kill("w-0")

        def noticed():
            boss = metrics(address(c, "coordinator"))
            return value(boss, "sluice_workers", state="ready") == 0 and boss
        boss = wait_for("the coordinator to miss both", noticed)
        check_equal(value(boss, "sluice_worker_preemptions_total", source="file"), 1,
                    "preemptions by the file")
        check_equal(value(boss, "sluice_worker_preemptions_total"), 1, "preemptions")
        c.start("w-2")
        c.wait_steps(job, c.steps(job) + 20)

        def agree():  # the one may be read before another retry, and the other after it
            boss, status = metrics(address(c, "coordinator")), c.status(job)
            return [int(status["closures_retried"])] * 2 == [
                value(boss, "sluice_closure_retries_total"),
                value(boss, "sluice_closure_retries_total", reason="lost")]
        wait_for("retries, all of them of a killed worker", agree)
        c.kill("ps-0")
        wait_for("the psserver to be missed", lambda: value(
            metrics(address(c, "coordinator")), "sluice_psservers", state="lost") == 1)


def left_of(c, name):
    """Seconds of the notice; None: there is none, or none that says when."""
    found = metrics(address(c, name))
    return found.get(("sluice_preemption_notice_remaining_seconds", ()))


def a_notice_counts_down():
    with cluster(psservers=1, workers=0) as c:
        going = c.dir / "going"
        going.touch()  # it says nothing of a time
        c.start("w-0", extra=["--preempt-source", f"file:{going}"])
        becomes(c, "w-0", 503, "[-]notice failed")
        check_equal(left_of(c, "w-0"), None, "seconds of a notice without a time")
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        ends = now + datetime.timedelta(seconds=500)

        def say(text):
            (c.dir / "next").write_text(text)
            (c.dir / "next").rename(going)
        say(f"{ends:%Y-%m-%dT%H:%M:%SZ}\n")
        left = wait_for("a time", lambda: left_of(c, "w-0"))
        check(490 - 60 < left <= 500, "seconds that are left", left)
        check(wait_for("them to be fewer", lambda: left_of(c, "w-0") < left), left)
        say(f"{now - datetime.timedelta(seconds=5):%Y-%m-%dT%H:%M:%SZ}")
        wait_for("none to be left", lambda: left_of(c, "w-0") == 0)
        say("soon")
        wait_for("no time", lambda: left_of(c, "w-0") is None)
        going.unlink()
        becomes(c, "w-0", 200, "[+]notice ok")
        check_equal(left_of(c, "w-0"), None, "seconds without a notice")


def clouds_say_how_long():
    ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=900)
    with Clouds(name="vm-0") as clouds, cluster(psservers=0, workers=0) as c:
        clouds.set("aws", {"action": "terminate", "time": f"{ends:%Y-%m-%dT%H:%M:%SZ}"})
        clouds.set("preempted", "TRUE")
        clouds.set("events", [{"EventId": "one", "EventType": "Preempt", "Resources": ["vm-0"],
                               "NotBefore": f"{ends:%a, %d %b %Y %H:%M:%S GMT}"}])
        for name, source, most in (("w-0", ["aws"], 900), ("w-1", ["gcp"], 30), ("w-3", ["gcp,aws"], 30),
                                   ("w-2", ["azure", f"--azure-imds-endpoint={clouds.url}"], 900)):
            c.start(name, extra=["--preempt-source", *source],
                    environment={"AWS_EC2_METADATA_SERVICE_ENDPOINT": clouds.url,
                                 "GCE_METADATA_HOST": clouds.address})
            becomes(c, name, 503, "[-]notice failed")
            left = wait_for("all to be heard", lambda: (lambda s: s is not None and s <= most and s)(
                left_of(c, name)))
            check(most / 2 - 15 < left, f"{source}: seconds that are left", left)


def a_gpu_says_how_much_memory_it_has():
    with Emulated(psservers=1, workers=0) as c:
        c.start("w-0", extra=OPS)
        job = c.submit(mlp_job(samples=320, epochs=1))
        c.wait_state(job)
        listed = subprocess.run([BIN / "worker-emul", "--list-devices", "--log-format", "json"],
                                capture_output=True, text=True, check=True).stdout
        total_ = value(metrics(address(c, "w-0")), "sluice_device_memory_bytes", kind="total")
        check(f"{int(total_) >> 20} MiB" in listed, f"{total_} bytes in all", listed)


def figures_of_single_jobs_are_there_if_asked_for_and_bounded():
    with cluster(psservers=1, workers=1) as c:
        check(not [n for n, _ in metrics(address(c, "coordinator")) if "sluice_job_" in n],
              "unasked for")
    with Cluster(psservers=1, workers=1, coordinator_args=(*OPS, "--metrics-per-job"),
                 psserver_args=OPS, worker_args=OPS) as c:
        where = address(c, "coordinator")
        jobs = [c.submit(mlp_job("first", epochs=1000, steps_per_closure=10))]
        c.wait_steps(jobs[0], 20)
        jobs += [c.submit(mlp_job(f"more-{n}", epochs=1000), "--queue") for n in range(33)]

        def series(found, name):
            return {dict(labels)["id"]: v for (n, labels), v in found.items() if n == name}
        first = jobs[0]

        def trains():  # at the moment, and has a cut
            status, found, later = c.status(first), metrics(where), c.status(first)
            return (status, found, later) if (
                series(found, "sluice_job_workers").get(first) == 1 and
                series(found, "sluice_job_samples_per_second").get(first, 0) > 0 and
                first in series(found, "sluice_job_cut_age_seconds")) else None
        status, found, later = wait_for("its worker, samples and the age of a cut", trains)
        steps = series(found, "sluice_job_steps")
        check_equal(set(steps), set(jobs[:32]), "jobs with figures: the oldest 32")
        check_equal(value(found, "sluice_jobs_without_figures"), 2, "without")
        check(int(status["steps_counted"]) <= steps[first] <= int(later["steps_counted"]), "steps",
              status["steps_counted"], steps[first], later["steps_counted"])
        check_equal(series(found, "sluice_job_progress_ratio")[first],
                    steps[first] / int(status["steps_asked"]), "progress")
        check(0 < series(found, "sluice_job_loss")[first] < 10, "loss", found)
        check(0 < series(found, "sluice_job_accuracy_ratio")[first] <= 1, "accuracy")

        def retries():  # of whichever has the lease, if it was begun
            c.wait_steps(first, c.steps(first) + 1)
            c.restart("w-0")
            return sum(series(metrics(where), "sluice_job_closure_retries_total").values())
        wait_for("a retry", retries)
        c.kill("w-0")  # so that there are no more of them
        wait_for("it to be missed", lambda: not value(
            metrics(where), "sluice_workers", state="ready"))
        check_equal(sum(series(metrics(where), "sluice_job_closure_retries_total").values()),
                    sum(int(s["closures_retried"]) for s in c.json("jobs", "--limit", 100)["jobs"]),
                    "retries")
        c.run("stop", first, "--now")
        wait_for("the series of a job that has ended to go",
                 lambda: first not in series(metrics(where), "sluice_job_steps"))
        found = metrics(where)
        check(jobs[32] in series(found, "sluice_job_steps"), "the next in its place", found)
        check_equal(value(found, "sluice_jobs_without_figures"), 1, "without, then")


def figures_of_certificates_and_refusals():
    with Guarded([("viewer", "vic")], psservers=0, workers=0, coordinator_args=OPS) as c:
        c.run("stop", "j-1", who="viewer-vic", want=5)
        found = metrics(address(c, "coordinator"))
        check_equal(value(found, "sluice_refused_total", reason="auth"), 1, "refusals")
        check_equal(value(found, "sluice_rpc_requests_total", method="Stop",
                          code="PERMISSION_DENIED"), 1, "answers to Stop")
        ends = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in",
                               c.certs / "coordinator.crt"], check=True, text=True,
                              capture_output=True).stdout.strip().split("=")[1]
        want = datetime.datetime.strptime(ends, "%b %d %H:%M:%S %Y %Z")
        check_equal(value(found, "sluice_tls_certificate_expiry_timestamp_seconds", file="cert"),
                    want.replace(tzinfo=datetime.timezone.utc).timestamp(), "the end")


if __name__ == "__main__":
    main([
        members_without_a_coordinator_live_and_are_not_ready,
        a_drain_and_a_notice_are_not_ready,
        a_data_root_that_goes_away_is_said,
        a_psserver_without_space_is_not_ready_and_recovers,
        a_process_that_stands_still_does_not_answer,
        a_wrong_address_ends_it_with_2,
        ops_ipv6,
        hostile_requests_leave_a_daemon_alive,
        up_gives_each_daemon_one,
        wrong_port_of_a_web_server,
        the_page_has_each_figure,
        figures_of_a_job_are_its_counts,
        figures_of_what_goes_wrong,
        figures_of_certificates_and_refusals,
        a_notice_counts_down,
        clouds_say_how_long,
        figures_of_single_jobs_are_there_if_asked_for_and_bounded,
    ] + [a_gpu_says_how_much_memory_it_has] * (BIN / "worker-emul").exists())
