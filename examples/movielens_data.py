# SPDX-License-Identifier: Apache-2.0
"""Writes movielens.csv and movielens-test.csv beside this file, the data of movielens.yaml,
from ratings of MovieLens: GroupLens' u.data, or ml-100k.inter of RecBole's wheel, with
a line for each rating: user, film, rating from 1 to 5, time. Each fifth is for the test.

    python3 examples/movielens_data.py u.data
"""
import pathlib
import random
import sys


def ratings(path):
    """(user, film, rating, time) of each line but a header."""
    for line in pathlib.Path(path).read_text().splitlines():
        if line[:1].isdigit():
            yield [int(float(word)) for word in line.split()[:4]]


def write(path, lines, first, last):
    with path.open("w") as out:
        out.write("liked,when,user,film\n")
        for user, film, rating, time in lines:
            when = (time - first) / (last - first)  # from 0 to 1
            out.write(f"{int(rating >= 4)},{when:.6f},{user},{film}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines, here = list(ratings(sys.argv[1])), pathlib.Path(__file__).parent
    random.Random(1).shuffle(lines)
    times = [line[3] for line in lines]
    write(here / "movielens.csv", [line for i, line in enumerate(lines) if i % 5],
          min(times), max(times))
    write(here / "movielens-test.csv", lines[::5], min(times), max(times))
