#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A simulation is worth what it catches: deliberate mistakes of tests/mutants,
each of which must fail some seed of tests/sim.

    mutants_test.py PATH/sim.life                all of them
    mutants_test.py PATH/sim.life rule_K5 ...    only these
    mutants_test.py PATH/sim.life --part 1/2     every second one, from the first on

Needs a build with SLUICE_TESTING. Prints which seed caught each.
tests/house/mutants.py checks that each mistake stands in CAUGHT or in NOT_HERE.
"""
import os
import re
import subprocess
import sys

SEEDS = 2000  # at most; most are caught by the first few
FIRST = 20260701  # the harness' own seed

# Caught by the long test; where another one is needed, its name.
CAUGHT = dict.fromkeys("""
    skip_dedupe forget_counted skip_incarnation skip_attempt count_refused
    low_from_outside believe_old lose_closure hole_in_cut publish_old
    early_manifest finish_early skip_term apply_rejected
    wrong_report crash_on_keep change_value tear_snapshot rule_I1 rule_I1_falls
    rule_I2 rule_I5 rule_I5_push rule_S4 rule_S5 rule_W1_resume
    rule_W1_again rule_I4_adopts rule_C2 rule_C3
    rule_C4 rule_C5 rule_K2 rule_K3_keep rule_K3_own rule_K4 rule_K5 rule_K6
    rule_K6_invents rule_E1 rule_E1_back rule_E2 rule_E3
    rule_T1 rule_T10_since rule_T10_durable rule_T10_prune
    """.split(), "live")
CAUGHT.update(dict.fromkeys(("leak_snapshots", "keep_leases"), "quiet"))
CAUGHT.update(dict.fromkeys("""rule_R1 rule_R1_journal rule_R3 rule_R3_equal
    rule_R2_stays rule_R3_tag rule_R4 rule_R5 rule_R6 skip_next forget_key
    feed_forget_silent found_unsynced rule_A3_ring""".split(), "ring_what"))
CAUGHT.update(dict.fromkeys("rule_L1 rule_L2 rule_L2_waits rule_L3".split(), "open_what"))
CAUGHT.update(rule_A5="live", rule_A5_word="A5", rule_A5_share="hybrid_what")
CAUGHT.update(dict.fromkeys("rule_I4_copy rule_Y1 rule_Y2 rule_Y3 rule_Y4 rule_A2 "
                            "rule_A2_inputs rule_A2_bits rule_A3".split(), "sync_what"))
CAUGHT.update(rule_A2_far="A2_audits_find_a_worker_among")

# Nothing else is asked to catch these: it takes a whole worker and bad luck.
ALONE = """keep_evidence push_other_key push_after_end write_lent
    overtake_reads""".split()
CAUGHT.update(dict.fromkeys(ALONE, "live"))
ALONE += "place_uneven hold_late_piece push_torn_step".split()
CAUGHT.update(place_uneven="ring_what", hold_late_piece="ring_what",
              push_torn_step="hybrid_what")

# The first seed that catches it, behind FIRST, as the program prints it: that is tried
# first. A change of the simulation may move them; then all seeds are tried.
SEED = {name: int(seed) for name, seed in (pair.split(":") for pair in """
    apply_rejected:5 believe_old:5 change_value:0 count_refused:15 early_manifest:0
    feed_forget_silent:1938 finish_early:0 forget_counted:0 forget_key:0 found_unsynced:278
    hold_late_piece:552 keep_evidence:5 lose_closure:4 low_from_outside:0 overtake_reads:0
    place_uneven:111 publish_old:313 push_after_end:15 push_other_key:2 push_torn_step:3
    rule_A2:19 rule_A2_bits:17 rule_A2_far:0 rule_A2_inputs:22 rule_A3:0 rule_A3_ring:0
    rule_A5:4 rule_A5_share:49 rule_A5_word:0 rule_C2:6 rule_C3:3 rule_C4:8 rule_C5:4
    rule_E1:0 rule_E1_back:160 rule_E2:0 rule_E3:0 rule_I1:0 rule_I1_falls:61 rule_I2:32
    rule_I4_adopts:6 rule_I4_copy:4 rule_I5:65 rule_I5_push:1 rule_K2:0 rule_K3_keep:1
    rule_K3_own:0 rule_K4:0 rule_K5:35 rule_K6:117 rule_K6_invents:35 rule_L1:1 rule_L2:8
    rule_L2_waits:1 rule_L3:1 rule_R1:2 rule_R1_journal:0 rule_R3:5 rule_R3_equal:1
    rule_R3_tag:2 rule_R4:0 rule_R5:0 rule_R6:72 rule_S4:0 rule_S5:2 rule_T1:1
    rule_T10_durable:30 rule_T10_prune:1 rule_T10_since:1 rule_W1_again:0 rule_W1_resume:8
    rule_Y1:1 rule_Y2:0 rule_Y3:0 rule_Y4:0 skip_attempt:15 skip_dedupe:2
    skip_incarnation:2 skip_next:0 skip_term:72 tear_snapshot:155 write_lent:6
    wrong_report:0
    """.split())}
# Nothing breaks: something happens too seldom, which so many seeds show.
SELDOM = {"rule_R2_stays": 200}

# Why a mistake cannot show here.
NOT_HERE = {
    "early_report": "is made in fs_posix.c; rule_K2 is the same above it",
    "hang_call": "is made in the RPC layer",
    "lose_slots": "plain SGD has no slots",
    "rule_I1_same": "a second lock: the coordinator never gives such a number",
    "rule_I1_late": "takes three hellos of one shard that wait for the coordinator",
    "rule_I4": "a second lock: attempts only rise in a term",
    "rule_I6": "a job keeps its incarnation here",
    "rule_I6_file": "a job keeps its incarnation here",
    "rule_I7": "no journal is restored from an older copy here",
    "rule_I7_manifest": "no journal is restored from an older copy here",
    "rule_I7_number": "no journal is restored from an older copy here",
    "rule_I7_moved": "no journal is restored from an older copy here",
    **dict.fromkeys("rule_M1 rule_M1_feed rule_M2 rule_M2_feed rule_M3 rule_M3_feed rule_M3_target "
                    "rule_M4 rule_M4_place rule_M5 rule_M5_order rule_M5_once rule_M5_end".split(),
                    "no shard moves here: nobody drains a psserver"),
    **dict.fromkeys("rule_P1 rule_P2 rule_P3 rule_P3_other rule_P3_begin rule_P3_journal rule_P4 "
                    "rule_P3_renew rule_P4_fence rule_P4_tag rule_P4_bind rule_P5 rule_P6 "
                    "rule_P6_feed rule_P7".split(),
                    "no job here has replicas"),
    "rule_I5_seen": "members here do not say which term they have seen",
    "rule_H1": "one coordinator, without etcd, is there",
    "rule_H1_free": "one coordinator, without etcd, is there",
    "rule_H2": "one coordinator, without etcd, is there",
    "rule_H3": "one coordinator, without etcd, is there",
    "rule_H4": "one coordinator, without a lease, is there",
    "rule_H4_late": "one coordinator, without a lease, is there",
    "rule_H5": "members here do not say which term they have seen",
    "rule_H6": "one coordinator, without etcd, is there",
    "rule_C5_shard": "a second lock: the coordinator leases no closure beyond the window (C5)",
    "fence_unproven": "members here ask for nothing that they were not leased",
    "rule_K6_store": "whoever replaces a disk here marks its store",
    "rule_K1": "a second lock: a tag is given once",
    "rule_K3": "a Keep of an older term names older tags: it deletes less",
    "rule_K7": "a second lock: no psserver here passes over a newer snapshot (rule_K7_load)",
    "rule_K7_load": "a second lock: the coordinator refuses it (rule_K7)",
    "rule_W1": "a second lock: the shard refuses the push (I3)",
    "rule_W1_map": "a second lock: the coordinator ignores it (W2, C1)",
    "rule_W2": "a second lock: the map has voided the evidence (W1)",
    "merge_sets": "no job is resumed from another one here",
    "rule_R2": "a second lock: a stream keeps the order of a rank's answers",
    **dict.fromkeys("rule_D1 rule_D1_known rule_D2".split(),
                    "jobs here have no callbacks; callbacks_life_test.c has them"),
    "rule_Y4_keeps": "slots of a later round are leased early; unit.coordinator.ahead",
    "rule_Y4_twice": "who has two of a round does one after the other here, too",
    "rule_A1": "workers here say nothing of slots that they were not leased",
    "rule_A1_ranks": "ranks here say nothing of slots that are not theirs to compute",
    "rule_A1_shares": "members here say nothing of shares that are not theirs to compute",
    "rule_A1_said": "results that are lost decide nothing",
    "rule_A1_share": "which rounds are audited is nothing that must hold",
    "rule_A2_kin": "each worker here is of a host of its own",
    "rule_A2_near": "right results of two kinds are always near here",
    "rule_A2_scale": "there is always something left to learn here",
    "rule_A2_once": "no right result of two kinds is far here",
    "rule_A5_inputs": "the two results of a step are of the same parameters here",
    "rule_A6": "each worker here is of a host of its own",
    "rule_A6_doubt": "one worker alone is wrong here",
    "rule_A6_keeps": "no suspect is undrained here",
    "rule_A6_meets": "workers here are not of one pace",
    "rule_A4": "nothing is leased to a worker that is wrong: unit.coordinator.suspects",
    **dict.fromkeys("rule_A7 rule_A7_again".split(), "workers here tell no test vectors"),
    **dict.fromkeys("rule_T2 rule_T3 rule_T3_group rule_T4 rule_T4_asked rule_T5 "
                    "rule_T5_window rule_T6 rule_T6_late rule_A1_rows rule_T7 rule_T7_order "
                    "rule_T8 rule_T8_asked rule_T9 rule_T9_check rule_T9_back rule_T10_gone "
                    "rule_T10_undo rule_T10_back rule_T10_hash "
                    "rule_T10_torn rule_W1_rows rule_A1_kept rule_A3_rows "
                    "rule_R8 rule_R8_skip rule_R8_sum rule_R8_of rule_R8_push "
                    "rule_R8_counted rule_R9 rule_R9_keeps rule_R9_fit "
                    "rule_R9_newest rule_R9_loaded rule_R6_rows".split(),
                    "async jobs alone have a table here, of which no row waits or goes"),
    "rule_L2_grace": "a round that ends early counts as much; unit.coordinator.meeting",
    "rule_L4": "the map has voided the evidence (W1)",
    **dict.fromkeys("rule_L5 rule_L5_first rule_L6 rule_L7 rule_L8 rule_L8_early "
                    "rule_L8_repeat".split(),
                    "a push here counts one closure"),
    **dict.fromkeys("rule_L9 rule_L9_before rule_L9_repeat".split(),
                    "workers here have no optimizer"),
    "rule_R6_hold": "jobs here have no callbacks, and ranks write what is left when all is counted",
    "rule_R7": "a second lock: who joins again is asked by a new generation",
}


def run(sim, mistake, first, seeds):
    """Gives (exit status, the seed that failed, the first words of the failure)."""
    done = subprocess.run(
        [sim, CAUGHT.get(mistake, "live")], capture_output=True, text=True, check=False,
        timeout=600, env={**os.environ, "SLUICE_BREAK": mistake, "SIM_FIRST": str(first),
                          "SIM_SEEDS": str(seeds)})
    seed = re.search(r"SIM_SEED=(\d+)", done.stderr)
    words = re.search(r"^\S*(?:sim/\S+: \S+|sim\.life): (.*)", done.stderr, re.M)
    return done.returncode, int(seed[1]) if seed else None, words[1][:90] if words else ""


def catch(sim, mistake):
    """As run(): the seed of SEED alone, and all where that says nothing."""
    if mistake in SEED or mistake in SELDOM:
        found = run(sim, mistake, FIRST + SEED.get(mistake, 0), SELDOM.get(mistake, 1))
        if found[0]:
            return found
    return run(sim, mistake, FIRST, SEEDS)


def main():
    sim, wanted = sys.argv[1], sys.argv[2:]
    if wanted[:1] == ["--part"]:
        k, n = map(int, wanted[1].split("/"))
        wanted = sorted(CAUGHT)[k - 1::n]
    missed = []
    for name in wanted or sorted(CAUGHT):
        status, seed, words = catch(sim, name)
        if status == 0:
            missed.append(name)
        print(f"{'caught' if status else 'MISSED'} {name}"
              f"{f' by seed {seed - FIRST}' if seed else ''}: {words}", flush=True)
    print(f"{len(missed)} missed {missed}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
