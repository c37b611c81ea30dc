/* own.pml - a worker's own word in mode async (docs/protocol.md, A5, and what it needs of A3 and A4).
 *
 * Modelled: a coordinator, a shard, three workers, a job of two closures of two steps, all of them audited. One process; all interleavings of all
 * actions are explored.
 *   worker      holds one closure at a time. It asks the shard which step lacks, reads the parameters, and computes the step twice from what it
 *               read: two outputs. Equal ones: it pushes. Others: it hands the closure back with both, and pushes none.
 *   worker 0    is wrong now and then: another output. With LIES it says what it likes with each hand-back and completion: of which worker, on
 *               which parameters, and whether the outputs differ.
 *   shard       counts a step once, by its key; its parameters are the number of steps that it has applied.
 *   inputs      what the shard held when the worker read. Others push meanwhile, so to read twice is to read something else.
 * Faults: a worker dies (DEATHS), the shard falls back to nothing (once). A closure that is lost or handed back is leased again, and audited again.
 *
 * Properties
 *   honest   assert at blame: only worker 0 is ever blamed
 *   known    no push is of a step of which the worker got two outputs from the same inputs
 *   once     a step is applied once by a memory of the shard, however often it was computed
 *   found    a worker that got two outputs and says so is suspect, and holds nothing
 *   live     every maximal run ends with all steps counted, as long as a worker is left that is neither dead nor suspect
 * Broken variants -DB_... must fail: check.sh.
 */
#define NC 2
#define NS 2
#ifndef DEATHS
#define DEATHS 1
#endif
#define BAD(w) ((w) == 0)
#define KEY(c,s) ((c)*NS+(s))

bit cnt[NC*NS]; byte apps[NC*NS]; byte applied; bit fell;
bit done[NC]; bit held[NC];
/* a worker: closure + 1; of the step under way 0 nothing, 1 read, 2 computed once, 3 twice */
byte cl[3]; byte at[3]; byte step[3]; byte in0[3]; byte in1[3]; byte o0[3]; byte o1[3];
bit dead[3]; bit suspect[3]; byte deaths;
/* what is said: of whom, two inputs, whether the outputs differ */
hidden byte who, sa, sb, sd, i;

#define GO(w) (!dead[w] && !suspect[w])
#define MINE(w) (cl[w]-1)
#define LACK(c,s) (!cnt[KEY(c,s)])
#define LACKS(c) (LACK(c,0) || LACK(c,1))
#define CLEAR(w) at[w] = 0; step[w] = 0; in0[w] = 0; in1[w] = 0; o0[w] = 0; o1[w] = 0
#define LET(w) if :: cl[w] -> held[MINE(w)] = 0; cl[w] = 0 :: else -> skip fi; CLEAR(w)

inline blame(w_) {
  printf("worker%d is suspect\n", w_);
  assert(BAD(w_));                                                    /* HONEST */
  suspect[w_] = 1; LET(w_)
}
#ifdef B_INPUTS    /* what was computed of other parameters is compared, too */
#define SAME true
#else
#define SAME (sa == sb)
#endif
#ifdef B_OTHER     /* a worker testifies against another one */
#define ON(w) who
#else
#define ON(w) w
#endif
#define TAKE_WORD(w) if :: SAME && sd -> i = ON(w); blame(i) :: else -> skip fi; who = 0; sa = 0; sb = 0; sd = 0; i = 0
#ifdef LIES
#define SAYS(w) if :: who = w; sa = in0[w]; sb = in1[w]; sd = (o0[w] != o1[w]) :: BAD(w) -> \
  if :: who = 0 :: who = 1 :: who = 2 fi; if :: sb = 0 :: sb = 1 fi; if :: sd = 0 :: sd = 1 fi fi
#define FOUND(w) skip
#else
#define SAYS(w) who = w; sa = in0[w]; sb = in1[w]; sd = (o0[w] != o1[w])
#define FOUND(w) assert(suspect[w] && !cl[w])                            /* FOUND */
#endif

#define OUTPUT(w,o,n) if :: o[w] = 1 + n :: BAD(w) -> o[w] = 9 fi
#ifdef B_REREAD    /* the second time it reads anew */
#define SECOND(w) applied
#else
#define SECOND(w) in0[w]
#endif
#ifdef B_PUSH      /* it pushes what it computed last */
#define MAY(w) true
#else
#define MAY(w) (o0[w] == o1[w])
#endif
#ifdef B_DONE      /* what is handed back is believed to be done */
#define BACK(w) done[MINE(w)] = 1
#else
#define BACK(w) skip
#endif

#define LEASE(w,c) \
  :: d_step { GO(w) && !cl[w] && !done[c] && !held[c] && LACKS(c) -> printf("closure %d to worker%d\n", c, w); cl[w] = c+1; held[c] = 1 }
#define READ(w) \
  :: d_step { GO(w) && cl[w] && at[w] == 0 && LACKS(MINE(w)) -> step[w] = !LACK(MINE(w),0); in0[w] = applied; at[w] = 1 }
#define COMPUTE(w) :: atomic { GO(w) && at[w] == 1 -> OUTPUT(w,o0,in0[w]); at[w] = 2 }
#define AGAIN(w) :: atomic { GO(w) && at[w] == 2 -> in1[w] = SECOND(w); OUTPUT(w,o1,in1[w]); at[w] = 3 }
#define PUSH(w) \
  :: d_step { GO(w) && at[w] == 3 && MAY(w) -> printf("worker%d pushes %d of closure %d\n", w, step[w], MINE(w)); \
     assert(in0[w] != in1[w] || o0[w] == o1[w]); i = KEY(MINE(w), step[w]);     /* KNOWN */ \
     if :: cnt[i] -> skip :: else -> applied++; apps[i]++; assert(apps[i] == 1); cnt[i] = 1 fi; i = 0; CLEAR(w) }  /* ONCE */
#define HAND_BACK(w) \
  :: atomic { GO(w) && at[w] == 3 && o0[w] != o1[w] -> SAYS(w); printf("worker%d hands back closure %d\n", w, MINE(w)); BACK(w); LET(w); \
     TAKE_WORD(w); FOUND(w) }
/* evidence is the shard's: a closure that lacks a step is leased again (C3) */
#define COMPLETE(w) \
  :: atomic { GO(w) && cl[w] && at[w] == 0 && !LACKS(MINE(w)) -> SAYS(w); printf("worker%d completes closure %d\n", w, MINE(w)); LET(w); TAKE_WORD(w) }
#define DIE(w) :: d_step { !dead[w] && deaths < DEATHS -> deaths++; dead[w] = 1; printf("worker%d dies\n", w); LET(w) }
#define WORKER(w) LEASE(w,0) LEASE(w,1) READ(w) COMPUTE(w) AGAIN(w) PUSH(w) HAND_BACK(w) COMPLETE(w) DIE(w)

init {
  do
  WORKER(0) WORKER(1) WORKER(2)
  :: d_step { !fell && applied > 0 -> fell = 1; printf("the shard falls back\n"); applied = 0;
     do :: i < NC*NS -> cnt[i] = 0; apps[i] = 0; i++ :: else -> break od; i = 0 }
  :: else -> break
  od;
  assert((!LACKS(0) && !LACKS(1)) || !(GO(0) || GO(1) || GO(2)))           /* LIVE */
}
