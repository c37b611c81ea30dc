# SPDX-License-Identifier: Apache-2.0
"""The files of the repository: those that git knows, or would take."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked(*patterns):
    """Paths below the root, sorted; of git's patterns, or all."""
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({name for name in out.split("\0")
                   if name and (ROOT / name).is_file()})
