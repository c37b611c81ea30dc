#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes images/: small JPEG and PNG files and, as PPM, the pixels that PIL
finds in them; and one of them resized by the formula, in fractions.

    python3 -m venv /tmp/pil && /tmp/pil/bin/pip install pillow
    /tmp/pil/bin/python tests/unit/worker/make_images.py

Not run by any test: what it wrote is kept, so that tests need no PIL. The files
that PIL cannot write (16 bits, interlaced, broken) are put together here.
"""
import fractions
import io
import pathlib
import struct
import zlib

from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent / "images"
WIDTH, HEIGHT = 23, 17


def pixel(x, y):
    return (11 * x % 256, (7 * y + 5 * x) % 256, (x * x + 3 * y * y) % 256)


def picture(smooth):
    """Smooth for JPEG, whose losses are then small; else every byte differs."""
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            image.putpixel((x, y), (10 * x, 14 * y, 255 - 5 * (x + y))
                           if smooth else pixel(x, y))
    return image


def ppm(name, image):
    (HERE / f"{name}.ppm").write_bytes(
        b"P6\n%d %d\n255\n" % image.size + image.convert("RGB").tobytes())


def put(name, data):
    """The file and what PIL sees in it."""
    (HERE / name).write_bytes(data)
    ppm(name, Image.open(io.BytesIO(data)))


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpegs():
    rgb, grey = picture(True), picture(True).convert("L")
    put("sampled.jpg", saved(rgb, "JPEG", quality=90))
    put("full.jpg", saved(rgb, "JPEG", quality=95, subsampling=0))
    put("halves.jpg", saved(rgb, "JPEG", quality=80, subsampling=1))
    put("progressive.jpg", saved(rgb, "JPEG", quality=90, progressive=True))
    put("grey.jpg", saved(grey, "JPEG", quality=90))
    put("restarts.jpg", saved(rgb, "JPEG", quality=90, restart_marker_blocks=1))
    put("cmyk.jpg", saved(rgb.convert("CMYK"), "JPEG", quality=95))
    whole = saved(rgb, "JPEG", quality=90)
    (HERE / "junk-behind.jpg").write_bytes(whole + b"junk")
    (HERE / "cut.jpg").write_bytes(whole[:-60])
    head = whole.index(b"\xff\xc0") + 5
    (HERE / "huge.jpg").write_bytes(
        whole[:head] + b"\x4e\x20\x4e\x20" + whole[head + 4:])


def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data
            + struct.pack(">I", zlib.crc32(kind + data)))


def png(width, height, depth, color, rows, interlace=0, extra=b""):
    """rows: the bytes of each row, packed, without its filter."""
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color,
                                         0, 0, interlace))
            + extra
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows), 9))
            + chunk(b"IEND", b""))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
         (1, 0, 2, 2), (0, 1, 1, 2)]


def interlaced():
    rows = []
    for left, top, right, down in ADAM7:
        for y in range(top, HEIGHT, down):
            row = bytes(c for x in range(left, WIDTH, right) for c in pixel(x, y))
            if row:
                rows.append(row)
    return png(WIDTH, HEIGHT, 8, 2, rows, interlace=1)


def deep():
    """16 bits: the low ones are noise that must not be seen."""
    return png(WIDTH, HEIGHT, 16, 2, [
        b"".join(bytes([c, 255 - c]) for x in range(WIDTH) for c in pixel(x, y))
        for y in range(HEIGHT)])


def twelve():
    """0 to 4095 in samples of 16 bits, as cameras write them, and its pixels."""
    values = [[(257 * x + 31 * y) % 4096 for x in range(WIDTH)]
              for y in range(HEIGHT)]
    values[0][0], values[0][1] = 4095, 0
    grey = [round(v * 255 / 4095) for row in values for v in row]
    (HERE / "twelve.png.ppm").write_bytes(
        b"P6\n%d %d\n255\n" % (WIDTH, HEIGHT)
        + bytes(c for v in grey for c in (v, v, v)))
    (HERE / "twelve.png").write_bytes(png(WIDTH, HEIGHT, 16, 0, [
        struct.pack(f">{WIDTH}H", *row) for row in values]))


def pngs():
    twelve()
    rgb = picture(False)
    grey = rgb.convert("L")
    clear = rgb.convert("RGBA")
    clear.putalpha(grey)
    put("rgb.png", saved(rgb, "PNG"))
    put("rgba.png", saved(clear, "PNG"))
    put("grey.png", saved(grey, "PNG"))
    put("grey-alpha.png", saved(clear.convert("LA"), "PNG"))
    put("palette.png", saved(rgb.quantize(40), "PNG"))
    put("palette-clear.png", saved(rgb.quantize(40), "PNG", transparency=3))
    put("rgb-clear.png", saved(rgb, "PNG", transparency=(0, 0, 0)))
    put("bits.png", saved(rgb.convert("1"), "PNG"))
    put("interlaced.png", interlaced())
    put("deep.png", deep())
    two = [bytes(16 * (x % 16) + (x + y) % 16 for x in range(WIDTH // 2 + 1))
           for y in range(HEIGHT)]
    put("grey-4.png", png(WIDTH, HEIGHT, 4, 0, two))
    # PIL gives 16 bits of grey as they are.
    row = bytes(c for x in range(WIDTH) for c in (11 * x % 256, x))
    (HERE / "grey-deep.png").write_bytes(png(WIDTH, HEIGHT, 16, 0, [row] * HEIGHT))
    ppm("grey-deep.png", Image.frombytes(
        "L", (WIDTH, HEIGHT), row[::2] * HEIGHT))
    whole = saved(rgb, "PNG")
    (HERE / "cut.png").write_bytes(whole[:-30])
    (HERE / "checksum.png").write_bytes(whole[:-16] + b"\0\0" + whole[-14:])
    (HERE / "huge.png").write_bytes(png(16385, 1, 8, 2, [b""]))
    (HERE / "bomb.png").write_bytes(png(
        9000, 9000, 8, 2, [bytes(27000)] * 10))


def resized(image, width, height):
    """Bilinear with half-pixel centres, not antialiased, by the definition."""
    def places(out, of):
        for i in range(out):
            at = fractions.Fraction(2 * i + 1, 2) * of / out - fractions.Fraction(1, 2)
            low = at.__floor__()
            yield max(low, 0), min(at.__ceil__(), of - 1), at - low
    result = Image.new("RGB", (width, height))
    for y, (top, bottom, down) in enumerate(places(height, image.height)):
        for x, (left, right, across) in enumerate(places(width, image.width)):
            value = []
            for c in range(3):
                def at(i, j):
                    return image.getpixel((i, j))[c]
                a = at(left, top) + (at(right, top) - at(left, top)) * across
                b = at(left, bottom) + (at(right, bottom) - at(left, bottom)) * across
                value.append((a + (b - a) * down + fractions.Fraction(1, 2)).__floor__())
            result.putpixel((x, y), tuple(value))
    return result


def main():
    HERE.mkdir(exist_ok=True)
    jpegs()
    pngs()
    for width, height in [(10, 31), (46, 34), (5, 5), (1, 1), (23, 40), (64, 17)]:
        ppm(f"rgb-{width}x{height}", resized(picture(False), width, height))
    ppm("rgb-luminance", picture(False).convert("L"))


if __name__ == "__main__":
    main()
