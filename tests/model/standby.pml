/* standby.pml - coordinators that stand by (docs/protocol.md, Standby coordinators).
 *
 * Modelled: an etcd, two coordinators, a member (a worker or a shard: what matters is that it hears orders), clients with D decisions to make.
 * Every step of a process is an action of its own, so a process may stand still (SIGSTOP) between any two of them, for longer than its lease.
 *   etcd         the leader's key: `key` is its create revision, 0: there is none; `revs` numbers the keys. The log: one record a sequence, of a term.
 *                Its lease ends at any time, also while it is renewed (an etcd that stalled revokes leases of others).
 *   flights      a Txn on its way: it is done at any time later, after its sender gave it up, too, or never. Two at most of one coordinator.
 *   coordinator  DOWN, STANDS (applies the log as it comes), CHOSEN (has the key), SERVES. `mem` are the decisions that its own journal has.
 *                clock: its own clock says that its lease holds. pend: the decision that it writes.
 *   member       high: the newest term heard of. An order is on its way for as long as it likes.
 *   link         the member and coordinator c hear each other; without it c learns by etcd and by its clock alone
 *   base         records below it are deleted: a base holds what they said
 *   terms        the newest term: a row of the journal. A coordinator that was chosen commits the next one as its first record.
 * Faults, as long as there are terms left: leases end, clocks run out, coordinators die and start again, Txns come late or never.
 *
 * Properties
 *   once      assert at a write: no sequence has two records, no decision is in the log twice
 *   order     assert at a write: no record of an older term comes after one of a newer
 *   known     assert when it begins to serve: its journal has every decision that was answered; it never lacks one that it answers from
 *   truth     assert at an answer: a decision that was said to have failed is not in the log, then or later
 *   terms     assert at an order: no two elections give orders of one term
 *   fence     assert at a member: no order of an older term is obeyed after one of a newer
 *   goes on   at the end one coordinator serves, by the key; every decision was answered; no other believes that it leads
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef T
#define T 2    /* elections */
#endif
#ifndef D
#define D 2    /* decisions */
#endif
#define N 4    /* sequences */
#ifndef DEATHS
#define DEATHS 1
#endif
#define DOWN 0
#define STANDS 1
#define CHOSEN 2
#define SERVES 3

byte key, revs;                                     /* etcd */
byte lterm[N], lid[N];                              /* the log; id 0: no record */
byte base, terms;                                   /* terms: the newest in the journal */
byte mode[2], camp[2], term[2], applied[2], pend[2], at[2];
bit clock[2], twice[2], link[2], watching[2], lost[2];
byte saw[2];                                        /* the key that it watches */
byte mem[4];                                        /* [c * D + d - 1]: 1: its journal has decision d */
byte fterm[4], fseq[4], fid[4];                           /* flights [c * 2 + i]: term (camp), sequence, id */
byte who[5];                                        /* ghost: the election that gave orders of a term */
byte out[2], sent[2];                               /* orders: term on its way; term of the last one sent */
byte high, obeyed;
byte ans[D];                                        /* 0: none, 1: done, 2: failed */
byte deaths;
hidden byte i, j;

#define MEM(c,d) mem[(c) * D + (d) - 1]
#define FREE(c) (!fid[(c) * 2] || !fid[(c) * 2 + 1])
#define MORE (revs < T)                             /* faults end with the last election */
#define HELD(c) (camp[c] && key == camp[c])

inline ends(c_) {
  printf("coordinator %d ends\n", c_);
  mode[c_] = DOWN; camp[c_] = 0; term[c_] = 0; applied[c_] = 0; pend[c_] = 0; at[c_] = 0; clock[c_] = 0; watching[c_] = 0; saw[c_] = 0;
  lost[c_] = 0; twice[c_] = 0; MEM(c_,1) = 0; MEM(c_,D) = 0
}
inline flies(c_, s_, d_) {
  i = c_ * 2; if :: fid[i] -> i++ :: else -> skip fi;
  fterm[i] = camp[c_]; fseq[i] = s_; fid[i] = d_; i = 0
}
/* what a base below `applied` and the log say of the first s records */
inline reads(c_, s_) {
  i = 0;
  do :: i < s_ -> if :: lid[i] -> MEM(c_,lid[i]) = 1 :: else -> skip fi; i++ :: else -> break od;
  applied[c_] = s_; i = 0
}
inline length(n_) { n_ = 0; do :: n_ < N && lid[n_] -> n_++ :: else -> break od }

#ifdef B_COND      /* a Txn without the condition on the leader's key */
#define MAY(f) (true)
#else
#define MAY(f) (key == fterm[f])
#endif
#ifdef B_VERSION   /* or without that on its own record */
#define FRESH(f) (true)
#else
#define FRESH(f) (fseq[f] < base || !lid[fseq[f]])
#endif

/* the Txn of flight f is done; etcd keeps no record below the base, so a late one there is new to it, and its watchers hear it */
#define ARRIVES(f) \
  :: d_step { fid[f] -> \
       if \
       :: MAY(f) && FRESH(f) && fseq[f] >= base -> \
          printf("record %d of election %d: decision %d\n", fseq[f], fterm[f], fid[f]); \
          assert(!lid[fseq[f]]);                                                      /* ONCE */ \
          i = 0; do :: i < N -> assert(lid[i] != fid[f]); assert(!lid[i] || lterm[i] <= fterm[f]); i++ :: else -> break od;  /* ONCE, ORDER */ \
          assert(ans[fid[f] - 1] != 2);                                              /* TRUTH */ \
          i = 0; lterm[fseq[f]] = fterm[f]; lid[fseq[f]] = fid[f] \
       :: MAY(f) && FRESH(f) && fseq[f] < base -> BELOW \
       :: else -> skip \
       fi; fterm[f] = 0; fseq[f] = 0; fid[f] = 0 } \
  :: d_step { fid[f] && MORE -> fterm[f] = 0; fseq[f] = 0; fid[f] = 0 }
#ifdef B_BELOW     /* a follower applies a record that its base holds */
#define BELOW i = 0; do :: i < 2 -> twice[i] = (mode[i] == STANDS && applied[i] > fseq[0]); i++ :: else -> break od; i = 0
#else
#define BELOW skip
#endif

#ifdef B_TERM      /* the next term is read, and not committed under the key */
#define TAKES(c) mode[c] == CHOSEN && term[c] && VALID(c)
#define TERM(c) skip
#else
#define TAKES(c) mode[c] == CHOSEN && term[c] && VALID(c) && HELD(c)
#define TERM(c) term[c] = terms + 1
#endif
#ifdef B_TAIL      /* it serves from what it has followed */
#define TAIL(c) skip
#else
#define TAIL(c) length(j); reads(c, j); j = 0
#endif
#ifdef B_EARLY     /* the own journal has it before etcd does, and so do clients */
#define BEFORE(c,d) MEM(c,d) = 1; ans[d - 1] = 1
#else
#define BEFORE(c,d) skip
#endif
#ifdef B_WATCH     /* it looks at the key, then watches from that moment */
#define GONE(c) lost[c]
#define LOOKS(c) saw[c] = key; watching[c] = 0
#else
#define GONE(c) (saw[c] != key)
#define LOOKS(c) saw[c] = key; watching[c] = 1
#endif
#ifdef B_CLOCK     /* its own clock ends nobody */
#define RUNS_OUT(c)
#define VALID(c) true
#else
#define RUNS_OUT(c) :: d_step { mode[c] >= CHOSEN && !clock[c] -> ends(c) }
#define VALID(c) clock[c]
#endif
#ifdef B_FENCE     /* a member obeys every term */
#define OBEYS(t) true
#else
#define OBEYS(t) ((t) >= high)
#endif
/* the record is not there, and the Txn's outcome is unknown */
#if defined(B_UNKNOWN)   /* that is believed to be a failure */
#define ABSENT(c) ans[pend[c] - 1] = 2; pend[c] = 0
#elif defined(B_RESEND)  /* it is sent again as the next record */
#define ABSENT(c) if :: at[c] + 1 < N -> at[c]++; flies(c, at[c], pend[c]) :: else -> ends(c) fi
#else
#define ABSENT(c) flies(c, at[c], pend[c])
#endif

#define WRITES(c,d) \
  :: d_step { mode[c] == SERVES && VALID(c) && !pend[c] && FREE(c) && ans[d - 1] == 0 && !MEM(c,d) && applied[c] < N -> \
       pend[c] = d; at[c] = applied[c]; flies(c, at[c], d); BEFORE(c,d) } \
  :: d_step { mode[c] == SERVES && VALID(c) && ans[d - 1] == 0 && MEM(c,d) -> ans[d - 1] = 1 }
#define COORDINATOR(c) \
  :: d_step { mode[c] == DOWN -> printf("coordinator %d stands by\n", c); mode[c] = STANDS; LOOKS(c); reads(c, base) } \
  :: d_step { mode[c] == STANDS && !watching[c] -> watching[c] = 1 } \
  :: d_step { mode[c] == STANDS && applied[c] < N && lid[applied[c]] -> MEM(c,lid[applied[c]]) = 1; applied[c]++ } \
  :: d_step { mode[c] == STANDS && key && GONE(c) -> LOOKS(c); lost[c] = 0 } \
  :: d_step { mode[c] == STANDS && !key && (GONE(c) || !saw[c]) && revs < T -> \
       revs++; key = revs; camp[c] = revs; mode[c] = CHOSEN; clock[c] = 1; lost[c] = 0; printf("coordinator %d is election %d\n", c, revs) } \
  :: d_step { mode[c] == CHOSEN && VALID(c) && !term[c] -> TAIL(c); term[c] = terms + 1 } \
  :: d_step { TAKES(c) -> \
       TERM(c); terms = term[c]; mode[c] = SERVES; \
       i = 1; do :: i <= D -> assert(ans[i - 1] != 1 || MEM(c,i)); i++ :: else -> break od; i = 0 }        /* KNOWN */ \
  :: d_step { mode[c] == CHOSEN && !HELD(c) -> ends(c) } \
  WRITES(c,1) WRITES(c,D) \
  /* its answer, or the record read back */ \
  :: d_step { pend[c] && lid[at[c]] == pend[c] && lterm[at[c]] == camp[c] -> \
       MEM(c,pend[c]) = 1; ans[pend[c] - 1] = 1; applied[c] = at[c] + 1; pend[c] = 0 } \
  :: d_step { pend[c] && (key != camp[c] || (lid[at[c]] && !(lid[at[c]] == pend[c] && lterm[at[c]] == camp[c]))) -> ends(c) } \
  :: d_step { pend[c] && key == camp[c] && !lid[at[c]] && FREE(c) && (MORE || (!fid[c*2] && !fid[c*2+1])) -> ABSENT(c) } \
  :: d_step { mode[c] == SERVES && !pend[c] && applied[c] > base && HELD(c) && MORE -> base = applied[c] } \
  RUNS_OUT(c) \
  /* faults of a coordinator */ \
  :: d_step { mode[c] >= CHOSEN && clock[c] && (!HELD(c) || MORE) -> clock[c] = 0 } \
  :: d_step { mode[c] && deaths < DEATHS && MORE -> deaths++; ends(c) } \
  ORDERS(c)
/* an order is decided on, and sent later; one of each term is enough */
#define ORDERS(c) \
  :: d_step { mode[c] == SERVES && link[c] && VALID(c) && sent[c] < term[c] && !out[c] -> \
       sent[c] = term[c]; out[c] = term[c]; \
       assert(!who[term[c]] || who[term[c]] == camp[c]); who[term[c]] = camp[c] }                         /* TERMS */ \
  :: d_step { out[c] -> \
       if \
       :: OBEYS(out[c]) -> assert(out[c] >= obeyed); obeyed = out[c]; high = out[c]      /* FENCE */ \
       :: else -> skip \
       fi; out[c] = 0 } \
  :: d_step { mode[c] == SERVES && link[c] && high > term[c] -> ends(c) }

init {
  link[1] = 1; if :: link[0] = 1 :: link[0] = 0 fi;
end:
  do
  COORDINATOR(0) COORDINATOR(1)
  ARRIVES(0) ARRIVES(1) ARRIVES(2) ARRIVES(3)
  :: d_step { key && MORE -> printf("the lease of %d ends\n", key); key = 0;
       if :: mode[0] == STANDS && watching[0] -> lost[0] = 1 :: else -> skip fi;
       if :: mode[1] == STANDS && watching[1] -> lost[1] = 1 :: else -> skip fi }
  :: d_step { (twice[0] || twice[1]) -> assert(false) }                                                     /* ONCE */
  :: timeout ->                                                                                             /* GOES ON */
#if !defined(B_COND) && !defined(B_TAIL)   /* these are caught by what they do to the log as well */
       assert(ans[0] && ans[D - 1]);
       assert((mode[0] == SERVES && HELD(0)) || (mode[1] == SERVES && HELD(1)));
       assert(!(mode[0] == SERVES && mode[1] == SERVES));
#endif
       break
  od
}
