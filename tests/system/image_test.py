#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/Containerfile, built without a registry by deploy/image
and run as a cluster runs it: a root that cannot be written, UID 65532, no
capability; then the pods of deploy/kubernetes, as far as podman can be a kubelet.
A minute, as root; by hand.

    SLUICE_BIN=build/bin build/venv/bin/python tests/system/image_test.py

SLUICE_BUILD is the build that it packs (build). Skipped where mmdebstrap,
buildah, podman, runc or kubectl is not installed."""
import base64
import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import manifests_test
from cluster import ROOT, check, check_equal, main, wait_for

BUILD = os.environ.get("SLUICE_BUILD", str(ROOT / "build"))
TAG = "localhost/sluice:test"
TOOLS = ("mmdebstrap", "buildah", "podman", "runc", "kubectl")


def call(*words, want=0, limit_s=300):
    done = subprocess.run([str(w) for w in words], text=True, capture_output=True,
                          timeout=limit_s, check=False)
    check(want is None or done.returncode == want, f"{words}: ended with {done.returncode}",
          done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout.strip()


class Container:
    """with Container("up", ...) as c: one process tree in the image."""

    def __init__(self, *words, entry=None, more=("--network=none",)):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        options = ["--runtime=runc", "--read-only", "--read-only-tmpfs=false",
                   "--cap-drop=all", "--security-opt=no-new-privileges",
                   # Not above this host's own, which not every root may exceed.
                   f"--ulimit=nofile={files}:{files}", "--ulimit=nproc=4096:4096"]
        if entry:
            options.append(f"--entrypoint={entry}")
        self.id = call("podman", "run", "--detach", *options, *more, TAG, *words)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        call("podman", "rm", "--force", "--time=0", "--volumes", self.id)

    def do(self, *words, want=0):
        return call("podman", "exec", self.id, *words, want=want)

    def logs(self):
        done = subprocess.run(["podman", "logs", self.id], text=True, capture_output=True,
                              check=False)
        return done.stdout + done.stderr

    def wait_log(self, words, limit_s=60):
        def probe():
            if words in self.logs():
                return True
            check(call("podman", "inspect", "--format={{.State.Running}}", self.id) == "true",
                  "it has ended", self.logs())
            return False
        wait_for(f"'{words}'", probe, limit_s)

    def end(self):
        """SIGTERM; the exit code and what it said."""
        call("podman", "kill", "--signal=TERM", self.id)
        return int(call("podman", "wait", self.id, limit_s=60)), self.logs()


def the_image_is_built_without_a_registry():
    call(ROOT / "deploy" / "image", "--build", BUILD, "--tag", TAG, limit_s=900)
    told, = json.loads(call("podman", "inspect", "--type=image", TAG))
    config = told["Config"]
    check_equal((config["User"], config["StopSignal"], config["Entrypoint"]),
                ("65532:65532", "SIGTERM", ["/usr/bin/sluice"]), "of the image")


def a_job_is_trained_inside_and_sigterm_ends_all_in_order():
    with Container("up", "--psservers", "1", "--workers", "2", "--threads", "1",
                   "--dir", "/var/lib/sluice/cluster") as c:
        c.wait_log("sluice submit")
        # Who it is, and what it may.
        status = c.do("cat", "/proc/1/status")
        check("Uid:\t65532\t65532\t65532\t65532" in status, "another user", status)
        for line in ("CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
            check(line in status, f"no '{line}'", status)
        check_equal(c.do("cat", "/proc/1/cmdline").split("\0")[0], "/usr/bin/sluice", "process 1")
        for path in ("/x", "/tmp/x", "/usr/bin/x"):
            c.do("/bin/sh", "-c", f"! echo > {path} 2>/dev/null")
        # examples/toy.yaml, as it stands.
        subprocess.run(["podman", "exec", "--interactive", c.id, "/bin/sh", "-c",
                        "cat >/var/lib/sluice/job.yaml"], check=True,
                       input=(ROOT / "examples" / "toy.yaml").read_bytes())
        c.do("/usr/bin/sluice", "submit", "/var/lib/sluice/job.yaml",
             "--summary", "/var/lib/sluice/summary.json")
        told = json.loads(c.do("cat", "/var/lib/sluice/summary.json"))
        check_equal((told["state"], told["once"], told["cover"]), ("finished", True, True), "job")
        check_equal(told["steps_counted"], told["steps_asked"], "steps")
        # And another one, in whose midst all is told to end.
        job = c.do("/usr/bin/sluice", "submit", "/var/lib/sluice/job.yaml", "--no-wait",
                   "--set", "train.epochs=200")
        wait_for("its first steps", lambda: int(json.loads(c.do(
            "/usr/bin/sluice", "-o", "json", "status", job))["steps_counted"]) > 0)
        code, said = c.end()
        check_equal(code, 0, f"of `sluice up` after SIGTERM: {said[-800:]}")
        check("Stopped; state and checkpoints are in" in said, "not in order", said[-800:])


def a_daemon_is_process_1_and_drains():
    with Container("--state=/var/lib/sluice", "--ops-bind=127.0.0.1:9100",
                   entry="/usr/bin/sluice-coordinator") as c:
        c.wait_log('"msg":"coordinator serves"')
        check(pathlib.Path(f"/proc/{call('podman', 'inspect', '--format={{.State.Pid}}', c.id)}"
                           "/cmdline").read_bytes().startswith(b"/usr/bin/sluice-coordinator"), "process 1")
        code, said = c.end()
        check_equal(code, 0, f"as process 1 a daemon ends with 0: {said[-800:]}")
    with Container("run", "--discover=static", "--role=coordinator",
                   "--dir=/var/lib/sluice/cluster") as c:
        c.wait_log('"msg":"coordinator serves"')
        check_equal(c.end()[0], 0, "`sluice run` becomes its daemon")


class Pods:
    """The pods of a rendering, each with an address of its own on podman's bridge,
    the names that a cluster's DNS would give, and Secrets as files of the group."""
    ADDRESSES = {"coordinator-0": "10.88.77.10", "psserver-0": "10.88.77.11",
                 "worker-a": "10.88.77.12", "worker-b": "10.88.77.13", "train": "10.88.77.14"}

    def __init__(self, folder, objects):
        self.folder, self.objects = folder, objects
        self.running = contextlib.ExitStack()
        hosts = ["127.0.0.1 localhost"]
        for name, address in self.ADDRESSES.items():
            role, _, number = name.partition("-")
            full = f"{name}.{role}.sluice.svc.cluster.local " if number == "0" else ""
            hosts.append(f"{address} {full}{name}")
        hosts.append(f"{self.ADDRESSES['coordinator-0']} coordinator")
        (folder / "hosts").write_text("\n".join(hosts) + "\n")

    def files(self, volume):
        """A Secret or ConfigMap as the kubelet lays it out."""
        kind, key = ("Secret", "secretName") if "secret" in volume else ("ConfigMap", "name")
        wanted = volume.get("secret", volume.get("configMap"))[key]
        o, = [o for o in self.objects
              if o["kind"] == kind and o["metadata"]["name"] == wanted]
        made = self.folder / wanted
        made.mkdir(exist_ok=True)
        for name, text in o["data"].items():
            file = made / name
            file.write_bytes(base64.b64decode(text) if kind == "Secret" else text.encode())
            os.chown(file, 0, 65532)
            file.chmod(volume.get("secret", {}).get("defaultMode", 0o644))
        return made

    def start(self, name):
        role = name.partition("-")[0]
        o, = [o for o in self.objects if o["metadata"]["name"] == role and
              o["kind"] in ("StatefulSet", "Deployment", "Job")]
        spec = o["spec"]["template"]["spec"]
        c, = spec["containers"]
        more = [f"--ip={self.ADDRESSES[name]}", f"--hostname={name}", "--network=podman",
                "--no-hosts", f"--volume={self.folder}/hosts:/etc/hosts:ro"]
        for volume in spec["volumes"]:
            mount, = [m for m in c["volumeMounts"] if m["name"] == volume["name"]]
            if "emptyDir" not in volume:
                more.append(f"--volume={self.files(volume)}:{mount['mountPath']}:ro")
            elif mount["mountPath"] != "/var/lib/sluice": # which is a volume of the image
                more.append(f"--tmpfs={mount['mountPath']}")
        args = [a.replace("$(POD_NAME)", name).replace("$(SUBMISSION)", "uid-1")
                for a in c["args"]]
        return self.running.enter_context(Container(*args, entry=c["command"][0], more=more))


def is_ready(name):
    """As the kubelet asks."""
    try:
        with urllib.request.urlopen(f"http://{Pods.ADDRESSES[name]}:9100/readyz", timeout=5) as r:
            return r.status == 200
    except OSError:
        return False


def the_pods_of_the_dev_overlay_train_with_their_certificates():
    with tempfile.TemporaryDirectory(prefix="sluice-pods-") as room:
        room = pathlib.Path(room)
        folder = manifests_test.make_folder(room / "kubernetes")
        pods = Pods(room, manifests_test.render(folder, "overlays/dev") +
                    manifests_test.render(folder, "train"))
        with pods.running:
            started = {name: pods.start(name) for name in pods.ADDRESSES if name != "train"}
            for name in started:
                wait_for(f"{name} to be ready", lambda name=name: is_ready(name))
            train = pods.start("train")
            code = call("podman", "wait", train.id, limit_s=300)
            check_equal(code, "0", train.logs()[-2000:])
            check("finished" in train.logs(), train.logs()[-2000:])
            for name in ("worker-a", "psserver-0", "coordinator-0"):
                check_equal(started[name].end()[0], 0, name)


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print(f"skipped: wants root, and {' '.join(missing or TOOLS)} "
              f"(apt-get install {' '.join(TOOLS[:-1])} kubernetes-client)")
        sys.exit(77)
    main([the_image_is_built_without_a_registry,
          a_job_is_trained_inside_and_sigterm_ends_all_in_order,
          a_daemon_is_process_1_and_drains,
          the_pods_of_the_dev_overlay_train_with_their_certificates])
