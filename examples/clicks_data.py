# SPDX-License-Identifier: Apache-2.0
"""Writes clicks.csv and clicks-test.csv beside this file: the data of clicks.yaml. A
user and the tags have hidden tastes, which make a click likely or not.

    python3 examples/clicks_data.py
"""
import math
import pathlib
import random

USERS, TAGS, SAMPLES, TEST = 2000, 300, 50000, 5000


def write(path, samples, draw):
    with path.open("w") as out:
        out.write("click,price,hour,user,tags\n")
        for _ in range(samples):
            user = min(int(draw.paretovariate(0.7)), USERS) * 0x9e3779b97f4a7c15 % 2**64
            tags = [draw.randrange(TAGS) for _ in range(draw.randrange(4))]
            price, hour = draw.random(), draw.randrange(24) / 24
            score = 2 * math.sin(user % 1009) + sum(math.cos(7 * t) for t in tags) - price
            click = int(draw.random() < 1 / (1 + math.exp(-2 * score)))
            bag = "|".join(map(str, tags))
            out.write(f"{click},{price:.6f},{hour:.6f},{user},{bag}\n")


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    write(here / "clicks.csv", SAMPLES, random.Random(1))
    write(here / "clicks-test.csv", TEST, random.Random(2))
