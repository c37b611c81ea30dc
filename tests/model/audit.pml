/* audit.pml - the audit of hosts in mode sync (docs/protocol.md, A1 to A4).
 *
 * Modelled: a coordinator, four workers, a job of one audited round of three slots. One process; all interleavings of all actions are explored.
 *   worker      holds one slot at a time. When it completes, it votes for its own slot and for the next two of the round (cyclic):
 *               (inputs, output). Each worker has a host of its own; with NAMES, workers 0 and 1 share host 0. Workers 2 and 3 are alike.
 *   host 0      is wrong now and then: any output. With LIES it also says any inputs, and so may say what it likes.
 *   slot        counted once, by its key; one vote of each worker, the first.
 *   inputs      0; a shard that falls back makes them 1 for whatever is computed from then on: right outputs differ then, too.
 * Faults: a worker dies (DEATHS), a shard falls back (once). A slot that is lost is given to another worker, also to one that has
 * voted for it already. Votes may be missing: a worker may complete without them (an older worker, a repeat that failed).
 *
 * Properties
 *   honest   assert at blame: only a worker of host 0 is ever blamed (A2)
 *   found    at the end: a wrong vote of host 0 beside two right ones of independent hosts, of the same inputs, was blamed (A2)
 *   once     a slot is applied once, whatever repeats there were (A3)
 *   live     every maximal run ends with all slots counted, as long as a worker is left that is neither dead nor suspect (A3, A4)
 * Broken variants -DB_... must fail: check.sh.
 */
#define NW 4
#ifndef DEATHS
#define DEATHS 1
#endif
#ifdef NAMES
#define HOST(w) ((w) < 2 -> 0 : (w))
#else
#define HOST(w) (w)
#endif
#define BAD(w) (HOST(w) == 0)

/* vote: 0: none; else 1 + inputs * 3 + output */
typedef Slot { byte vote[NW]; byte holder; byte apps; bit cnt };
Slot sl[3];
byte slot_of[NW]; bit dead[NW]; bit suspect[NW]; byte deaths; bit fell;
hidden byte me, ina, o, i, j, k;
#define IN(v) (((v)-1)/3)
#define OUT(v) (((v)-1)%3)

#ifdef B_INPUTS
#define SAME(s,a,b) true
#else
#define SAME(s,a,b) (IN(sl[s].vote[a]) == IN(sl[s].vote[b]))
#endif
#ifdef B_NAMES
#define APART(a,b) true
#else
#define APART(a,b) (HOST(a) != HOST(b))
#endif
#define EQUAL(s,a,b) (OUT(sl[s].vote[a]) == OUT(sl[s].vote[b]))
#ifdef B_WORD     /* one word against another is enough */
#define WRONG(s,x,a,b) (x != a && a == b && SAME(s,x,a) && APART(x,a) && !EQUAL(s,x,a))
#else
#define WRONG(s,x,a,b) (x != a && x != b && a < b && SAME(s,x,a) && SAME(s,x,b) && APART(a,b) && APART(x,a) && APART(x,b) && \
  EQUAL(s,a,b) && !EQUAL(s,x,a))
#endif

inline blame(w_) {
  printf("worker%d is suspect\n", w_);
  assert(BAD(w_));                                                    /* HONEST */
  suspect[w_] = 1;
  if :: slot_of[w_] -> sl[slot_of[w_]-1].holder = 0; slot_of[w_] = 0 :: else -> skip fi
}
/* every vote against every two others */
inline judge(s_) {
  i = 0;
  do
  :: i < NW ->
     j = 0;
     do
     :: j < NW ->
        k = 0;
        do
        :: k < NW -> if :: sl[s_].vote[i] && sl[s_].vote[j] && sl[s_].vote[k] && !suspect[i] && WRONG(s_,i,j,k) -> blame(i)
                        :: else -> skip fi; k++
        :: else -> break
        od; j++
     :: else -> break
     od; i++
  :: else -> break
  od; i = 0; j = 0; k = 0
}
inline cast(s_, w_, in_, o_) {
  if
  :: !sl[s_].vote[w_] -> sl[s_].vote[w_] = 1 + in_ * 3 + o_; printf("worker%d votes slot %d inputs %d output %d\n", w_, s_, in_, o_); judge(s_)
  :: else -> skip
  fi
}
inline apply(s_) {
  if
  :: sl[s_].cnt -> skip
  :: else -> sl[s_].apps++; assert(sl[s_].apps == 1); sl[s_].cnt = 1  /* ONCE */
  fi
}
/* what worker w says of a slot: the right output of its inputs is the number of the inputs */
#ifdef LIES
#define SAYS(w,s) if :: !BAD(w) -> ina = fell; o = fell :: BAD(w) -> ina = 0; o = 0 :: BAD(w) -> ina = 0; o = 1 :: BAD(w) -> ina = 0; o = 2 \
                     :: BAD(w) -> ina = 1; o = 0 :: BAD(w) -> ina = 1; o = 1 fi; d_step { cast(s,w,ina,o); ina = 0; o = 0 }
#else
#define SAYS(w,s) if :: o = fell :: BAD(w) -> o = 2 fi; d_step { cast(s,w,fell,o); o = 0 }
#endif
#define MINE(w) (slot_of[w]-1)
#define GO(w) (!dead[w] && !suspect[w])
#ifdef B_COUNT    /* a repeat is a contribution of its own */
#define COUNTS apply(me); sl[(me+1)%3].apps++
#else
#define COUNTS apply(me)
#endif
#define EMPTIED(w) if :: slot_of[w] -> sl[MINE(w)].holder = 0; slot_of[w] = 0 :: else -> skip fi
#define TAKE(w,s) \
  :: d_step { GO(w) && !slot_of[w] && !sl[s].cnt && !sl[s].holder && (w != 3 || slot_of[2] || dead[2]) -> \
     printf("slot %d to worker%d\n", s, w); slot_of[w] = s+1; sl[s].holder = w+1 }
#define VOTE(w,n) if :: slot_of[w] -> SAYS(w,(me+n)%3) :: n > 0 || !slot_of[w] -> skip fi
#ifdef B_GATE     /* a slot is counted when it was audited */
#define VOTES(s) ((sl[s].vote[0] > 0) + (sl[s].vote[1] > 0) + (sl[s].vote[2] > 0) + (sl[s].vote[3] > 0))
#define MAY(w) (!sl[MINE(w)].vote[w])
#define DONE(w) :: d_step { GO(w) && slot_of[w] && sl[MINE(w)].vote[w] && VOTES(MINE(w)) > 1 -> me = MINE(w); COUNTS; EMPTIED(w); me = 0 }
#define COUNTS_NOW(w) skip
#else
#define MAY(w) true
#define DONE(w)
#define COUNTS_NOW(w) COUNTS; EMPTIED(w)
#endif
#define COMPLETE(w) \
  :: atomic { GO(w) && slot_of[w] && MAY(w) -> me = MINE(w); printf("worker%d completes slot %d\n", w, me); VOTE(w,0); VOTE(w,1); VOTE(w,2); \
     if :: slot_of[w] -> COUNTS_NOW(w) :: else -> skip fi; me = 0 }
#define DIE(w) \
  :: d_step { !dead[w] && deaths < DEATHS -> deaths++; dead[w] = 1; printf("worker%d dies\n", w); EMPTIED(w) }
#define WORKER(w) TAKE(w,0) TAKE(w,1) TAKE(w,2) COMPLETE(w) DONE(w) DIE(w)
/* FOUND: the right output of inputs n is n */
#define TRUE(s,a,x) (sl[s].vote[a] && !BAD(a) && SAME(s,a,x))
#define TWO(s,x) ((TRUE(s,0,x) + TRUE(s,1,x) + TRUE(s,2,x) + TRUE(s,3,x)) >= 2)
#define FOUND(s,x) assert(!(sl[s].vote[x] && BAD(x) && OUT(sl[s].vote[x]) != IN(sl[s].vote[x]) && TWO(s,x)) || suspect[x])
#define END(s) assert(sl[s].cnt && sl[s].apps == 1); FOUND(s,0); FOUND(s,1)          /* LIVE, FOUND */

init {
  do
  WORKER(0) WORKER(1) WORKER(2) WORKER(3)
  :: d_step { !fell -> fell = 1; printf("a shard falls back\n") }
  :: else -> break
  od;
  END(0); END(1); END(2)
}
