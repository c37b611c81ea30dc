# SPDX-License-Identifier: Apache-2.0
"""Part `essential`: the rows that say most, in one call of eight minutes on a
machine that nobody has used before.

Each row has a share of the call and what the rows before it leave of theirs. A
row that outlasts that is stopped; the others are measured. Rows whose figure is
no time come first and last: PyTorch, read from the disk for the first time,
starts beside the first, and the last takes what time is left.
"""
from gpu_parts.cluster import cluster_rows
from gpu_parts.conform import conform_rows
from gpu_parts.perf import FASHION_BATCH, perf_rows, torch_group

MINUTES = 8
IMAGENETTE = [(p, b) for p in ("bf16", "tf32") for b in (512, 32)]

# part and name: seconds of the call
SHARES = {
    **{("cluster", f"fashion {p}"): 12 for p in ("tf32", "bf16", "f32", "f16",
                                                 "ring tf32")},
    **{("perf", f"imagenette {p} {b}"): 9 for p, b in IMAGENETTE},
    ("perf", f"fashion tf32 {FASHION_BATCH}"): 8,
    ("perf", "worker imagenette bf16 256"): 30,
    ("perf", "worker imagenette tf32 256"): 30,
    ("torch", "imagenette bf16 512"): 68,
    ("torch", "imagenette bf16 32"): 2,
    ("torch", "imagenette tf32 512"): 68,
    ("torch", "imagenette tf32 32"): 2,
    ("torch", f"fashion tf32 {FASHION_BATCH}"): 35,
    **{("conform", f"eval {t}"): 12 for t in ("f32", "bf16", "tf32", "f16")},
}
TUNE_S = {"imagenette": 32, "fashion": 12}


def essential_rows(kit):
    torch = [*torch_group("imagenette", "bf16", [512, 32]),
             *torch_group("imagenette", "tf32", [512, 32]),
             *torch_group("fashion", "tf32", [FASHION_BATCH])]
    there = {(row.part, row.name): row for row in
             [*cluster_rows(kit), *perf_rows(kit), *torch, *conform_rows(kit)]}
    rows = []
    for key, seconds in SHARES.items():
        there[key].seconds = seconds
        rows.append(there[key])
    return rows
