#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes as a cluster would get it: rendered by kubectl's own
kustomize, held against Kubernetes' schemas, against the programs of this build
and against what deploy/kubernetes/README.md promises.

Skipped where there is no kubectl (Debian: kubernetes-client), or no
kubernetes-validate (tools/python-env)."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from cluster import BIN, ROOT, Failed, check, check_equal, main

KUBERNETES = ROOT / "deploy" / "kubernetes"
HA = "overlays/ha"  # with standby coordinators
SCALE = "overlays/scale"  # the same, with an autoscaler
SHARED = (HA, SCALE)  # one store for all
OVERLAYS = ("overlays/dev", "overlays/spot", "overlays/gpu", *SHARED)
# Each of those again, with cert-manager's certificates in place of Secrets.
MANAGED = tuple(f"{name}-cert-manager" for name in OVERLAYS)
BESIDE = ("train", "ring", "tls/cert-manager", "tfjob")
# Of others, whose schemas are not in the package.
FOREIGN = {"cert-manager.io/v1", "kubeflow.org/v1"}
# The oldest whose podFailurePolicy is as it has stayed, and a new one.
VERSIONS = ("1.29", "1.37")
# What the README's commands make: a folder, and its hosts.
MADE = re.compile(r"cert init deploy/kubernetes/(\S+)((?:[ \\\n]+--host \S+)+)")
HOSTS = re.compile(r"--host '?([^' \\\n]+)'?")
SPOT = {"cloud.google.com/gke-spot": "true", "kubernetes.azure.com/scalesetpriority": "spot",
        "eks.amazonaws.com/capacityType": "SPOT", "karpenter.sh/capacity-type": "spot"}
ROLE = "app.kubernetes.io/component"
# Which role serves the methods of which file of proto/, and at which port.
SERVED = {"coord": ("coordinator", 7070), "jobs": ("coordinator", 7070),
          "tasks": ("coordinator", 7070), "ps": ("psserver", 7071), "ranks": ("worker", None)}
PEOPLE = ("admin", "submitter", "viewer")  # they dial from pods of the role client
MAY_CALL = re.compile(r"may_call: \[?([A-Z, ]+)")


def make_folder(folder):
    """deploy/kubernetes with certificates, by the lines of its README."""
    shutil.copytree(KUBERNETES, folder, ignore=shutil.ignore_patterns("certs"))
    made = MADE.findall((KUBERNETES / "README.md").read_text())
    check_equal([where for where, _ in made], ["tls/plain/certs", "tls/etcd-plain/certs"],
                "authorities of the README")
    for where, hosts in made:
        subprocess.run([BIN / "sluice", "cert", "init", folder / where,
                        *(word for host in HOSTS.findall(hosts) for word in ("--host", host))],
                       check=True, capture_output=True)
    return folder


def render(folder, name):
    import yaml
    done = subprocess.run(["kubectl", "kustomize", str(folder / name)], text=True,
                          capture_output=True, timeout=60, check=False)
    check_equal(done.returncode, 0, f"kubectl kustomize {name}: {done.stderr}")
    return [o for o in yaml.safe_load_all(done.stdout) if o]


class Rendered:
    """Everything, rendered once."""
    folder = None
    all = {}

    @classmethod
    def take(cls, room):
        cls.folder = make_folder(room / "kubernetes")
        cls.all = {name: render(cls.folder, name) for name in OVERLAYS + MANAGED + BESIDE}


def objects():
    for name, found in Rendered.all.items():
        for o in found:
            yield f"{name}: {o['kind']}/{o['metadata']['name']}", o


def pods(names=None):
    """(where, template) of each pod that is asked for."""
    for name, found in Rendered.all.items():
        for o in found:
            if names and name not in names:
                continue
            where = f"{name}: {o['kind']}/{o['metadata']['name']}"
            if o["kind"] == "TFJob":
                for kind, replica in o["spec"]["tfReplicaSpecs"].items():
                    yield f"{where}/{kind}", replica["template"]
            elif "template" in o.get("spec", {}):
                yield where, o["spec"]["template"]


def of_kind(name, kind):
    return {o["metadata"]["name"]: o for o in Rendered.all[name] if o["kind"] == kind}


def args_of(container):
    return dict(a[2:].partition("=")[::2] for a in container.get("args", []) if a.startswith("--"))


def program_of(container):
    """By its name in the build tree; an image has daemons as packages have them."""
    name = pathlib.Path(container["command"][0]).name
    if name == "etcd":
        return name
    check(name == "sluice" or name.startswith("sluice-"), f"{name} is in no image")
    return name.removeprefix("sluice-")


# ---- schemas

def each_object_fits_its_schema():
    import kubernetes_validate
    count = 0
    for where, o in objects():
        if o["apiVersion"] in FOREIGN:
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(o, version, strict=True)
                count += 1
            except kubernetes_validate.ValidationError as error:
                raise Failed(f"{where} ({version}): {error.message} at {list(error.path)}") from error
    check(count > 100, f"only {count} were looked at")
    # What this test would not see, it would not find either.
    broken = json.loads(json.dumps(of_kind("overlays/dev", "StatefulSet")["psserver"]))
    broken["spec"]["replica"] = 1
    try:
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise Failed("a wrong key was not found")


# ---- pods

def no_pod_may_more_than_it_needs():
    for where, template in pods():
        spec = template["spec"]
        pod, own = spec.get("securityContext", {}), spec["containers"]
        check(spec.get("serviceAccountName") == "sluice" and
              spec.get("automountServiceAccountToken") is False, f"{where}: API server's token")
        check_equal((pod.get("runAsNonRoot"), pod.get("runAsUser"), pod.get("runAsGroup"),
                     pod.get("seccompProfile")),
                    (True, 65532, 65532, {"type": "RuntimeDefault"}), where)
        check(not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")), where)
        for c in own + spec.get("initContainers", []):
            may = c.get("securityContext", {})
            check_equal((may.get("allowPrivilegeEscalation"), may.get("readOnlyRootFilesystem"),
                         may.get("capabilities")), (False, True, {"drop": ["ALL"]}), where)
            check("limits" in c.get("resources", {}), f"{where}: no limits")
            written = {m["mountPath"] for m in c.get("volumeMounts", []) if not m.get("readOnly")}
            state = args_of(c).get("state")
            check(state is None or state in written, f"{where}: {state} cannot be written")
    for name in OVERLAYS:
        labels = of_kind(name, "Namespace")["sluice"]["metadata"]["labels"]
        check_equal(labels["pod-security.kubernetes.io/enforce"], "restricted", name)


def probes_ask_the_port_that_the_args_open():
    asked = 0
    for where, template in pods(OVERLAYS + ("ring", "tfjob")):
        for c in template["spec"]["containers"]:
            if program_of(c) == "etcd":
                continue
            stands_by = where.startswith(SHARED) and program_of(c) == "coordinator"
            port = int(args_of(c)["ops-bind"].rpartition(":")[2])
            names = {p["name"]: p["containerPort"] for p in c["ports"]}
            for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"),
                                ("readinessProbe", "/livez" if stands_by else "/readyz")):
                get = c[probe]["httpGet"]
                check_equal((names.get(get["port"], get["port"]), get["path"]), (port, path),
                            f"{where}: {probe}")
                asked += 1
            check(c["startupProbe"]["failureThreshold"] * c["startupProbe"]["periodSeconds"] >= 300,
                  f"{where}: too little time to start")
            live = c["livenessProbe"]
            check_equal((live["periodSeconds"], live["failureThreshold"]), (10, 3), where)
    check(asked >= 30, f"only {asked} probes")


def each_flag_is_one_of_the_programs():
    help_of = {}

    def flags(*words):
        if words not in help_of:
            program = "/usr/bin/etcd" if words[0] == "etcd" else BIN / words[0]
            told = subprocess.run([program, *words[1:], "--help"], text=True, check=True,
                                  capture_output=True).stdout
            help_of[words] = set(re.findall(r"--([a-z][a-z-]*)", told))
        return help_of[words]

    seen = 0
    for where, template in pods():
        for c in template["spec"]["containers"]:
            program = program_of(c)
            if program == "etcd" and not os.access("/usr/bin/etcd", os.X_OK):
                continue
            words = (program,)
            if program == "sluice":
                words = (program, c["args"][0])
            for arg in c["args"]:
                if arg == "--": # sluice run: the rest is the daemon's
                    words = ("worker",)
                elif arg.startswith("--"):
                    flag = arg[2:].partition("=")[0]
                    check(flag in flags(*words), f"{where}: {program} has no --{flag}")
                    seen += 1
    check(seen > 80, f"only {seen} flags")


def the_programs_take_their_args():
    """As the kubelet would start them, but for DNS and the files of a pod."""
    for where, template in pods(OVERLAYS):
        c = template["spec"]["containers"][0]
        if program_of(c) == "etcd":
            continue
        args = [a.replace("$(POD_NAME)", "worker-abc") for a in c["args"]]
        args = ["--discover=static" if a == "--discover=dns" else a for a in args]
        done = subprocess.run([BIN / program_of(c), *args, "--print-config"],
                              text=True, capture_output=True, timeout=30, check=False)
        check_equal(done.returncode, 0, f"{where}: {done.stderr}")
        check("/etc/sluice/tls/tls.crt" in done.stdout, f"{where}: {done.stdout}")


# ---- what names what

def whatever_is_named_is_there():
    for name in OVERLAYS:
        with_it = Rendered.all[name] + [o for other in ("train", "ring", "tfjob")
                                        for o in Rendered.all[other]]
        there = {(o["kind"], o["metadata"]["name"]) for o in with_it}
        for o in with_it:
            where = f"{name}: {o['kind']}/{o['metadata']['name']}"
            check(o["kind"] == "Namespace" or o["metadata"].get("namespace") == "sluice", where)
            if o["kind"] == "StatefulSet":
                check(("Service", o["spec"]["serviceName"]) in there, f"{where}: no Service")
        for where, template in list(pods((name, "train", "ring", "tfjob"))):
            spec = template["spec"]
            check(("ServiceAccount", spec["serviceAccountName"]) in there, where)
            if "subdomain" in spec:
                check(("Service", spec["subdomain"]) in there, f"{where}: no Service")
            for v in spec.get("volumes", []):
                if "secret" in v:
                    check(("Secret", v["secret"]["secretName"]) in there, f"{where}: {v}")
                if "configMap" in v:
                    check(("ConfigMap", v["configMap"]["name"]) in there, f"{where}: {v}")
            mounts = {m["name"] for c in spec["containers"] for m in c["volumeMounts"]}
            claims = {"state"} if "StatefulSet" in where else set()
            check_equal(mounts, {v["name"] for v in spec["volumes"]} | claims, where)
            for c in spec["containers"]:
                for one in args_of(c).get("coordinator", "coordinator:7070").split(","):
                    is_served(name, where, one)


def is_served(name, where, address):
    """host:port of a service, or of the pod of one that has names."""
    host, _, port = address.partition(":")
    words = host.removesuffix(".sluice.svc.cluster.local").split(".")
    serves = of_kind(name, "Service").get(words[-1])
    check(serves and int(port) in {p["port"] for p in serves["spec"]["ports"]},
          f"{where}: nobody is {address}")
    if len(words) == 2:
        role, _, number = words[0].rpartition("-")
        pods_of = of_kind(name, "StatefulSet")[role]["spec"]["replicas"]
        check(role == words[1] and int(number) < pods_of, f"{where}: no pod is {words[0]}")


def standby_coordinators_find_etcd_and_each_other():
    sets = of_kind(HA, "StatefulSet")
    args = args_of(sets["coordinator"]["spec"]["template"]["spec"]["containers"][0])
    listed = re.fullmatch(r"etcd://(\S+)/sluice", args["journal"])[1].split(",")
    check_equal(len(listed), sets["etcd"]["spec"]["replicas"], "members of etcd")
    for address in listed:
        is_served(HA, "--journal", address)
    etcd = args_of(sets["etcd"]["spec"]["template"]["spec"]["containers"][0])
    check_equal([f"https://{a}" for a in listed],
                [etcd["advertise-client-urls"].replace("$(POD_NAME)", f"etcd-{i}")
                 for i in range(3)], "addresses that etcd tells")
    own = [args["advertise"].replace("$(POD_NAME)", f"coordinator-{i}")
           for i in range(sets["coordinator"]["spec"]["replicas"])]
    for where, template in pods((HA,)):
        for c in template["spec"]["containers"]:
            if program_of(c) in ("psserver", "worker"):
                check_equal(args_of(c)["coordinator"], ",".join(own), where)
    stores = {args_of(t["spec"]["containers"][0]).get("store") for w, t in pods((HA,))
              if "StatefulSet" in w and "etcd" not in w}
    check_equal(len(stores), 1, f"stores: {stores}")
    for pem, key in (("ca.pem", "ca.crt"), ("cert.pem", "tls.crt"), ("key.pem", "tls.key")):
        items = [v["secret"]["items"] for v in
                 sets["coordinator"]["spec"]["template"]["spec"]["volumes"]
                 if v["name"] == "etcd"][0]
        check({"key": key, "path": pem} in items, f"{pem} is not {key}", items)


def selectors_choose_the_pods_that_they_mean():
    for name in OVERLAYS:
        roles = [t["metadata"]["labels"] for _, t in pods((name, "train"))]
        for o in Rendered.all[name]:
            spec = o.get("spec", {})
            where = f"{name}: {o['kind']}/{o['metadata']['name']}"
            wanted = None
            if o["kind"] == "Service":
                wanted = spec["selector"]
            elif o["kind"] in ("PodDisruptionBudget", "StatefulSet", "Deployment"):
                wanted = spec["selector"]["matchLabels"]
            elif o["kind"] == "NetworkPolicy":
                wanted = spec["podSelector"].get("matchLabels", {})
            if wanted is not None:
                check(any(wanted.items() <= labels.items() for labels in roles),
                      f"{where} chooses nobody")


def secrets_hold_what_the_daemons_take():
    for name in OVERLAYS:
        secrets = of_kind(name, "Secret")
        etcd = secrets.pop("sluice-etcd", None)
        check_equal(etcd is not None, name in SHARED, f"{name}: a Secret of etcd")
        check_equal(sorted(secrets), [f"sluice-tls-{r}" for r in
                                      ("client", "coordinator", "psserver", "worker")], name)
        if etcd:
            check(etcd["data"]["ca.crt"] != secrets["sluice-tls-worker"]["data"]["ca.crt"],
                  "etcd and workers have one authority")
        for secret in secrets.values():
            check_equal(sorted(secret["data"]), ["ca.crt", "tls.crt", "tls.key"], "files")
            role = secret["metadata"]["name"].rpartition("-")[2]
            shown = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"],
                                   input=base64.b64decode(secret["data"]["tls.crt"]),
                                   capture_output=True, check=True).stdout.decode()
            uri = "admin" if role == "client" else role
            check(f"URI:spiffe://sluice/{uri}/*" in shown, f"{role}: {shown}")
            for host in ("coordinator", "*.psserver.sluice.svc.cluster.local",
                         "*.worker.sluice.svc.cluster.local", "*.sluice.svc",
                         "*.coordinator.sluice.svc.cluster.local"):
                check(f"DNS:{host}" in shown, f"{role} lacks {host}")
    made = {o["spec"]["secretName"]: o["spec"] for o in Rendered.all["tls/cert-manager"]
            if o["kind"] == "Certificate"}
    for role, uri in (("coordinator", "coordinator"), ("psserver", "psserver"),
                      ("worker", "worker"), ("client", "admin")):
        check_equal(made[f"sluice-tls-{role}"]["uris"], [f"spiffe://sluice/{uri}/*"], role)
    check("*.coordinator.sluice.svc.cluster.local" in made["sluice-tls-coordinator"]["dnsNames"],
          "pods of coordinators have no name in their certificate")


def overlays_of_cert_manager_differ_in_certificates_alone():
    for name, managed in zip(OVERLAYS, MANAGED):
        kinds = {"Secret", "Certificate", "Issuer"}
        both = [[o for o in Rendered.all[n] if o["kind"] not in kinds] for n in (name, managed)]
        check_equal(both[0], both[1], f"{managed} and {name}, without certificates")
        check(not of_kind(managed, "Secret"), f"{managed} has Secrets of its own")
        wanted = {v["secret"]["secretName"] for _, t in pods((managed,))
                  for v in t["spec"]["volumes"] if "secret" in v}
        made = {c["spec"]["secretName"] for c in of_kind(managed, "Certificate").values()}
        check(wanted and wanted <= made, f"{managed}: {wanted - made} come from nowhere")


# ---- each object by itself

def psservers_stay_and_keep_their_state():
    for name in OVERLAYS:
        budgets = of_kind(name, "PodDisruptionBudget")
        for role, o in of_kind(name, "StatefulSet").items():
            spec, pod = o["spec"], o["spec"]["template"]["spec"]
            check_equal(budgets[role]["spec"]["maxUnavailable"], int(name in SHARED),
                        f"{name}: {role}")
            check_equal(of_kind(name, "Service")[role]["spec"]["clusterIP"], "None", role)
            claims = spec["volumeClaimTemplates"]
            check_equal([c["metadata"]["name"] for c in claims], ["state"], role)
            term, = pod["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            away = {e["key"]: e["values"] for e in term["matchExpressions"]
                    if e["operator"] == "NotIn"}
            check_equal(away, {key: [value] for key, value in SPOT.items()}, role)
        sets = of_kind(name, "StatefulSet")
        check_equal(sets["psserver"]["spec"]["podManagementPolicy"], "Parallel", name)
        check_equal(sets["coordinator"]["spec"]["replicas"], 3 if name in SHARED else 1, name)


def grace_of(container):
    """Seconds that a daemon takes at most to end, by its own reading of its args."""
    told = subprocess.run([BIN / program_of(container), *(
        a for a in container["args"] if a.startswith(("--grace", "--drain"))), "--print-config"],
        text=True, capture_output=True, timeout=30, check=True).stdout
    count, unit = re.search(r"^grace = (\d+)([ms])$", told, re.M).groups()
    return int(count) * (60 if unit == "m" else 1)


def pods_have_the_time_to_end_that_their_daemons_take():
    for where, template in pods(OVERLAYS):
        c, = template["spec"]["containers"]
        if program_of(c) == "etcd":
            continue
        left = template["spec"]["terminationGracePeriodSeconds"] - grace_of(c)
        check(left >= 5, f"{where}: killed {left} s after its --grace")


def shards_move_away_before_a_pod_ends_where_the_store_is_shared():
    for name in OVERLAYS:
        c, = of_kind(name, "StatefulSet")["psserver"]["spec"]["template"]["spec"]["containers"]
        shared = args_of(c).get("store", "").startswith("s3://")
        check_equal((shared, "drain" in args_of(c)), (name in SHARED,) * 2, f"{name}: --drain")
        if shared:
            check(grace_of(c) >= 120, f"{name}: half of {grace_of(c)} s for all shards")


def prometheus(name):
    import yaml
    return yaml.safe_load((ROOT / "deploy" / "prometheus" / name).read_text())


def prometheus_finds_the_pods():
    """Debian's promtool knows no Kubernetes."""
    scrape, = prometheus("pods.yml")["scrape_configs"]
    finds, = scrape["kubernetes_sd_configs"]
    check_equal((finds["role"], finds["namespaces"]["names"]), ("pod", ["sluice"]), "where")
    made = {r.get("target_label", r.get("action")): r for r in scrape["relabel_configs"]}
    check_equal(made["keep"]["source_labels"], ["__meta_kubernetes_pod_container_port_name"], "by")
    for where, template in pods(OVERLAYS):
        for c in template["spec"]["containers"]:
            check(program_of(c) == "etcd" or made["keep"]["regex"] in {p["name"] for p in c["ports"]},
                  f"{where} is not scraped")
    rule, = prometheus("adapter.yml")["rules"]["custom"]
    for label in rule["resources"]["overrides"]:
        check(label in made and f'{label}!=""' in rule["seriesQuery"], f"figures without {label}")


def psservers_come_and_go_with_what_they_have_to_do():
    scaler, = of_kind(SCALE, "HorizontalPodAutoscaler").values()
    spec, sets = scaler["spec"], of_kind(SCALE, "StatefulSet")
    check_equal((spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]),
                ("StatefulSet", "psserver"), "what is scaled")
    check("replicas" not in sets["psserver"]["spec"], "applied again, it would undo the scaling")
    check(spec["minReplicas"] >= 2, "shards of the last one have nowhere to go")
    rule, = prometheus("adapter.yml")["rules"]["custom"]
    check_equal([m["pods"]["metric"]["name"] for m in spec["metrics"]], [rule["name"]["as"]],
                "metrics")
    policy, = spec["behavior"]["scaleDown"]["policies"]
    left = sets["psserver"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    check_equal((policy["type"], policy["value"]), ("Pods", 1), "how many leave together")
    check(policy["periodSeconds"] > left, "the next one leaves before the last one's end")


def workers_go_in_time_and_lie_apart():
    for where, template in pods(OVERLAYS + ("ring",)):
        if template["metadata"]["labels"][ROLE] != "worker":
            continue
        spec = template["spec"]
        check(spec["terminationGracePeriodSeconds"] <= 15, where)
        spread, = spec["topologySpreadConstraints"]
        check(spread["labelSelector"]["matchLabels"].items() <=
              template["metadata"]["labels"].items(), f"{where}: spreads others")
    spot = of_kind("overlays/spot", "Deployment")["worker"]["spec"]["template"]["spec"]
    for spec in (spot, of_kind("ring", "Job")["worker"]["spec"]["template"]["spec"]):
        check_equal({t["key"]: t["value"] for t in spec["tolerations"]}, SPOT, "tolerations")
    terms = spot["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    check_equal({e["key"]: e["values"][0] for t in terms["nodeSelectorTerms"]
                 for e in t["matchExpressions"]}, SPOT, "affinity")
    check_equal(args_of(spot["containers"][0])["preempt-source"], "auto", "who is asked")
    gpu = of_kind("overlays/gpu", "Deployment")["worker"]["spec"]["template"]["spec"]
    check_equal(gpu["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1", "GPUs")
    check_equal(args_of(gpu["containers"][0])["device"], "cuda:0", "device")
    job = of_kind("ring", "Job")["worker"]["spec"]
    check_equal((job["completionMode"], job["template"]["spec"]["restartPolicy"]),
                ("Indexed", "Never"), "job")
    rules = [(r["action"], r.get("onExitCodes", {}).get("values")) for r in
             job["podFailurePolicy"]["rules"]]
    check_equal(rules, [("Ignore", None), ("Ignore", [138, 143]), ("FailJob", [1, 2])], "rules")


def dialled():
    """(from, to, port) of all that dial each other, as proto/ lets roles call methods; port
    None: a free one."""
    pairs = set()
    for name, (there, port) in SERVED.items():
        for roles in MAY_CALL.findall((ROOT / "proto" / f"{name}.proto").read_text()):
            for role in roles.lower().replace(" ", "").strip(",").split(","):
                pairs.add(("client" if role in PEOPLE else role, there, port))
    with_roles = {f.stem for f in (ROOT / "proto").glob("*.proto")
                  if MAY_CALL.search(f.read_text())}
    check_equal(with_roles, set(SERVED), "files of proto/ with roles")
    return pairs


def who_talks_to_whom():
    """The policies, asked as a cluster would: by role and port."""
    ports = (7070, 7071, 7072, 9100)
    wanted = {(a, b, p) for a, b, port in dialled() for p in (ports if port is None else (port,))}
    check(("psserver", "psserver", 7071) in wanted, f"shards that move: {wanted}")
    for name in OVERLAYS:
        policies = of_kind(name, "NetworkPolicy").values()
        base = {"app.kubernetes.io/name": "sluice"}

        def fits(selector, labels):
            return selector.get("matchLabels", {}).items() <= labels.items() and \
                all(labels.get(e["key"]) in e["values"]
                    for e in selector.get("matchExpressions", []))

        def lets(way, here, there, port):
            peers = "from" if way == "ingress" else "to"
            for p in policies:
                if not fits(p["spec"]["podSelector"], {**base, ROLE: here}):
                    continue
                for rule in p["spec"].get(way, []):
                    ports = {r["port"] for r in rule.get("ports", [])}
                    if (not ports or port in ports) and any(
                            "podSelector" in s and fits(s["podSelector"], {**base, ROLE: there})
                            for s in rule[peers]):
                        return True
            return False

        roles = ("coordinator", "psserver", "worker", "client", "etcd")
        may = {(a, b, port) for a in roles for b in roles for port in (2379, 2380)
               if lets("egress", a, b, port) and lets("ingress", b, a, port)} - \
            {("worker", "worker", 2379), ("worker", "worker", 2380)}
        check_equal(may, {("coordinator", "etcd", 2379), ("etcd", "etcd", 2380)}
                    if name in SHARED else set(), f"{name}: etcd")
        may = {(a, b, port) for a in ("coordinator", "psserver", "worker", "client")
               for b in ("coordinator", "psserver", "worker") for port in ports
               if lets("egress", a, b, port) and lets("ingress", b, a, port)}
        check_equal(may, wanted, name)
        deny = of_kind(name, "NetworkPolicy")["default-deny"]["spec"]
        check_equal(deny, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}, name)
        cloud = [p["metadata"]["name"] for p in policies if "169.254.169.254" in json.dumps(p)]
        check_equal(cloud, ["worker"], "who may ask the cloud")
        figures = of_kind(name, "NetworkPolicy")["figures"]["spec"]["ingress"][0]
        check_equal(figures["ports"][0]["port"], 9100, "figures")


# ---- what others start

def a_tfjob_is_read_by_sluice_run():
    """TF_CONFIG as Kubeflow's operator writes it for that TFJob."""
    job = of_kind("tfjob", "TFJob")["tf"]
    specs = job["spec"]["tfReplicaSpecs"]
    check_equal(sorted(specs), ["Chief", "PS", "Worker"], "kinds")
    cluster = {kind.lower(): [f"{job['metadata']['name']}-{kind.lower()}-{i}.sluice.svc:2222"
                              for i in range(s["replicas"])] for kind, s in specs.items()}
    for kind, role in (("Chief", "coordinator"), ("PS", "psserver"), ("Worker", "worker")):
        check_equal(specs[kind]["restartPolicy"], "ExitCode", kind)
        container, = specs[kind]["template"]["spec"]["containers"]
        check_equal(container["name"], "tensorflow", "the name that the operator looks for")
        config = {"cluster": cluster, "task": {"type": kind.lower(), "index": 0},
                  "environment": "cloud"}
        done = subprocess.run([BIN / "sluice", "run", "--discover-only", "-o", "json"], text=True,
                              capture_output=True, check=False, timeout=30,
                              env={"PATH": os.environ["PATH"], "TF_CONFIG": json.dumps(config)})
        check_equal(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        check_equal((told["role"], told["coordinator"]), (role, cluster["chief"][0]), kind)


def the_job_is_one_that_sluice_takes():
    spec = of_kind("train", "ConfigMap")["sluice-job"]["data"]["job.yaml"]
    check_equal(spec, (ROOT / "examples" / "toy.yaml").read_text(), "the example's own")


def each_job_of_kubernetes_is_a_submission_of_its_own():
    """A pod that starts again is of the same Job, whose controller's UID does not change."""
    container, = of_kind("train", "Job")["train"]["spec"]["template"]["spec"]["containers"]
    word = re.fullmatch(r"\$\((\w+)\)", args_of(container)["request-id"])
    check(word, f"request-id is {args_of(container)['request-id']}, the same for each Job")
    source, = [e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"]
               if e["name"] == word[1]]
    check_equal(source, "metadata.labels['controller-uid']", word[1])


def matches(pattern, path):
    """As docker and buildah read .dockerignore."""
    wild = "".join({"**/": "(?:.*/)?", "*": "[^/]*"}.get(part, re.escape(part))
                   for part in re.split(r"(\*\*/|\*)", pattern))
    return re.fullmatch(f"{wild}(?:/.*)?", path)


def no_key_is_sent_to_who_builds_the_image():
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines()
                if line and not line.startswith("#")]
    for path in (".git/config", "build/bin/worker", "build-asan/x", "runs/a/cluster/log",
                 "deploy/kubernetes/tls/plain/certs/ca.key",
                 "deploy/kubernetes/tls/etcd-plain/certs/ca.key", "certs/client.crt", "cluster/c.key"):
        check(any(matches(p, path) for p in patterns), f".dockerignore lets {path} through")
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True,
                             check=False).stdout.split()
    for path in tracked:
        check(not any(matches(p, path) for p in patterns), f".dockerignore leaves out {path}")


def lacking():
    if not shutil.which("kubectl"):
        return "there is no kubectl here (apt-get install kubernetes-client)"
    try:
        import kubernetes_validate  # noqa: F401
    except ImportError:
        return "kubernetes-validate is not in this Python (tools/python-env build/venv)"
    return None


if __name__ == "__main__":
    why = lacking()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="sluice-kube-") as made:
        Rendered.take(pathlib.Path(made))
        main([each_object_fits_its_schema, no_pod_may_more_than_it_needs,
              probes_ask_the_port_that_the_args_open, each_flag_is_one_of_the_programs,
              the_programs_take_their_args, whatever_is_named_is_there,
              selectors_choose_the_pods_that_they_mean, secrets_hold_what_the_daemons_take,
              overlays_of_cert_manager_differ_in_certificates_alone,
              each_job_of_kubernetes_is_a_submission_of_its_own,
              no_key_is_sent_to_who_builds_the_image,
              psservers_stay_and_keep_their_state,
              pods_have_the_time_to_end_that_their_daemons_take,
              shards_move_away_before_a_pod_ends_where_the_store_is_shared,
              prometheus_finds_the_pods, psservers_come_and_go_with_what_they_have_to_do,
              workers_go_in_time_and_lie_apart,
              who_talks_to_whom, standby_coordinators_find_etcd_and_each_other, a_tfjob_is_read_by_sluice_run,
              the_job_is_one_that_sluice_takes])
