/* fragments.pml - workers that push their parameters in fragments (docs/protocol.md, L8, with L1 to L7, Y2, Y3, C1 to C3).
 *
 * Modelled: two fragments of a shard each, NK closures, two workers. A round of a shard closes with M pushes, or by a message of the coordinator. All
 * interleavings of all actions are explored.
 *   worker      takes closures one after another; after each, one of the fragments leaves in turn: a push that counts what was computed since that
 *               fragment left last. A closure has its report when both shards have it. A stream ends at any time: then all fragments leave. A worker
 *               may die; its leases may end while it runs on; it may hand back the closure that it computes.
 *   shard, close, barrier, file, fall, restart   as in local.pml
 *
 * Properties
 *   once     no closure is applied twice on a shard, in its present past
 *   honest   what the coordinator believes to be counted is applied; what is counted is applied, in memory and in files
 *   kept     what a shard has said to hold is held or counted there, as long as it lives
 *   live     no run stands still before a cut has all closures; a push is refused only for a fault, and not for ever
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef NK
#define NK 3
#endif
#ifndef M
#define M 2
#endif
#ifndef K
#define K 1
#endif
#ifndef BAR
#define BAR 2
#endif
#ifndef FALLS
#define FALLS 1
#endif
#ifndef LEAVES       /* workers that die, leases that end */
#define LEAVES 1
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#define ALL ((1 << NK) - 1)
#define BELOW ((1 << BAR) - 1)

typedef Shard {
  bit up; byte held; byte arrived; byte cnt; byte app; byte said;
  byte fcnt;                           /* file */
  byte ev; byte hv;                    /* coordinator: counted, held */
  bit told;
#ifdef B_LAST
  byte brings;
#endif
};
typedef Worker {
  byte cur; byte k;                    /* closure that it computes; those computed, without a report */
  byte since[2]; byte fly[2];          /* of a fragment: computed since it left; what its push counts */
  byte got[2]; bit old[2];             /* its shard has these; that was another incarnation */
  bit next; bit ends; bit lost;
  byte alone;                          /* streams that are to be of one closure */
};
Shard sh[2]; Worker w[2];
byte falls, leaves, restarts, refusals; bit evaluated;
hidden byte i_, x_;

#define BIT(s) (1 << (s))
#define ONES(x) (((x) & 1) + (((x) >> 1) & 1) + (((x) >> 2) & 1) + (((x) >> 3) & 1))
#define SEEN(s) (sh[s].cnt | sh[s].held)

inline check() {
  i_ = 0;
  do
  :: i_ < 2 ->
     assert(!sh[i_].up || !(sh[i_].ev & ~sh[i_].app));                                       /* HONEST */
     assert(!sh[i_].up || sh[i_].said == (sh[i_].said & SEEN(i_)));                         /* KEPT */
     assert(sh[i_].cnt == sh[i_].app);
     i_++
  :: else -> break
  od;
  i_ = 0
}

/* ---- a shard */
#ifdef B_LAST      /* a push counts the closure that it leaves behind, and brings what was computed since the last one */
#define LAST_OF(x) ((x) >= 4 -> 4 : ((x) >= 2 -> 2 : 1))
#define KEYS(x) LAST_OF(x)
#define BRINGS(s,x) sh[s].brings = sh[s].brings | (x)
#define BROUGHT(s) sh[s].brings
#define NO_MORE(s) sh[s].brings = 0
#else
#define KEYS(x) (x)
#define BRINGS(s,x) skip
#define BROUGHT(s) sh[s].held
#define NO_MORE(s) skip
#endif
inline close(s) {
  printf("shard%d closes with %d\n", s, sh[s].held);
  assert(!(sh[s].app & BROUGHT(s)));                                                        /* ONCE */
  sh[s].cnt = sh[s].cnt | sh[s].held; sh[s].app = sh[s].app | BROUGHT(s);
  sh[s].held = 0; sh[s].arrived = 0; NO_MORE(s)
}
#define HAS_NONE(s,x) ((SEEN(s) & KEYS(x)) == 0)
#define HAS_ALL(s,x) ((SEEN(s) & KEYS(x)) == KEYS(x))
#define ANSWER(n,s) w[n].got[s] = w[n].got[s] | w[n].fly[s]; sh[s].said = sh[s].said | KEYS(w[n].fly[s]); w[n].fly[s] = 0
#define PUSH(n,s) \
  :: d_step { w[n].fly[s] && sh[s].up && !w[n].old[s] && HAS_NONE(s,w[n].fly[s]) -> \
     printf("worker%d pushes %d to shard%d\n", n, w[n].fly[s], s); \
     sh[s].held = sh[s].held | KEYS(w[n].fly[s]); BRINGS(s,w[n].fly[s]); sh[s].arrived++; \
     if :: sh[s].arrived >= M -> close(s) :: else -> skip fi; \
     ANSWER(n,s); check() } \
  :: d_step { w[n].fly[s] && sh[s].up && !w[n].old[s] && HAS_ALL(s,w[n].fly[s]) -> \
     printf("worker%d: shard%d has %d\n", n, s, w[n].fly[s]); ANSWER(n,s); check() } \
  :: d_step { w[n].fly[s] && sh[s].up && !w[n].old[s] && !HAS_NONE(s,w[n].fly[s]) && !HAS_ALL(s,w[n].fly[s]) -> \
     printf("worker%d: shard%d refuses %d\n", n, s, w[n].fly[s]); drop(n); REFUSED(n); \
     refusals++; assert(refusals <= 4 * (falls + leaves + restarts)) }                     /* LIVE */
#define OLD(n,s) w[n].old[s] = w[n].old[s] || w[n].k
#define SHARD(s) \
  :: d_step { sh[s].up && sh[s].fcnt != sh[s].cnt -> printf("shard%d: file of %d\n", s, sh[s].cnt); sh[s].fcnt = sh[s].cnt; check() } \
  :: d_step { sh[s].up && falls < FALLS -> falls++; printf("shard%d falls\n", s); sh[s].up = 0; sh[s].held = 0; sh[s].arrived = 0; sh[s].said = 0; \
     sh[s].cnt = 0; sh[s].app = 0; NO_MORE(s) } \
  :: d_step { !sh[s].up -> sh[s].up = 1; OLD(0,s); OLD(1,s); \
     sh[s].cnt = sh[s].fcnt; sh[s].app = sh[s].fcnt; sh[s].ev = sh[s].cnt; sh[s].hv = 0; \
     printf("shard%d is back with %d\n", s, sh[s].cnt); check() } \
  :: d_step { sh[s].up && (sh[s].cnt & ~sh[s].ev) -> printf("shard%d tells of %d\n", s, sh[s].cnt); sh[s].ev = sh[s].ev | sh[s].cnt; check() } \
  :: d_step { sh[s].up && sh[s].told && sh[s].held -> sh[s].told = 0; close(s); check() }

/* ---- the coordinator */
#define RUNS(x) (((w[0].lost -> 0 : w[0].k | w[0].cur) | (w[1].lost -> 0 : w[1].k | w[1].cur)) & (x))
#define HAS(s) (sh[s].ev | sh[s].hv)
#define WANTED (ALL & ~(HAS(0) & HAS(1)) & (evaluated -> ALL : BELOW))
#define OPEN (WANTED & ~RUNS(ALL))
#define LEASES(x) ((OPEN & (x)) && !(OPEN & ((x) - 1))) /* in order */
#ifdef B_BOTH      /* a round ends when all fragments hold the quorum: one that has just ended its own holds others up */
#define ENDS(s) (ONES(sh[0].hv & ~sh[0].ev) >= K && ONES(sh[1].hv & ~sh[1].ev) >= K)
#else
#define ENDS(s) (ONES(sh[s].hv & ~sh[s].ev) >= K || (WANTED == 0 && !RUNS(ALL)))
#endif
#define CLOSE(s) \
  :: d_step { !sh[s].told && (sh[s].hv & ~sh[s].ev) && sh[s].held && ENDS(s) -> sh[s].told = 1; printf("shard%d is told to close\n", s) }
#define COORDINATOR \
  CLOSE(0) CLOSE(1) \
  :: d_step { !evaluated && (sh[0].fcnt & sh[1].fcnt & BELOW) == BELOW && (sh[0].ev & sh[1].ev & BELOW) == BELOW -> \
     printf("evaluation\n"); evaluated = 1 } \
  :: d_step { restarts < RESTARTS -> restarts++; printf("coordinator restarts\n"); sh[0].ev = 0; sh[0].hv = 0; sh[1].ev = 0; sh[1].hv = 0; \
     w[0].lost = (w[0].k | w[0].cur) != 0; w[1].lost = (w[1].k | w[1].cur) != 0 }

/* ---- a worker */
inline drop(n) {
  w[n].cur = 0; w[n].k = 0; w[n].lost = 0; w[n].next = 0; w[n].ends = 0;
  w[n].since[0] = 0; w[n].since[1] = 0; w[n].fly[0] = 0; w[n].fly[1] = 0;
  w[n].got[0] = 0; w[n].got[1] = 0; w[n].old[0] = 0; w[n].old[1] = 0
}
#ifdef B_MIX       /* who was refused streams on */
#define REFUSED(n) skip
#else
#define REFUSED(n) w[n].alone = 2
#endif
#define IDLE(n) (!w[n].cur && !w[n].k)
#define TURN(n) (n == 0 || !IDLE(0)) /* workers are alike */
#define LEASE(n,x) \
  :: d_step { !w[n].cur && !w[n].ends && !w[n].lost && TURN(n) && LEASES(x) -> w[n].cur = x; printf("closure %d to worker%d\n", x, n) }
#ifdef B_EARLY     /* a closure is done when the first fragment was pushed with it */
#define DONE(n) (w[n].k & (w[n].got[0] | w[n].got[1]))
#else
#define DONE(n) (w[n].k & w[n].got[0] & w[n].got[1])
#endif
#define BELIEVE(n,s) if :: !w[n].lost && !w[n].old[s] -> sh[s].hv = sh[s].hv | x_ :: else -> skip fi
#ifdef B_AGAIN     /* a worker streams on past a shard that was replaced */
#define LEARNS(n,s) w[n].old[s] = 0
#else
#define LEARNS(n,s) drop(n)
#endif
#ifdef B_PART      /* at its end a stream pushes the fragment whose turn it is */
#define LEFT(n) (w[n].fly[0] | w[n].fly[1] | w[n].since[w[n].next])
#define DONE_AT_END(n) (w[n].k & (w[n].got[0] | w[n].got[1]))
#define FLUSHES(n,s) (w[n].next == s)
#else
#define DONE_AT_END(n) DONE(n)
#define FLUSHES(n,s) true
#endif
#define WORKER(n) \
  LEASE(n,1) LEASE(n,2) LEASE(n,4) PUSH(n,0) PUSH(n,1) LEARN(n,0) LEARN(n,1) FLUSH(n,0) FLUSH(n,1) \
  :: d_step { w[n].cur && !w[n].fly[0] && !w[n].fly[1] -> printf("worker%d has computed %d\n", n, w[n].cur); \
     w[n].k = w[n].k | w[n].cur; w[n].since[0] = w[n].since[0] | w[n].cur; w[n].since[1] = w[n].since[1] | w[n].cur; w[n].cur = 0; \
     w[n].fly[w[n].next] = w[n].since[w[n].next]; w[n].since[w[n].next] = 0; w[n].next = 1 - w[n].next; \
     if :: w[n].alone -> w[n].alone--; w[n].ends = 1 :: else -> skip fi } \
  :: d_step { w[n].k && !w[n].cur && !w[n].ends -> printf("the stream of worker%d ends\n", n); w[n].ends = 1 } \
  :: d_step { (w[n].ends -> DONE_AT_END(n) : DONE(n)) -> x_ = (w[n].ends -> DONE_AT_END(n) : DONE(n)); \
     printf("worker%d reports %d\n", n, x_); BELIEVE(n,0); BELIEVE(n,1); w[n].k = w[n].k & ~x_; \
     w[n].got[0] = w[n].got[0] & ~x_; w[n].got[1] = w[n].got[1] & ~x_; x_ = 0; \
     if :: w[n].ends && IDLE(n) -> drop(n) :: else -> skip fi; check() } \
  :: d_step { !IDLE(n) && leaves < LEAVES -> leaves++; printf("worker%d dies\n", n); drop(n) } \
  :: d_step { !IDLE(n) && !w[n].lost && leaves < LEAVES -> leaves++; w[n].lost = 1; w[n].ends = 1; printf("leases of worker%d end\n", n) } \
  :: d_step { w[n].cur && leaves < LEAVES -> leaves++; printf("worker%d hands %d back\n", n, w[n].cur); w[n].cur = 0; w[n].ends = 1; \
     if :: IDLE(n) -> drop(n) :: else -> skip fi }
#define FLUSH(n,s) \
  :: d_step { w[n].ends && !w[n].cur && !w[n].fly[s] && w[n].since[s] && FLUSHES(n,s) -> w[n].fly[s] = w[n].since[s]; w[n].since[s] = 0 }
#define LEARN(n,s) \
  :: d_step { sh[s].up && w[n].old[s] -> printf("worker%d learns that shard%d was replaced\n", n, s); LEARNS(n,s) }

#define CUT_OF_ALL (sh[0].fcnt == ALL && sh[1].fcnt == ALL)
init {
  d_step { sh[0].up = 1; sh[1].up = 1; if :: BAR >= NK -> evaluated = 1 :: else -> skip fi };
  do
  WORKER(0)
  WORKER(1)
  SHARD(0)
  SHARD(1)
  COORDINATOR
  :: CUT_OF_ALL && sh[0].ev == ALL && sh[1].ev == ALL && IDLE(0) && IDLE(1) -> break
  od
}
