# SPDX-License-Identifier: Apache-2.0
"""Images from TFRecord files or tar archives through tf.data, decoded, resized
and batched by as many threads; --make writes the files first.

Prints samples per second. Of a tar its members are read by Python's tarfile in
a generator, as programs do that have no other reader.
"""
import glob
import io
import os
import pathlib
import tarfile
import time

from common import options, say, windows_of

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402

FILES, EACH, ROWS, COLUMNS = 4, 250, 375, 500  # as ImageNet's usual size


def pictures():
    """JPEG files of clouds: noise that was drawn small and made large."""
    for i in range(FILES * EACH):
        small = tf.random.stateless_uniform([24, 32, 3], (i, 1), 0, 255)
        picture = tf.cast(tf.image.resize(small, [ROWS, COLUMNS], "bicubic"), tf.int32)
        grain = tf.random.stateless_uniform([ROWS, COLUMNS, 3], (i, 2), -12, 12, tf.int32)
        picture = tf.cast(tf.clip_by_value(picture + grain, 0, 255), tf.uint8)
        yield i, tf.io.encode_jpeg(picture, quality=90).numpy()


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    feature, files = tf.train.Feature, pictures()
    for k in range(FILES):
        with tf.io.TFRecordWriter(f"{folder}/train-{k:05}.tfrecord") as w, \
                tarfile.open(folder / f"train-{k:05}.tar", "w") as t:
            for _ in range(EACH):
                i, jpeg = next(files)
                w.write(tf.train.Example(features=tf.train.Features(feature={
                    "image/encoded": feature(bytes_list=tf.train.BytesList(value=[jpeg])),
                    "image/class/label": feature(int64_list=tf.train.Int64List(value=[i % 1000])),
                    "image/filename": feature(bytes_list=tf.train.BytesList(value=[b"x.jpg"])),
                })).SerializeToString())
                for name, data in ((f"{i:06}.jpg", jpeg), (f"{i:06}.cls", b"%d" % (i % 1000))):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    t.addfile(info, io.BytesIO(data))


def records(files, threads):
    data = tf.data.TFRecordDataset(files, num_parallel_reads=threads)

    def parse(one):
        found = tf.io.parse_single_example(one, {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
        return found["image/encoded"], found["image/class/label"]
    return data, parse


def archives(files):
    def members():
        for path in files:
            with tarfile.open(path) as t:
                jpeg = None
                for m in t:
                    data = t.extractfile(m).read()
                    if m.name.endswith(".jpg"):
                        jpeg = data
                    else:
                        yield jpeg, int(data)
    return tf.data.Dataset.from_generator(members, output_signature=(
        tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64))), lambda x, y: (x, y)


def main():
    o = options(__doc__, ("folder", "", "where the files are"), ("make", 0, "write them"),
                ("tar", 0, "archives instead of records"), ("side", 224, "pixels"),
                ("batch", 32, "samples"), ("threads", 2, "that decode"))
    if o.make:
        make(pathlib.Path(o.folder))
    files = sorted(glob.glob(f"{o.folder}/*.{'tar' if o.tar else 'tfrecord'}"))
    data, parse = archives(files) if o.tar else records(files, o.threads)

    def decode(*one):
        jpeg, label = parse(*one)
        image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), [o.side, o.side])
        return tf.cast(image + 0.5, tf.uint8), label
    limits = tf.data.Options()
    limits.threading.private_threadpool_size = o.threads
    data = data.repeat().shuffle(1000).map(decode, num_parallel_calls=o.threads)
    batches = iter(data.batch(o.batch).prefetch(4).with_options(limits))
    done = 0

    def work():
        nonlocal done
        done += int(next(batches)[1].shape[0])
    began = time.monotonic()
    while time.monotonic() < began + 2:  # threads, files
        work()
    measured = windows_of(lambda: done, o, work)
    say("tf_records", "samples/s", measured, tar=o.tar, threads=o.threads,
        tensorflow=tf.__version__)


if __name__ == "__main__":
    main()
