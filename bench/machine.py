# SPDX-License-Identifier: Apache-2.0
"""The machine that figures come from: processor, instruction set, caches.

Ratios of two machines of the same name may differ where one has wider vectors
or a larger cache, so bench/run says both before anything else.
"""
import os
import pathlib

CPU0 = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
# Of x86, widest first: what the product compiles its loops for.
ISAS = {"avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
        "avx2": ("avx2", "fma")}


def cpuinfo():
    """The first processor's entries of /proc/cpuinfo."""
    found = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(":")
        found[key.strip()] = value.strip()
    return found


def isa(cap=None):
    """"avx512", "avx2" or "base": the widest of this host that `cap` allows."""
    flags = set(cpuinfo().get("flags", "").split())
    names = list(ISAS)
    for name in names[names.index(cap):] if cap in names else names:
        if cap != "base" and flags.issuperset(ISAS[name]):
            return name
    return "base"


def caches():
    """["L1d 48 KiB", "L2 1024 KiB", ...]; instructions' are left out."""
    found = []
    for folder in sorted(CPU0.glob("index*")):
        def said(what, folder=folder):
            return (folder / what).read_text().strip()
        try:
            kind, size = said("type"), said("size")
            if kind != "Instruction":
                found.append(f"L{said('level')}{'d' if kind == 'Data' else ''} "
                             f"{size.replace('K', ' KiB')}")
        except OSError:
            continue  # a container may hide them
    return found


def machine(cap=None):
    about = cpuinfo()
    return {"model": about.get("model name", os.uname().machine),
            "family": " ".join(about[key] for key in ("cpu family", "model")
                               if key in about),
            "cores": len(os.sched_getaffinity(0)), "isa": isa(cap),
            "capped": isa(cap) != isa(), "caches": caches(),
            "system": f"{os.uname().sysname} {os.uname().release}"}


def as_text(m):
    family = f" (family and model {m['family']})" if m["family"] else ""
    capped = ", by --isa" if m["capped"] else ""
    return (f"{m['cores']} cores of {m['model']}{family}, {m['isa']}{capped}; "
            f"{', '.join(m['caches']) or 'caches unknown'}; {m['system']}")
