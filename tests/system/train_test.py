#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An undisturbed job: accuracy, counts, checkpoints, export, the job verbs."""
import json
import pathlib

from cluster import (LIMIT, LONG_LEASE, Cluster, check, check_counts, check_equal, main,
                     mlp_job, shared, wait_for, FASHION)
from events_test import ask


def conv_net_reaches_accuracy_on_a_subset():
    job = mlp_job("conv", samples=6000, epochs=6, batch=64)
    job["model"]["layers"] = [
        {"type": "conv2d", "filters": 16, "kernel_size": 3, "activation": "relu"},
        {"type": "max_pooling2d", "pool_size": 2},
        {"type": "conv2d", "filters": 32, "kernel_size": 3, "activation": "relu"},
        {"type": "max_pooling2d", "pool_size": 2},
        {"type": "flatten"},
        {"type": "dense", "units": 64, "activation": "relu"},
        {"type": "dense", "units": 10}]
    with shared(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(job))
        check_counts(done)
        accuracy = [e["accuracy"] for e in done["evaluations"]]
        check_equal(len(accuracy), 6, "evaluations")
        check(accuracy[-1] > 0.78, f"accuracy after 6 epochs: {accuracy}")
        check_equal({e["samples"] for e in done["evaluations"]}, {1000},
                    "samples of each evaluation")


def optimizers_and_layers_of_the_graph_form_train():
    job = mlp_job("graph", samples=640, epochs=2, batch=32)
    job["model"]["layers"] = [
        {"type": "conv2d", "name": "a", "filters": 8, "kernel_size": 3,
         "padding": "same", "activation": "relu", "inputs": ["input"]},
        {"type": "batch_normalization", "name": "bn", "momentum": 0.8,
         "inputs": ["a"]},
        {"type": "conv2d", "name": "b", "filters": 8, "kernel_size": 3,
         "padding": "same", "inputs": ["bn"]},
        {"type": "add", "name": "sum", "inputs": ["a", "b"]},
        {"type": "concatenate", "name": "cat", "inputs": ["sum", "bn"]},
        {"type": "average_pooling2d", "name": "avg", "pool_size": 2, "inputs": ["cat"]},
        {"type": "dropout", "name": "drop", "rate": 0.2, "inputs": ["avg"]},
        {"type": "global_average_pooling2d", "name": "gap", "inputs": ["drop"]},
        {"type": "dense", "name": "out", "units": 10, "activation": "softmax",
         "inputs": ["gap"]}]
    with shared(psservers=2, workers=1) as c:
        for kind in ({"type": "sgd", "learning_rate": 0.005, "momentum": 0.9,
                      "nesterov": True},
                     {"type": "adamw"}, {"type": "adagrad"}, {"type": "rmsprop"}):
            job["optimizer"] = kind
            job["name"] = "graph-" + kind["type"]
            done = c.wait_state(c.submit(job))
            check_counts(done)
            losses = [e["loss"] for e in done["evaluations"]]
            check(all(0 < x < 2.6 for x in losses), f"{kind}: losses {losses}")


def nets_of_depthwise_convolutions_and_of_attention_learn():
    """One net of padding, depthwise and separable convolutions and products, one
    of rows of the image that attend to each other: real images, two workers."""
    nets = {
        "depthwise": [
            {"type": "rescaling", "factor": 2, "offset": -1},
            {"type": "zero_padding2d", "pad": 2},
            {"type": "conv2d", "filters": 12, "kernel_size": 3, "strides": 2},
            {"type": "depthwise_conv2d", "kernel_size": 3, "padding": "same",
             "activation": "relu6", "name": "dw"},
            {"type": "separable_conv2d", "filters": 16, "kernel_size": 3,
             "activation": "silu", "name": "sep"},
            {"type": "average_pooling2d"},
            {"type": "global_max_pooling2d", "name": "max", "inputs": ["sep"]},
            {"type": "flatten", "inputs": ["average_pooling2d"]},
            {"type": "dense", "name": "d", "units": 16, "activation": "mish"},
            {"type": "maximum", "name": "m", "inputs": ["d", "max"]},
            {"type": "multiply", "name": "p", "inputs": ["d", "max"]},
            {"type": "concatenate", "inputs": ["m", "p"]},
            {"type": "dense", "units": 10}],
        "attention": [
            {"type": "reshape", "target_shape": [28, 28]},
            {"type": "dense", "units": 16, "name": "e"},
            {"type": "layer_normalization"},
            {"type": "multi_head_attention", "num_heads": 2, "key_dim": 8,
             "use_causal_mask": True, "name": "a"},
            {"type": "add", "inputs": ["a", "e"], "name": "r"},
            {"type": "dense", "units": 16, "activation": "gelu_tanh"},
            {"type": "permute", "dims": [2, 1]},
            {"type": "flatten"},
            {"type": "dense", "units": 10}]}
    with shared(psservers=2, workers=2) as c:
        for name, layers in nets.items():
            job = mlp_job(name, samples=3200, epochs=2)
            job["model"]["layers"] = layers
            done = c.wait_state(c.submit(job))
            check_counts(done)
            accuracy = [e["accuracy"] for e in done["evaluations"]]
            check(accuracy[-1] > 0.6, f"{name}: {accuracy}")


def an_embedding_learns_what_its_numbers_mean():
    """Samples are six numbers; the label is twice the second of them, modulo 12."""
    import numpy as np
    draw = np.random.default_rng(5)
    with shared(psservers=2, workers=2) as c:
        for name, samples in (("train", 4000), ("test", 500)):
            x = draw.integers(0, 12, (samples, 6)).astype(np.float32)
            np.savez(c.dir / f"{name}.npz", x=x,
                     y=(2 * x[:, 1] % 12).astype(np.int32))
        job = mlp_job("tokens", epochs=6)
        job["model"] = {"input_shape": [6], "layers": [
            {"type": "embedding", "input_dim": 12, "output_dim": 16},
            {"type": "multi_head_attention", "num_heads": 2, "key_dim": 8},
            {"type": "flatten"},
            {"type": "dense", "units": 12}]}
        job["optimizer"] = {"type": "adam", "learning_rate": 0.01}
        job["data"] = {name: {"format": "npz", "x": str(c.dir / f"{name}.npz")}
                       for name in ("train", "test")}
        done = c.wait_state(c.submit(job))
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.9,
              f"accuracy: {[e['accuracy'] for e in done['evaluations']]}")


def two_jobs_share_the_workers():
    with Cluster(psservers=1, workers=0) as c:
        jobs = [c.submit(mlp_job(name, epochs=5)) for name in ("first", "second")]
        for name in ("w-0", "w-1"):  # both jobs are there before anybody trains
            c.start(name)
        began, ended = [], []
        for job in jobs:
            check_counts(c.wait_state(job))
            spans = [s for s in ask(c, "Timeline", id=job)["spans"] if s["kind"] == "train"]
            began.append(min(s["begun_us"] for s in spans))
            ended.append(max(s["ended_us"] for s in spans))
        check(max(began) < min(ended), "the jobs ran one after the other", began, ended)


def every_sample_of_a_short_last_batch_counts():
    with shared(psservers=1, workers=2) as c:
        job = mlp_job("odd", samples=1013, epochs=3, batch=50, steps_per_closure=4)
        check_counts(c.wait_state(c.submit(job)))


def micro_batches_make_a_step():
    """Of 1013 samples a step takes 4 times 20, and the last one 53. Statistics
    of the data depend on no parameter, so they end where they end in steps of
    20; and each sample counts once."""
    from safetensors.numpy import load_file
    ends = []
    with shared(psservers=2, workers=1) as c:
        for accumulate in (1, 4):
            job = mlp_job(f"by-{accumulate}", samples=1013, epochs=2, batch=20,
                          shuffle=False, accumulate=accumulate)
            job["model"]["layers"].insert(1, {
                "type": "batch_normalization", "momentum": 0.9})
            number = c.submit(job)
            done = c.wait_state(number)
            check_counts(done)
            steps = -(-1013 // (20 * accumulate))
            check_equal(int(done["steps_asked"]), 2 * steps, "steps asked")
            out = c.dir / f"{accumulate}.safetensors"
            c.run("export", number, "--to", out)
            ends.append(load_file(str(out)))
    for name in ends[0]:
        if "moving" in name:
            apart = abs(ends[0][name] - ends[1][name]).max()
            check(apart < 1e-5, f"{name} is {apart} apart")


def late_gradients_are_refused_and_computed_again():
    """Three workers under a limit that lets one gradient a time pass: many are
    refused, each sample counts once all the same, and the net learns."""
    with Cluster(psservers=2, workers=3, coordinator_args=LONG_LEASE) as c:
        for rule in ("none", "inverse", "dc"):
            job = mlp_job("late-" + rule, epochs=4, max_delay=1, staleness=rule)
            done = c.wait_state(c.submit(job))
            check_counts(done)
            check(int(done["updates_stale"]) > 0, f"{rule}: none was refused")
            check(int(done["updates_late"]) <= int(done["updates_stale"]) / 3,
                  f"{rule}: applied over the limit without three refusals")
            check(done["evaluations"][-1]["accuracy"] > 0.6, f"{rule} learns")


def a_single_row_model_runs_on_more_servers_than_rows():
    job = {"name": "tiny",
           "model": {"input_shape": [10], "layers": [
               {"type": "dense", "units": 1, "activation": "sigmoid"}]},
           "loss": "binary_crossentropy",
           "optimizer": {"type": "sgd", "learning_rate": 0.2},
           "data": {"train": {"format": "synthetic", "generator": "binary",
                              "samples": 4096, "seed": 7}},
           "train": {"batch": 64, "epochs": 2}}
    with Cluster(psservers=3, workers=2) as c:
        done = c.wait_state(c.submit(job))
        check_counts(done)


def checkpoints_and_export_load_in_python():
    from safetensors.numpy import load_file
    with shared(psservers=2, workers=2) as c:
        job = c.submit(mlp_job("export", epochs=2))
        done = c.wait_state(job)
        cuts = c.json("checkpoints", job)["checkpoints"]
        check(cuts and cuts[-1]["complete"], "the last checkpoint is not complete")
        check_equal(int(cuts[-1]["steps"]), int(done["steps_asked"]),
                    "steps of the last checkpoint")
        manifest = pathlib.Path(cuts[-1]["manifest"])
        check(json.loads(manifest.read_text()), "the manifest is empty")
        online, offline = c.dir / "a.safetensors", c.dir / "b.safetensors"
        c.run("export", job, "--to", online)
        c.run("export", "--from", manifest, "--to", offline)
        check_equal(online.read_bytes(), offline.read_bytes(), "both exports")
        tensors = load_file(str(online))
        check_equal({k: v.shape for k, v in tensors.items()},
                    {"dense/kernel": (784, 64), "dense/bias": (64,),
                     "dense_1/kernel": (64, 10), "dense_1/bias": (10,)},
                    "exported shapes")
        check_accuracy(tensors, done["evaluations"][-1])


def check_accuracy(tensors, evaluation):
    """Computes the exported net with numpy: the daemons' number must be it."""
    import gzip
    import numpy as np
    raw = gzip.open(FASHION / "t10k-images-idx3-ubyte.gz").read()
    x = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784)[:1000] / 255.0
    y = np.frombuffer(gzip.open(FASHION / "t10k-labels-idx1-ubyte.gz").read(),
                      np.uint8, offset=8)[:1000]
    hidden = np.maximum(x @ tensors["dense/kernel"] + tensors["dense/bias"], 0)
    logits = hidden @ tensors["dense_1/kernel"] + tensors["dense_1/bias"]
    accuracy = float((logits.argmax(1) == y).mean())
    check(abs(accuracy - evaluation["accuracy"]) < 0.0021,
          f"numpy says {accuracy}, the job {evaluation['accuracy']}")


def the_api_and_the_command_tell_the_same_status():
    """What the tests ask over the job API (asker.py) is what people see."""
    with shared(psservers=2, workers=1) as c:
        job = c.submit(mlp_job("same", samples=640, epochs=2))
        c.wait_state(job, "finished")
        shown = c.json("status", job)
        for key in ("spec", "schema_version"):
            shown.pop(key, None)
        check_equal(c.asker.status(job, 10 * LIMIT), shown, "the status of a job")


def jobs_stop_list_and_delete():
    with Cluster(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("long", epochs=1000))
        c.wait_steps(job, 50)
        c.run("stop", job)
        c.wait_state(job, "stopped")
        check(job in c.run("jobs").stdout, "a stopped job is not listed")
        c.run("delete", job)
        c.run("status", job, want=3)
        after = c.submit(mlp_job("after", epochs=1))
        check(after != job, "a job number was used twice")
        c.wait_state(after)
        wait_for("the files of the deleted job to go", lambda: not [
            f for f in (c.dir / "store").glob("long-*/*")])


def follow_prints_a_summary():
    with shared(psservers=2, workers=2) as c:
        spec = c.dir / "job.yaml"
        spec.write_text(json.dumps(mlp_job("follow", epochs=2)))
        done = c.run("submit", spec, "--follow", "--summary", c.dir / "summary.json",
                     limit_s=120)
        summary = json.loads((c.dir / "summary.json").read_text())
        check_equal(summary["steps_asked"], summary["steps_counted"], "steps")
        check_equal(summary["samples_counted"], [6400, 6400], "samples counted")
        check_equal(summary["samples_per_epoch"], 6400, "samples per epoch")
        check_equal(len(summary["test_accuracy"]), 2, "accuracies")
        check(summary["cover"] and summary["once"], "cover and once")
        for key in ("images_per_second", "closures_retried", "workers_killed",
                    "checkpoint"):
            check(key in summary, f"summary.json lacks {key}")
        check("\x1b" not in done.stdout + done.stderr, "escape codes on a pipe")


if __name__ == "__main__":
    main([conv_net_reaches_accuracy_on_a_subset,
          optimizers_and_layers_of_the_graph_form_train,
          nets_of_depthwise_convolutions_and_of_attention_learn,
          an_embedding_learns_what_its_numbers_mean,
          two_jobs_share_the_workers,
          every_sample_of_a_short_last_batch_counts,
          micro_batches_make_a_step,
          late_gradients_are_refused_and_computed_again,
          a_single_row_model_runs_on_more_servers_than_rows,
          checkpoints_and_export_load_in_python,
          the_api_and_the_command_tell_the_same_status,
          jobs_stop_list_and_delete,
          follow_prints_a_summary])
