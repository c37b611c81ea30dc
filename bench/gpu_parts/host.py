# SPDX-License-Identifier: Apache-2.0
"""The host of bench/gpu: its GPU, NVIDIA's libraries, what a result needs to
say of them."""
import contextlib
import ctypes
import glob
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

# What the CUDA module links; their dependencies lie beside them.
LIBRARIES = ["libcudart.so.13", "libcublasLt.so.13", "libcudnn_graph.so.9"]

# Where containers get the driver's own libraries, if the loader has not heard.
DRIVER_FOLDERS = ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"]

QUERY = ["name", "driver_version", "memory.total", "clocks.sm", "clocks.mem",
         "clocks.max.sm", "clocks.applications.graphics", "power.limit",
         "temperature.gpu", "persistence_mode", "compute_mode"]


def no_gpu():
    """Why there is none, or None if NVIDIA's driver sees one."""
    driver = None
    for folder in ["", *(f"{f}/" for f in DRIVER_FOLDERS)]:
        with contextlib.suppress(OSError):
            driver = driver or ctypes.CDLL(f"{folder}libcuda.so.1")
    if driver is None:
        return "no NVIDIA driver (libcuda.so.1)"
    count = ctypes.c_int()
    rc = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if rc == 100 or (rc == 0 and count.value == 0):
        return "NVIDIA's driver sees no device"
    return f"NVIDIA's driver does not start: error {rc}" if rc else None


# ---- libraries


def system_folders():
    """Where the loader looks by itself."""
    try:
        said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True,
                              check=False).stdout
    except OSError:
        return []
    return [os.path.dirname(p) for p in re.findall(r"=> (\S+)", said)]


def python_folders(python):
    """Wheels of NVIDIA's libraries, as PyTorch brings them."""
    code = ("import sys, glob\n"
            "for p in sys.path:\n"
            "  for f in sorted(glob.glob(p + '/nvidia/*/lib')): print(f)\n")
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True,
                              check=False, timeout=60).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return []


def library_folders(python):
    """(folders for LD_LIBRARY_PATH, names that were not found). A toolkit's
    folder is better than a wheel's, since its parts are of one version."""
    said = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    where = list(said)
    where += sorted(glob.glob("/usr/local/cuda*/lib64"))
    where += sorted(glob.glob("/usr/local/cuda*/lib"))
    where += system_folders() + python_folders(python)
    folders, missing = [], []
    for name in LIBRARIES:
        found = next((f for f in where if os.path.exists(f"{f}/{name}")), None)
        if found is None:
            missing.append(name)
        elif found not in folders:
            folders.append(found)
    more = said + [f for f in DRIVER_FOLDERS if os.path.isdir(f)]
    return folders + [f for f in more if f not in folders], missing


def library_versions(folders):
    """{"cudart": "13000", "cudnn": "91900", ...}, asked of themselves."""
    found = {}
    old = os.environ.get("LD_LIBRARY_PATH")
    code = (
        "import ctypes, sys\n"
        "v = ctypes.c_int()\n"
        "r = ctypes.CDLL('libcudart.so.13')\n"
        "r.cudaRuntimeGetVersion(ctypes.byref(v)); print('cudart', v.value)\n"
        "b = ctypes.CDLL('libcublasLt.so.13')\n"
        "b.cublasLtGetVersion.restype = ctypes.c_size_t\n"
        "print('cublasLt', b.cublasLtGetVersion())\n"
        "d = ctypes.CDLL('libcudnn_graph.so.9')\n"
        "d.cudnnGetVersion.restype = ctypes.c_size_t\n"
        "print('cudnn', d.cudnnGetVersion())\n")
    path = ":".join([*folders, *([old] if old else [])])
    said = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True, check=False, timeout=120,
                          env={**os.environ, "LD_LIBRARY_PATH": path}).stdout
    for line in said.splitlines():
        name, _, version = line.partition(" ")
        found[name] = version
    return found


# ---- what a result says


def gpu():
    """nvidia-smi's answer now: clocks and temperature change with load."""
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=" + ",".join(QUERY),
             "--format=csv,noheader"], capture_output=True, text=True,
            check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"nvidia-smi": str(error)}
    first = (said.stdout.splitlines() or [""])[0]
    values = [v.strip() for v in first.split(",")]
    if said.returncode != 0 or len(values) != len(QUERY):
        return {"nvidia-smi": (said.stderr or said.stdout).strip()[:200]}
    return dict(zip(QUERY, values))


def sm_clock():
    """MHz now, as nvidia-smi says it, or None."""
    return gpu().get("clocks.sm")


TORCH = ("import json, torch\n"
         "assert torch.cuda.is_available()\n"
         "x = torch.ones(1, 8, 8, 8, device='cuda')\n"
         "torch.nn.functional.conv2d(x, x).sum().item()\n"
         "print(json.dumps({'torch': torch.__version__,\n"
         "  'cuda': torch.version.cuda,\n"
         "  'cudnn': torch.backends.cudnn.version()}))\n")


def torch_environments():
    """PyTorch brings its own libraries, and a toolkit in LD_LIBRARY_PATH comes
    before them: without it first, then as it is."""
    said = os.environ.get("LD_LIBRARY_PATH")
    drivers = [f for f in DRIVER_FOLDERS if os.path.isdir(f)]
    plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    yield {**plain, "LD_LIBRARY_PATH": ":".join(drivers)} if drivers else plain
    if said:
        yield dict(os.environ)


def torch_of(python):
    """({"torch": ..., "cuda": ..., "cudnn": ...}, the environment it wants)
    where it computes on the GPU, else (None, None)."""
    for environment in torch_environments():
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            said = subprocess.run([python, "-c", TORCH], capture_output=True,
                                  text=True, check=False, timeout=120,
                                  env=environment)
            if said.returncode == 0:
                return json.loads(said.stdout), environment
    return None, None


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def about(folders):
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "gpu": gpu(), "libraries": library_versions(folders),
            "library_folders": folders, "cpu": cpu(),
            "cores": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "libc": " ".join(platform.libc_ver()),
            "python": platform.python_version()}
