# SPDX-License-Identifier: Apache-2.0
"""Sluice for Python: exactly-once parameter servers for a program of your own.

Session      a program as a worker, in NumPy
submit, jobs, status, tables, watch, stop, export, follow
             jobs, as the `sluice` command has them
Feed, replay rows of a sparse table, from a folder that `follow` writes
Coordinator, serve
             tasks: work of your own, as bytes, done by programs of yours
sluice.data  Parquet, Arrow and Hugging Face data sets as files that workers read
sluice.report
             a job in MLflow, in Weights & Biases, as a progress bar
sluice.onnx  a trained job as an ONNX model
sluice.hub   a trained job as a folder for Hugging Face's hub
sluice.torch a torch model on a cluster
sluice.keras `fit` of a Keras 3 model there
sluice.jax   pytrees there
"""
from . import report
from ._native import Error
from .client import (CommandError, Job, export, follow, jobs, status, stop, submit,
                     tables, watch)
from .feed import Change, Feed, replay
from .session import (Closure, Drained, Ended, Lost, Session, Step, Table,
                      Variable)
from .tasks import Coordinator, Future, TaskCancelled, TaskFailed, serve

__version__ = "0.1.0"
__all__ = ["Change", "Closure", "CommandError", "Coordinator", "Drained", "Ended", "Error",
           "Feed", "Future", "Job", "Lost", "Session", "Step", "Table", "TaskCancelled",
           "TaskFailed", "Variable", "export", "follow", "jobs", "replay", "report", "serve",
           "status", "stop", "submit", "tables", "watch"]
