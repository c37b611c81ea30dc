# SPDX-License-Identifier: Apache-2.0
"""When spot machines came and went: traces that are published, and drawn ones.

A trace is a list of (seconds, "add" or "remove", machine), in order. Read are

    milliseconds,add,NAME      every coming and going (also `remove`), as the
                               AWS traces of uclasystem/bamboo have it
    date, time, count          how many there were, as its Google Cloud ones do
    seconds,count              the same, with times from 0

Lines that begin with #, and words before the first number, are left out. Of a count
that falls, who went is drawn. `draw` makes a trace with the statistics of the
published ones: length, comings, goings, how many go in one instant (the groups
add up to the goings), lives, and how long it takes until another one comes.
"""
import csv
import datetime
import math
import random

from cluster import Failed, check

MINUTE = 60
# hours, machines at first, most; removal instants by size of group; median and
# 9th decile of minutes of a life, and until the next one comes.
KINDS = {
    "g4dn": {"hours": 10.6, "first": 15, "most": 24, "life": (61, 252), "next": (5, 52),
             "groups": {1: 31, 2: 12, 3: 2, 4: 2, 5: 1}},
    "p3": {"hours": 11.4, "first": 26, "most": 32, "life": (59, 198), "next": (9, 14),
           "groups": {1: 39, 2: 13, 3: 15, 4: 7, 5: 1, 6: 4}},
}


def spread(dice, median, decile):
    """A number whose logarithm is normal."""
    return median * math.exp(dice.gauss(0, math.log(decile / median) / 1.2816))


def draw(kind, seed):
    """A trace as one of KINDS; times are whole minutes, as the published are."""
    want, dice = KINDS[kind], random.Random(f"{kind} {seed}")
    end = int(want["hours"] * 60)
    groups = [size for size, times in want["groups"].items() for _ in range(times)]
    dice.shuffle(groups)
    goings = dict(zip(sorted(dice.sample(range(2, end), len(groups))), groups))
    coming = {0: want["first"]}
    alive, out, names = {}, [], iter(range(1 << 20))  # machine: when its life is over
    for minute in range(end):
        for _ in range(coming.pop(minute, 0)):
            if len(alive) < want["most"]:
                name = f"m{next(names)}"
                alive[name] = minute + spread(dice, *want["life"])
                out.append((minute * MINUTE, "add", name))
        gone = sorted(alive, key=alive.get)[:min(goings.get(minute, 0), len(alive) - 1)]
        for name in gone:
            del alive[name]
            out.append((minute * MINUTE, "remove", name))
            back = minute + max(1, round(spread(dice, *want["next"])))
            coming[back] = coming.get(back, 0) + 1
    return out


def of_counts(samples, seed):
    """Comings and goings from (seconds, count)."""
    dice, alive, out, made = random.Random(seed), [], [], 0
    for when, count in samples:
        while len(alive) < count:
            alive.append(f"m{made}")
            made += 1
            out.append((when, "add", alive[-1]))
        while len(alive) > count:
            out.append((when, "remove", alive.pop(dice.randrange(len(alive)))))
    return out


def of_row(row):
    """(seconds, what, machine), or (seconds, None, count)."""
    if len(row) == 3 and row[1] in ("add", "remove"):
        return int(row[0]) / 1000, row[1], row[2]
    if len(row) == 3:
        when = datetime.datetime.fromisoformat(f"{row[0]}T{row[1]}+00:00")
        return when.timestamp(), None, int(row[2])
    seconds, count = row
    return float(seconds), None, int(count)


def read(path, seed=1):
    rows, latest = [], None
    with open(path, encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file, skipinitialspace=True), 1):
            row = [word.strip() for word in row]
            if not row or row[0].startswith("#") or not (rows or row[0][:1].isdigit()):
                continue
            try:
                when, what, who = of_row(row)
            except ValueError as error:
                raise Failed(f"{path}:{number}: {','.join(row)}: neither milliseconds,add,NAME "
                             f"nor date,time,count nor seconds,count ({error})") from error
            # Samples of one look overlap those of the next, which knows better.
            latest = when if latest is None else max(latest, when)
            rows.append((latest, what, who))
    check(rows, f"{path}: no line of a trace in it")
    check(len({what is None for _, what, _ in rows}) == 1, f"{path}: of two formats")
    began = rows[0][0]
    if rows[0][1] is None:
        return of_counts([(when - began, count) for when, _, count in rows], seed)
    return in_order([(when - began, what, who) for when, what, who in rows], path)


def in_order(events, path):
    alive = set()
    for when, what, who in events:
        check((who in alive) == (what == "remove"),
              f"{path}: at {when:g} s {who} is to {what} and "
              f"{'is' if who in alive else 'is not'} there")
        (alive.add if what == "add" else alive.remove)(who)
    return events


def scaled(events, most):
    """With at most so many machines: one that comes is taken while fewer are
    taken than its share. So lives, and what goes together, stay as they were."""
    alive, taken, out = set(), set(), []
    peak = most_alive(events)
    for when, what, who in events:
        if what == "add":
            alive.add(who)
            if len(taken) < max(1, round(len(alive) * min(1, most / peak))):
                taken.add(who)
                out.append((when, what, who))
        else:
            alive.remove(who)
            if who in taken:
                taken.remove(who)
                out.append((when, what, who))
    return out


def most_alive(events):
    now = peak = 0
    for _, what, _ in events:
        now += 1 if what == "add" else -1
        peak = max(peak, now)
    return peak


def busiest(events, seconds):
    """The part of that length in which most machines go, with times from 0: who
    is there when it begins comes at 0."""
    goings = [when for when, what, _ in events if what == "remove"]
    latest = max(0, events[-1][0] - seconds)
    start = max((min(max(0, when - seconds / 10), latest) for when in goings), default=0,
                key=lambda s: sum(s <= when < s + seconds for when in goings))
    alive, out = [], []
    for when, what, who in events:
        if when < start:
            alive.append(who) if what == "add" else alive.remove(who)
        elif when < start + seconds:
            out.append((when - start, what, who))
    return [(0, "add", who) for who in alive] + out


def figures(events, end):
    """What a trace is like: of a whole one, and of a part."""
    came, lives, area = {}, [], 0
    for when, what, who in events:
        if what == "add":
            came[who] = when
        else:
            lives.append(when - came.pop(who))
            area += lives[-1]
    area += sum(end - when for when in came.values())
    return {"hours": end / 3600, "removes": len(lives), "most": most_alive(events),
            "mean": area / end, "removes_per_hour": 3600 * len(lives) / area,
            "life_p50_min": sorted(lives)[len(lives) // 2] / 60 if lives else 0}
