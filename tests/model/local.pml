/* local.pml - open rounds at the shards (docs/protocol.md, L1 to L7, with Y2, Y3, C1 to C3).
 *
 * Modelled: two shards, NK closures, NW workers. A round closes with M contributions, or by a message of the coordinator. With SETS a push may count
 * two closures. All interleavings of all actions are explored.
 *   worker      has closures, pushes to each shard once, and is free when each shard holds them or has counted them. It may die; its lease may end
 *               while it runs on (it is believed nothing then); it may hand back closures that it has not begun.
 *   shard       holds what comes, of any round, and closes: what is held is applied and counted in one action. It says when it likes what it counted.
 *   close       the coordinator sends it when K are held everywhere, and when nothing more can come: no closure may be leased and none is under way.
 *               The message names no incarnation. It may come late, any number of times, or be lost.
 *   barrier     closures from BAR on are leased when a cut of all before them was evaluated.
 *   file        counted and applied steps at any point, without what is held. A cut takes the files of both shards (its details: K1 to K7).
 *   fall        a shard is killed, loads its last file, and is admitted under a new incarnation.
 *   restart     the coordinator forgets all evidence and all leases.
 *
 * Properties
 *   once     no closure is applied twice on a shard, in its present past
 *   honest   what the coordinator believes to be counted is applied; what is counted is applied, in memory and in files
 *   kept     what a shard has said to hold is held or counted there, as long as it lives
 *   live     no run stands still before a cut has all closures; a set is refused only for a fault, and not for ever
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
#define FALLS 2
#endif
#ifndef LEAVES       /* workers that die, or whose leases end */
#define LEAVES 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef LOSSES       /* close messages */
#define LOSSES 1
#endif
#define ALL ((1 << NK) - 1)
#define BELOW ((1 << BAR) - 1)

typedef Shard {
  bit up; byte held; byte arrived; byte cnt; byte app; byte said;
  byte fcnt; byte fapp;                /* file */
  byte ev; byte hv;                    /* coordinator: counted, held */
  bit told;                            /* a message to close is on its way */
#ifdef B_APART
  byte half;
#endif
#ifdef B_DROP
  byte round;
#endif
};
typedef Worker {
  byte k;                              /* closures; 0: idle */
  bit lost; byte ans; byte old;        /* of shards 1, 2: it has answered; the answer is of an incarnation that ended */
#ifdef B_CLOSED
  byte closed;
#endif
#ifdef B_DROP
  byte began[2];
#endif
#ifdef SETS
  byte alone;                          /* contributions that are to be of one closure */
#endif
};
Shard sh[2]; Worker w[2];
byte falls, leaves, restarts, losses, refusals; bit evaluated;
hidden byte i_;

#define BIT(s) (1 << (s))
#define ONES(x) (((x) & 1) + (((x) >> 1) & 1) + (((x) >> 2) & 1) + (((x) >> 3) & 1))
#define SEEN(s) (sh[s].cnt | sh[s].held)

inline check() {
  i_ = 0;
  do
  :: i_ < 2 ->
     assert(!sh[i_].up || !(sh[i_].ev & ~sh[i_].app));                                       /* HONEST */
     assert(!sh[i_].up || sh[i_].said == (sh[i_].said & SEEN(i_)));                         /* KEPT */
     assert(sh[i_].fcnt == sh[i_].fapp);
#ifndef B_APART
     assert(sh[i_].cnt == sh[i_].app);
#endif
     i_++
  :: else -> break
  od;
  i_ = 0
}

/* ---- a shard */
inline apply(s, set) {
  assert(!(sh[s].app & (set)));                                                             /* ONCE */
  sh[s].app = sh[s].app | (set)
}
inline close(s) {
  printf("shard%d closes with %d\n", s, sh[s].held);
  sh[s].cnt = sh[s].cnt | sh[s].held;
#ifdef B_APART     /* counted, and applied later */
  sh[s].half = sh[s].half | sh[s].held;
#else
  apply(s, sh[s].held);
#endif
#ifdef B_DROP
  sh[s].round++;
#endif
  sh[s].held = 0; sh[s].arrived = 0
}
#ifdef B_SOME      /* a set is taken though a part of it is counted or held */
#define TAKES(s,x) ((SEEN(s) & (x)) != (x))
#else
#define TAKES(s,x) ((SEEN(s) & (x)) == 0)
#endif
#ifdef B_ALL       /* a set of which a part is counted or held is said to be a duplicate */
#define DUPLICATE(s,x) ((SEEN(s) & (x)) != 0)
#else
#define DUPLICATE(s,x) ((SEEN(s) & (x)) == (x))
#endif
#ifdef B_FIRST     /* the shard knows of one closure of a push */
#define FIRST_OF(x) ((x) & -(x))
#define DONE(x) FIRST_OF(x)
#else
#define DONE(x) (x)
#endif
#ifdef B_DROP      /* what was begun before the last round closed is dropped, with the answer that it is held */
#define TOO_LATE(n,s) (w[n].began[s] != sh[s].round)
#else
#define TOO_LATE(n,s) false
#endif
#ifdef B_CLOSED
#define CLOSED(n,s) w[n].closed = w[n].closed | BIT(s)
#else
#define CLOSED(n,s) skip
#endif
#define ANSWER(n,s) w[n].ans = w[n].ans | BIT(s); sh[s].said = sh[s].said | w[n].k
#define PUSH(n,s) \
  :: d_step { w[n].k && sh[s].up && !(w[n].ans & BIT(s)) && TAKES(s,w[n].k) -> \
     printf("worker%d pushes %d to shard%d\n", n, w[n].k, s); \
     if :: TOO_LATE(n,s) -> skip \
        :: else -> assert(!(SEEN(s) & DONE(w[n].k))); sh[s].held = sh[s].held | DONE(w[n].k); sh[s].arrived++ fi; \
     if :: sh[s].arrived >= M -> close(s); CLOSED(n,s) :: else -> skip fi; \
     ANSWER(n,s); check() } \
  :: d_step { w[n].k && sh[s].up && !(w[n].ans & BIT(s)) && !TAKES(s,w[n].k) && DUPLICATE(s,w[n].k) -> \
     printf("worker%d: shard%d has %d\n", n, s, w[n].k); ANSWER(n,s); check() } \
  :: d_step { w[n].k && sh[s].up && !(w[n].ans & BIT(s)) && !TAKES(s,w[n].k) && !DUPLICATE(s,w[n].k) && DROPS -> \
     printf("worker%d: shard%d refuses %d\n", n, s, w[n].k); idle(n); REFUSED(n); \
     refusals++; assert(refusals <= 4 * (falls + leaves + restarts)) }                     /* LIVE */
#ifdef B_STAY      /* a worker whose set was refused goes on with it */
#define DROPS false
#else
#define DROPS true
#endif
#ifdef B_FILE      /* the file's set has what is held, too */
#define IN_FILE(s) SEEN(s)
#else
#define IN_FILE(s) sh[s].cnt
#endif
#ifdef B_KEEP      /* an admission leaves what was said to be held */
#define VOID(s) skip
#else
#define VOID(s) sh[s].hv = 0
#endif
#define SHARD(s) \
  :: d_step { sh[s].up && (sh[s].fcnt != IN_FILE(s) || sh[s].fapp != sh[s].app) -> printf("shard%d: file of %d\n", s, IN_FILE(s)); \
     sh[s].fcnt = IN_FILE(s); sh[s].fapp = sh[s].app; check() } \
  :: d_step { sh[s].up && falls < FALLS -> falls++; printf("shard%d falls\n", s); sh[s].up = 0; sh[s].held = 0; sh[s].arrived = 0; sh[s].said = 0; \
     sh[s].cnt = 0; sh[s].app = 0; HALF(s) } \
  :: d_step { !sh[s].up -> sh[s].up = 1; w[0].old = w[0].old | (w[0].ans & BIT(s)); w[1].old = w[1].old | (w[1].ans & BIT(s)); \
     sh[s].cnt = sh[s].fcnt; sh[s].app = sh[s].fapp; sh[s].ev = sh[s].cnt; VOID(s); \
     printf("shard%d is back with %d\n", s, sh[s].cnt); check() } \
  :: d_step { sh[s].up && (sh[s].cnt & ~sh[s].ev) -> printf("shard%d tells of %d\n", s, sh[s].cnt); sh[s].ev = sh[s].ev | sh[s].cnt; check() } \
  :: d_step { sh[s].up && sh[s].told && sh[s].held -> close(s); check() } \
  :: d_step { sh[s].told && losses < LOSSES -> losses++; sh[s].told = 0; printf("no more messages to shard%d\n", s) } \
  SECOND(s)
#ifdef B_APART
#define HALF(s) sh[s].half = 0
#define SECOND(s) :: d_step { sh[s].up && sh[s].half -> apply(s, sh[s].half); sh[s].half = 0 }
#else
#define HALF(s) skip
#define SECOND(s)
#endif

/* ---- the coordinator */
#define RUNS(x) (((w[0].lost -> 0 : w[0].k) | (w[1].lost -> 0 : w[1].k)) & (x))
#define HAS(s) (sh[s].ev | sh[s].hv)
#define WANTED (ALL & ~(HAS(0) & HAS(1)) & (evaluated -> ALL : BELOW))
#define OPEN (WANTED & ~RUNS(ALL))
#define LEASES(x) ((OPEN & (x)) == (x) && !(OPEN & ~(x) & (LAST(x) - 1))) /* in order */
#define LAST(x) ((x) >= 4 -> 4 : ((x) >= 2 -> 2 : 1))
#define NOTHING_COMES (WANTED == 0 && !RUNS(ALL))
#ifdef B_END       /* rounds close when K or M are held, and not for want of more */
#define ENDS false
#elif defined(B_BARRIER) /* only at the end of the job is it seen that nothing more comes */
#define ENDS (NOTHING_COMES && evaluated)
#else
#define ENDS NOTHING_COMES
#endif
#define QUORUM (ONES(sh[0].hv & ~sh[0].ev) >= K && ONES(sh[1].hv & ~sh[1].ev) >= K)
#define CLOSE(s) \
  :: d_step { !sh[s].told && (sh[s].hv & ~sh[s].ev) && (QUORUM || ENDS) -> sh[s].told = 1; printf("shard%d is told to close\n", s) }
#define COORDINATOR \
  CLOSE(0) CLOSE(1) \
  :: d_step { !evaluated && (sh[0].fcnt & sh[1].fcnt & BELOW) == BELOW && (sh[0].ev & sh[1].ev & BELOW) == BELOW -> \
     printf("evaluation\n"); evaluated = 1 } \
  :: d_step { restarts < RESTARTS -> restarts++; printf("coordinator restarts\n"); sh[0].ev = 0; sh[0].hv = 0; sh[1].ev = 0; sh[1].hv = 0; \
     w[0].lost = w[0].k != 0; w[1].lost = w[1].k != 0 }

/* ---- a worker */
inline idle(n) {
  w[n].k = 0; w[n].lost = 0; w[n].ans = 0; w[n].old = 0;
#ifdef B_CLOSED
  w[n].closed = 0;
#endif
#ifdef B_DROP
  w[n].began[0] = 0; w[n].began[1] = 0;
#endif
}
#ifdef B_DROP
#define BEGINS(n) w[n].began[0] = sh[0].round; w[n].began[1] = sh[1].round
#else
#define BEGINS(n) skip
#endif
#define TURN(n) (n == 0 || w[0].k) /* workers are alike */
#define LEASE(n,x) \
  :: d_step { !w[n].k && TURN(n) && LEASES(x) -> w[n].k = x; ALONE(n); BEGINS(n); printf("closures %d to worker%d\n", x, n) }
/* sets are of closures that may stand differently: only what a shard says shows it */
#ifdef SETS
#define ALONE(n) w[n].alone = w[n].alone - (w[n].alone > 0)
#ifdef B_MIX       /* who was refused makes the next set */
#define REFUSED(n) skip
#else
#define REFUSED(n) w[n].alone = 2
#endif
#else
#define ALONE(n) skip
#define REFUSED(n) skip
#endif
#define LEASE_SET(n,x) \
  :: d_step { !w[n].k && TURN(n) && !w[n].alone && LEASES(x) -> w[n].k = x; BEGINS(n); printf("closures %d to worker%d\n", x, n) }
#ifdef SETS
#define LEASE_SETS(n) LEASE_SET(n,3) LEASE_SET(n,5) LEASE_SET(n,6)
#else
#define LEASE_SETS(n)
#endif
#ifdef B_HELD      /* held is taken for counted */
#define BELIEVE(n,s) sh[s].ev = sh[s].ev | w[n].k
#elif defined(B_CLOSED) /* who closed a round reports it, and all that the coordinator knows to be held is believed to be counted */
#define BELIEVE(n,s) sh[s].hv = sh[s].hv | w[n].k; if :: w[n].closed & BIT(s) -> sh[s].ev = sh[s].ev | sh[s].hv :: else -> skip fi
#else
#define BELIEVE(n,s) sh[s].hv = sh[s].hv | w[n].k
#endif
#ifdef B_OLD       /* the report is believed of any incarnation */
#define TELL(n,s) BELIEVE(n,s)
#else
#define TELL(n,s) if :: !(w[n].old & BIT(s)) -> BELIEVE(n,s) :: else -> skip fi
#endif
#ifdef B_WAIT      /* a worker stays until all is counted */
#define FREE(n) ((w[n].k & ~(sh[0].cnt & sh[1].cnt)) == 0)
#else
#define FREE(n) (w[n].ans == 3)
#endif
#define WORKER(n) \
  LEASE(n,1) LEASE(n,2) LEASE(n,4) LEASE_SETS(n) PUSH(n,0) PUSH(n,1) LEARN(n,0) LEARN(n,1) \
  :: d_step { w[n].k && FREE(n) -> printf("worker%d reports %d\n", n, w[n].k); \
     if :: !w[n].lost -> TELL(n,0); TELL(n,1) :: else -> skip fi; idle(n); check() } \
  :: d_step { w[n].k && leaves < LEAVES -> leaves++; printf("worker%d dies\n", n); idle(n) } \
  :: d_step { w[n].k && !w[n].lost && leaves < LEAVES -> leaves++; w[n].lost = 1; printf("lease of worker%d ends\n", n) } \
  :: d_step { ONES(w[n].k) == 2 && w[n].ans == 0 && leaves < LEAVES -> leaves++; w[n].k = w[n].k & -w[n].k; \
     printf("worker%d leaves with %d, hands back the rest\n", n, w[n].k) }
#define LEARN(n,s) \
  :: d_step { sh[s].up && (w[n].old & BIT(s)) -> printf("worker%d asks shard%d anew\n", n, s); w[n].ans = w[n].ans & ~BIT(s); w[n].old = w[n].old & ~BIT(s) }

#define CUT_OF_ALL (sh[0].fcnt == ALL && sh[1].fcnt == ALL)
init {
  d_step { sh[0].up = 1; sh[1].up = 1; if :: BAR >= NK -> evaluated = 1 :: else -> skip fi };
  do
  WORKER(0)
  WORKER(1)
  SHARD(0)
  SHARD(1)
  COORDINATOR
  :: CUT_OF_ALL && sh[0].ev == ALL && sh[1].ev == ALL && !w[0].k && !w[1].k -> break
  od
}
