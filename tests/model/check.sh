#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [WORK [K N]] - runs the models of this folder with spin: each must hold, and each mistake must be caught. One line per run;
# K N: every N-th run from the K-th on. Status 1: a run did not end as it should, 77: spin or a C compiler is not installed.
# check.sh --changed WORK K N - likewise, but nothing where models and runs are those of checked.txt: they take minutes, and say the same again.
# check.sh --record - likewise, everything, and writes checked.txt if all ended as it should.
here=$(cd "$(dirname "$0")" && pwd)
sum() { (cd "$here" && cat check.sh *.pml | sha256sum); }
record= changed=
case ${1-} in --record) record=yes; shift ;; --changed) changed=yes; shift ;; esac
if [ -n "$changed" ] && [ "$(sum)" = "$(tail -n 1 "$here/checked.txt")" ]; then
    echo "as they were when they were checked"
    exit 0
fi
work=${1:-$(mktemp -d)} part=${2:-1} parts=${3:-1} number=0
command -v spin >/dev/null && command -v cc >/dev/null || exit 77
bad=0

# Runs model $3 with the defines behind it; $2 is the number of errors that it must find: 0, or 1 for any.
run() {
    local name=$1 want=$2 model=$3 got optimise=-O0 # most are done sooner than the compiler optimises
    shift 3
    [ $((number++ % parts)) = $((part - 1)) ] || return 0
    case $name in move | local_sets_one) optimise=-O2 ;; esac
    mkdir -p "$work/$name" && cd "$work/$name" && rm -f -- *.trail && cp "$here/$model" . || exit 1
    spin -a "$@" "$model" >spin.log 2>&1 && cc $optimise -w -DSAFETY -o pan pan.c || { cat spin.log; bad=1; return; }
    ./pan -m20000 >out 2>&1
    grep -q 'errors: 0' out && got=0 || got=1
    grep -q 'max search depth too small\|out of memory' out && got=incomplete
    printf '%-18s %s %s\n' "$name" "$(grep -o 'errors: [0-9]*' out)" "$(grep -o '[0-9.e+]* states, stored' out)"
    [ "$got" = "$want" ] || { echo "$name: wanted $want, got $got"; bad=1; }
}

run audit 0 audit.pml
run audit_lies 0 audit.pml -DLIES -DDEATHS=0
run audit_names 0 audit.pml -DNAMES -DDEATHS=0
run B_WORD 1 audit.pml -DB_WORD
run B_NAMES 1 audit.pml -DB_NAMES -DNAMES
run B_INPUTS 1 audit.pml -DB_INPUTS
run B_COUNT 1 audit.pml -DB_COUNT
run B_GATE 1 audit.pml -DB_GATE
run differences 0 differences.pml
run differences_names 0 differences.pml -DNAMES
run differences_two 0 differences.pml -DTWO
run B_ONE 1 differences.pml -DB_ONE
run B_HOST 1 differences.pml -DB_HOST -DNAMES
run B_OTHERS 1 differences.pml -DB_INPUTS
run B_THIRD 1 differences.pml -DB_THIRD -DTWO
run B_KIN 1 differences.pml -DB_KIN -DNAMES
run B_KEEP 1 differences.pml -DB_KEEP
run own 0 own.pml
run own_lies 0 own.pml -DLIES
run B_OTHER 1 own.pml -DB_OTHER -DLIES
run B_REREAD 1 own.pml -DB_REREAD -DB_INPUTS
run B_PUSH 1 own.pml -DB_PUSH
run B_DONE 1 own.pml -DB_DONE
run joins 0 joins.pml
run joins_lies 0 joins.pml -DLIES
run joins_names 0 joins.pml -DNAMES
run J_WORD 1 joins.pml -DB_WORD
run J_NAMES 1 joins.pml -DB_NAMES -DNAMES
run J_KINDS 1 joins.pml -DB_KINDS
run J_AGAIN 1 joins.pml -DB_AGAIN
run J_LATE 1 joins.pml -DB_LATE
run audit_ring 0 audit_ring.pml
run audit_ring_falls 0 audit_ring.pml -DFALLS -DDEATHS=0
run ring_B_INPUTS 1 audit_ring.pml -DFALLS -DDEATHS=0 -DB_INPUTS
run ring_B_STAY 1 audit_ring.pml -DB_STAY
run ring_B_UNDO 1 audit_ring.pml -DB_UNDO
run ring_B_COUNT 1 audit_ring.pml -DB_COUNT
run ring_B_GATE 1 audit_ring.pml -DB_GATE
run rows 0 rows.pml
run rows_full 0 rows.pml -DFULL
run rows_two 0 rows.pml -DTWO
run T1_SKIP 1 rows.pml -DB_SKIP -DTWO
run T3_ORDER 1 rows.pml -DB_ORDER -DFULL -DFALLS=1
for mistake in T1_APART T2_MAKE T2_DRAWN T3_TWICE T4_LOOK T4_DUP T4_COIN T5_BETWEEN T5_THREAD T5_WALL T5_PLACE \
    T6_INSTANT T6_LATER T6_GONE T6_WAITING; do
    run $mistake 1 rows.pml -DB_${mistake#*_} -DFALLS=1
done
run rows_round 0 rows_round.pml
run rows_round_one 0 rows_round.pml -DONE
run rows_round_skip 0 rows_round.pml -DSKIP
run T7_SKIPS 1 rows_round.pml -DB_SKIPS -DSKIP -DFALLS=0
for mistake in T7_EACH T7_COUNTS T7_ORDER T7_TWICE T8_PRESENT; do
    run $mistake 1 rows_round.pml -DB_${mistake#*_} -DFALLS=0
done
run rows_ring 0 rows_ring.pml
run rows_ring_two 0 rows_ring.pml -DNS=2 -DFAULTS=1
for mistake in READ OLD GIVE WHOLE FIRST LATE PAST ALONE KEEP DROP CUT; do
    run rows_ring_$mistake 1 rows_ring.pml -DB_$mistake
done
run chain 0 chain.pml
for mistake in DURABLE GONE ONE BACK LATE UNDO PRUNE; do
    run T10_$mistake 1 chain.pml -DB_$mistake
done
run move 0 move.pml
run move_three 0 move.pml -DKILLS=1 -DMOVES=3
for mistake in ANSWERS EARLY NUMBER TIMER RENEW OLD FORGET DURABLE INSTANT SERVES OLDEND ORDER HALF FEEDS LATE; do
    run M_$mistake 1 move.pml -DKILLS=1 -DB_$mistake
done
run M_STALE 1 move.pml -DB_STALE
run replica 0 replica.pml -DKILLS=1
run replica_two 0 replica.pml -DFEEDS=1 -DSNAPS=0
for mistake in ALONE EARLY FENCE ANEW JOURNAL READY FORGET FROM CUT OLD; do
    run P_$mistake 1 replica.pml -DB_$mistake
done
run follow 0 replica.pml -DFOLLOW -DKILLS=1
run follow_two 0 replica.pml -DFOLLOW -DFEEDS=1
run follow_keys 0 replica.pml -DFOLLOW -DFEEDS=1 -DKILLS=1 -DALL=3
run follow_TAG 1 replica.pml -DFOLLOW -DFEEDS=1 -DKILLS=1 -DALL=3 -DB_TAG
for mistake in ALONE CUT EVIDENCE; do
    run follow_$mistake 1 replica.pml -DFOLLOW -DFEEDS=1 -DB_$mistake
done
run local 0 local.pml -DFALLS=1 -DRESTARTS=0
run local_falls 0 local.pml -DLEAVES=0 -DRESTARTS=0
run local_restart 0 local.pml -DFALLS=1 -DLEAVES=0 -DLOSSES=0
run local_quorum 0 local.pml -DFALLS=1 -DRESTARTS=0 -DLOSSES=0 -DBAR=1 -DK=2
run local_sets 0 local.pml -DFALLS=1 -DRESTARTS=0 -DLOSSES=0 -DSETS
run local_sets_one 0 local.pml -DFALLS=1 -DRESTARTS=0 -DLOSSES=0 -DSETS -DM=1
run L_BARRIER 1 local.pml -DFALLS=1 -DRESTARTS=0 -DLOSSES=0 -DBAR=1 -DK=2 -DB_BARRIER
for mistake in APART FILE KEEP HELD CLOSED END WAIT DROP OLD; do
    run L_$mistake 1 local.pml -DFALLS=1 -DRESTARTS=0 -DLOSSES=0 -DB_$mistake
done
for mistake in SOME ALL FIRST STAY MIX; do
    run L_$mistake 1 local.pml -DFALLS=1 -DRESTARTS=0 -DLOSSES=0 -DSETS -DB_$mistake
done
run fragments 0 fragments.pml -DNK=2 -DBAR=1
run fragments_falls 0 fragments.pml -DNK=2 -DBAR=2 -DLEAVES=0
run fragments_three 0 fragments.pml -DBAR=3 -DLEAVES=0 -DFALLS=0
run fragments_restart 0 fragments.pml -DNK=2 -DBAR=1 -DFALLS=0 -DRESTARTS=1
run fragments_one 0 fragments.pml -DNK=2 -DBAR=1 -DM=1
for mistake in EARLY LAST AGAIN PART BOTH; do
    run L8_$mistake 1 fragments.pml -DNK=2 -DBAR=1 -DB_$mistake
done
run L8_MIX 1 fragments.pml -DBAR=3 -DLEAVES=0 -DB_MIX
run standby 0 standby.pml
run standby_three 0 standby.pml -DT=3 -DD=1 -DDEATHS=0
for mistake in COND VERSION UNKNOWN RESEND EARLY TERM TAIL CLOCK FENCE WATCH BELOW; do
    run H_$mistake 1 standby.pml -DB_$mistake
done
run moments 0 moments.pml
run moments_falls 0 moments.pml -DNR=2 -DFALLS=1 -DLEAVES=1
for mistake in HELD PAST FILE REPEAT APART ONCE; do
    run L9_$mistake 1 moments.pml -DB_$mistake
done
if [ -n "$record" ] && [ $bad = 0 ]; then
    { echo "# What check.sh --record has run, every run as it should be; a test runs them again when this is another sum."; sum; } >"$here/checked.txt"
fi
exit $bad
