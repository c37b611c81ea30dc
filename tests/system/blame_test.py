#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one worker says against a job costs that worker, and nobody else."""
import shutil

from cluster import check, check_counts, check_equal, main, wait_for
from images_test import COLOURS, folder_of, images_job
from member import COORD, JOBS, JOBS_CALLS, Member, Played, external_job
from roots_test import ROWS, csv_job

from google.protobuf import json_format


class Rooted(Played):
    """Paths of jobs are those below each worker's --data-root, as they stand there."""

    def submit(self, spec):
        request = JOBS.SubmitRequest()
        json_format.ParseDict(spec, request.spec)
        return self.calls(JOBS_CALLS.JobsStub).Submit(request).id


def warning_of(c, job, name):
    """The warning of a job that names a worker, once there is one."""
    def probe():
        now = c.status(job)
        check_equal(now["state"], "running", f"the job, {now.get('reason')}")
        return next((w for w in now.get("warnings", []) if f"worker {name} " in w), None)
    return wait_for(f"a warning of {name}", probe, 60)


def starts_with(c, name, root):
    c.roots = (str(root),)
    c.start(name)


# A worker that stands still keeps its closures for longer than a test takes.
PATIENT = {"psservers": 1, "workers": 0, "coordinator_args": ["--lease-ms", "120000"]}


def one_more(c, job, name, root, *words):
    """A worker comes with other files, while w-0 stands still, so that the job lasts: it is
    told, and left out; and w-0 shows that the job's files are good ones."""
    c.pause("w-0")
    steps = c.steps(job)
    starts_with(c, name, root)
    said = warning_of(c, job, name)
    c.resume("w-0")
    c.wait_steps(job, steps + 5)
    for word in (*words, "is left out of this job and asked again in 60 s"):
        check(word in said, f"no '{word}' in", said)
    why = {m["name"]: m.get("reason", "") for m in c.cluster_status()["members"]}
    check("put aside" in why[name], f"what is said of {name}", why)
    check_equal(why["w-0"], "", "what is said of w-0")
    c.kill(name)


def a_half_copied_table_costs_one_worker():
    """An older copy, a mount point without its mount, a file that is cut short."""
    with Rooted(**PATIENT) as c:
        for name, text in [("good", ROWS), ("short", ROWS[:-len("5,4,1\n") * 40]),
                           ("cut", ROWS[:-3]), ("empty", None)]:
            (c.dir / name).mkdir()
            if text is not None:
                (c.dir / name / "rows.csv").write_text(text)
        starts_with(c, "w-0", c.dir / "good")
        job = c.submit(csv_job("rows.csv", epochs=100))
        c.wait_steps(job, 10)
        one_more(c, job, "w-1", c.dir / "short", "rows.csv has 600 samples here, 640 were")
        one_more(c, job, "w-2", c.dir / "empty", "cannot read the data", "rows.csv")
        one_more(c, job, "w-3", c.dir / "cut", "rows.csv")
        check_counts(c.wait_state(job))


def a_half_copied_folder_costs_one_worker():
    """A class is empty, an image is missing, nothing is mounted."""
    with Rooted(**PATIENT) as c:
        folder_of(c.dir / "good" / "images", 20, COLOURS)
        for name in ("half", "less"):
            shutil.copytree(c.dir / "good", c.dir / name)
        for path in (c.dir / "half" / "images" / "sky").iterdir():
            path.unlink()
        (c.dir / "less" / "images" / "brick" / "007.png").unlink()
        (c.dir / "bare" / "images").mkdir(parents=True)
        starts_with(c, "w-0", c.dir / "good")
        spec = images_job("images", None)
        spec["model"]["layers"] = [{"type": "flatten"}, {"type": "dense", "units": 3}]
        spec["train"].update(epochs=600)
        job = c.submit(spec)
        c.wait_steps(job, 5)
        one_more(c, job, "w-1", c.dir / "less", "images has 59 samples here, 60 were")
        one_more(c, job, "w-2", c.dir / "half", "images/sky holds no image")
        one_more(c, job, "w-3", c.dir / "bare", "images holds no images")
        check_counts(c.wait_state(job))


def names_of_one_certificate_are_one_voice():
    """Five say of the same closure that they cannot compute it."""
    with Played(psservers=1, workers=0) as c:
        job = c.submit(external_job())
        for number in range(5):
            with Member(c, f"x-{number}", external=True, host=f"h-{number}") as m:
                # A closure that failed waits a little: others may be leased first.
                lease = m.wait(lambda m=m: next(
                    (one for one in m.leases if one.closure == 0), None))
                check(lease is not None, "its lease", list(m.leases), m.ended)
                m.say(failed=COORD.AttemptFailed(job=lease.job, closure=0, code=13,
                                                 attempt=lease.attempt, text="no"))
                check(m.wait(lambda m=m: len(m.leases) > 2), "it is asked no more", m.ended)
                check_equal(c.status(job)["state"], "running", f"after {number + 1}")
            # What it holds is the next one's only when it is gone.
            wait_for(f"x-{number} to be gone", lambda: all(
                m["state"] == "lost" for m in c.cluster_status()["members"]
                if m["role"] == "worker"))


if __name__ == "__main__":
    main([a_half_copied_table_costs_one_worker, a_half_copied_folder_costs_one_worker,
          names_of_one_certificate_are_one_voice])
