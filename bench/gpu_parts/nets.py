# SPDX-License-Identifier: Apache-2.0
"""The nets of bench/gpu's rows: their specs, and images of noise. On an emulated GPU, which
takes a second for what a GPU does in a millisecond, a net has the same layers with a
quarter of the filters, and images of a few pixels."""
import os
import re
import struct

SIDE, CLASSES, IMAGES = 256, 10, 2048
EMULATED_IMAGES, EMULATED_SIDE, EMULATED_FASHION_SIDE = 32, 8, 12


def idx_file(path, dims, payload):
    """IDX: 00 00 08 D, D big-endian dimensions, bytes."""
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(dims)]) + struct.pack(f">{len(dims)}I", *dims))
        for part in payload:
            f.write(part)


def noise(kit, name, count, shape):
    """Writes images and labels; gives their paths. Nothing here depends on what is in
    the pictures, but for zeros, which GPUs multiply faster."""
    images, labels = (kit.scratch / f"{name}-{what}.idx" for what in ("images", "labels"))
    each = shape[0] * shape[1] * shape[2]
    idx_file(images, [count, *shape], (os.urandom(each) for _ in range(count)))
    idx_file(labels, [count], [bytes(i % CLASSES for i in range(count))])
    return images, labels


def smaller(kit, spec):
    """A copy of the spec for an emulated GPU."""
    copy = kit.scratch / spec.name
    copy.write_text(re.sub(r"filters: (\d+)", lambda found: f"filters: {int(found[1]) // 4}",
                           spec.read_text()))
    return copy


def imagenette(kit):
    """The spec, and what to set in it."""
    def make():
        spec = kit.folder / "bench" / "nets" / "imagenette-synthetic.yaml"
        count, side = (EMULATED_IMAGES, EMULATED_SIDE) if kit.emulated else (IMAGES, SIDE)
        x, y = noise(kit, "imagenette", count, (side, side, 3))
        sets = [f"data.train.x={x}", f"data.train.y={y}"]
        if kit.emulated:
            spec = smaller(kit, spec)
            sets.append(f"model.input_shape=[{side}, {side}, 3]")
        return spec, sets
    return kit.shared("imagenette", make)


def fashion(kit):
    """The same of the net that quickstart trains."""
    def make():
        spec = kit.folder / "examples" / "fashion-cnn.yaml"
        if not kit.emulated:
            return spec, []
        shape = EMULATED_FASHION_SIDE, EMULATED_FASHION_SIDE, 1
        x, y = noise(kit, "fashion", EMULATED_IMAGES, shape)
        return smaller(kit, spec), [f"model.input_shape={list(shape)}"] + [
            f"data.{part}.{what}={path}" for part in ("train", "test")
            for what, path in (("x", x), ("y", y))]
    return kit.shared("fashion", make)
