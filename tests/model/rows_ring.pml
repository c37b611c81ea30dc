/* rows_ring.pml - rows of sparse tables beside a ring: the ranks of a ring keep the dense part of a job (R1 to R7), and shards keep its rows.
 * A step counts in both or in neither.
 *
 * Modelled: two ranks, NS shards, K steps, and a coordinator that opens generations, whose numbers are in its journal. All interleavings.
 *   step        a rank reads the rows of all shards, gives each shard its gradients of rows, and then enters the sum. With the sum it applies the
 *               step, and reports this. Reports are facts of a generation.
 *   shard       holds a step's rows until the coordinator says that the step is decided: all members of the generation have reported it.
 *   generation  all ranks that are there leave the older one and tell their tag (generation, step). The base is the highest one, if every shard is of
 *               the same past and at the step of the base, or holds all of the one step that it lacks; else it is the last cut. Then each shard is
 *               admitted: it applies what it lacks of the base, or loads the cut, and drops the rest of what it holds. The ranks go on behind that.
 *   cut         the state of a rank and those of all shards, of one generation and step.
 * Faults, FAULTS at any point: a rank dies, and may come back empty; a rank is cut off, goes on as far as it can, and may come back; a shard dies and
 * comes back empty; the coordinator begins anew. Content: h[k] is the generation whose sum was applied as step k; MIXED is a sum of several.
 *
 * Properties
 *   reads    a rank computes from rows that have what its own state has
 *   equal    where ranks and shards of a running generation are at one step, they have the same content
 *   once     nothing is applied twice, and no step is left out
 *   whole    a shard that is told to apply a step holds all of it
 *   kept     what was counted is in the base, if a member of its generation is left and no shard was lost
 *   durable  the last cut is in the base, and is of one content
 *   live     every run ends with a cut of all steps
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef K
#define K 2
#endif
#ifndef NS
#define NS 1
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define G 14
#define MIXED 99
#define ALL_SHARDS ((1 << NS) - 1)

typedef St { byte g; byte v; byte h[K] };
/* al: 0 dead, 1 attached, 2 cut off. go: takes part in generation st.g. fz: has answered. jg: the generation that it joined last.
 * read, held: what is done of the next step; held has a bit for each shard that said so */
typedef Rank { byte al; St st; bit go; bit fz; byte jg; bit read; byte held; bit gave };
/* st.g: the generation that it was admitted to; from: one more than that of the base then, 0 once a step was applied; by[x]: generation of what it holds
 * of rank x, of step st.v; anew: a process that the open generation has not seen */
typedef Shard { bit al; bit anew; St st; byte from; byte by[2] };
Rank r[2]; Shard sh[NS]; St cut; St cutrows[NS]; St rep; bit rephas; St reprows[NS]; byte reps;
byte gm[G]; byte ctr[G];             /* members of a generation; who entered the sum of its present step */
byte sumv[G];                        /* that step */
byte cg = 1; byte form; byte ans; byte base; byte bg, bv; byte settled; byte prog; byte progg = 1; byte faults; bit job; bit fresh; bit lost;
hidden byte m_;

#define CPS(a,b) a.g = b.g; a.v = b.v; a.h[0] = b.h[0]; a.h[1] = b.h[1]
#define WIPES(a) a.g = 0; a.v = 0; a.h[0] = 0; a.h[1] = 0
#define ATT ((r[0].al == 1 -> 1 : 0) + (r[1].al == 1 -> 2 : 0))
#define HIT faults < FAULTS
#define GT(g1,v1,g2,v2) ((g1) > (g2) || ((g1) == (g2) && (v1) > (v2)))
/* equal in all that both have, and in how much they have */
#define SAME(a,b) (a.v == b.v && a.h[0] == b.h[0] && a.h[1] == b.h[1])
#define RUNS(x) (r[x].al && r[x].go && r[x].st.g == cg && !form)
#define OF(s) (sh[s].al && sh[s].st.g == cg && !form)
#define FIT(x,s) assert(!RUNS(x) || !OF(s) || r[x].st.v != sh[s].st.v || SAME(r[x].st, sh[s].st))
inline check() {
  assert(!RUNS(0) || !RUNS(1) || r[0].st.v != r[1].st.v || SAME(r[0].st, r[1].st));
  FIT(0,0); FIT(1,0); FIT(0,NS-1); FIT(1,NS-1)                                                                             /* EQUAL */
}
#define WHOLE(s) ((!(gm[sh[s].st.g] & 1) || sh[s].by[0]) && (!(gm[sh[s].st.g] & 2) || sh[s].by[1]) && (sh[s].by[0] || sh[s].by[1]))
#define DROP(s) sh[s].by[0] = 0; sh[s].by[1] = 0
inline shard_apply(s) {
  assert(WHOLE(s) && sh[s].st.v < K);                                                                                       /* WHOLE */
  sh[s].st.h[sh[s].st.v] = (sh[s].by[0] && sh[s].by[1] && sh[s].by[0] != sh[s].by[1] -> MIXED : (sh[s].by[0] -> sh[s].by[0] : sh[s].by[1]));
  sh[s].st.v++; sh[s].from = 0; DROP(s); printf("shard%d applies step %d\n", s, sh[s].st.v - 1)
}
/* forgets a generation in which no rank and no shard is */
#define USED(g_) (g_ == cg || (r[0].al && r[0].st.g == g_) || (r[1].al && r[1].st.g == g_) || sh[0].st.g == g_ || sh[NS-1].st.g == g_)
inline tidy() {
  m_ = 1;
  do
  :: m_ < cg -> if :: !USED(m_) -> gm[m_] = 0; ctr[m_] = 0; sumv[m_] = 0 :: else -> skip fi; m_++
  :: else -> break
  od; m_ = 0
}
#define NEXT(x) r[x].read = 0; r[x].held = 0; r[x].gave = 0
inline open() { cg++; gm[cg] = ATT; form = 1; fresh = 0; ans = 0; base = 0; bg = 0; bv = 0; settled = 0; rephas = 0; WIPES(rep); reps = 0;
  sh[0].anew = 0; sh[NS-1].anew = 0;
  WIPES(reprows[0]); WIPES(reprows[NS-1]); tidy(); printf("generation %d opens for members %d\n", cg, gm[cg]) }

/* ---- a step */
#ifdef B_READ      /* rows are read before the step before is in them */
#define READABLE(x,s) (sh[s].al && sh[s].st.g == r[x].st.g && (sh[s].st.v == r[x].st.v || sh[s].st.v + 1 == r[x].st.v))
#else
#define READABLE(x,s) (sh[s].al && sh[s].st.g == r[x].st.g && sh[s].st.v == r[x].st.v)
#endif
#ifdef B_OLD       /* a shard takes rows of an older generation */
#define TAKES(x,s) (sh[s].al && r[x].st.v == sh[s].st.v)
#else
#define TAKES(x,s) (sh[s].al && sh[s].st.g == r[x].st.g && r[x].st.v == sh[s].st.v)
#endif
#ifdef B_GIVE      /* a rank enters the sum before its rows are held */
#define HELD(x) true
#else
#define HELD(x) (r[x].held == ALL_SHARDS)
#endif
#ifdef B_WHOLE     /* a step's rows are applied when all of them are there, as in mode sync */
#define COMES(s) if :: WHOLE(s) -> shard_apply(s); check() :: else -> skip fi
#else
#define COMES(s) skip
#endif
#define PUSH(x,s) \
  :: d_step { r[x].al && r[x].go && r[x].read && !(r[x].held & (1 << s)) && TAKES(x,s) -> \
     printf("shard%d holds rows of rank%d, generation %d step %d\n", s, x, r[x].st.g, r[x].st.v); \
     sh[s].by[x] = r[x].st.g; r[x].held = r[x].held | (1 << s); COMES(s) }
#define CT(x) ctr[r[x].st.g]
inline doapply(x) {
  assert(r[x].st.v < K && r[x].st.h[r[x].st.v] == 0);                                                                         /* ONCE */
  if :: sumv[r[x].st.g] == r[x].st.v -> sumv[r[x].st.g] = r[x].st.v + 1 :: else -> skip fi;
  r[x].st.h[r[x].st.v] = r[x].st.g; r[x].st.v++; NEXT(x)
}
/* the sum of step v is there once all have entered it, and stays: the next one begins when somebody enters it */
#define HAS_SUM(x) (CT(x) == gm[r[x].st.g] && sumv[r[x].st.g] >= r[x].st.v || sumv[r[x].st.g] > r[x].st.v)
#define ENTER(x) \
  :: d_step { r[x].al && r[x].go && r[x].st.v < K && r[x].read && !r[x].gave && HELD(x) && sumv[r[x].st.g] == r[x].st.v -> \
     if :: CT(x) == gm[r[x].st.g] -> CT(x) = 0 :: else -> skip fi; r[x].gave = 1; CT(x) = CT(x) | (1 << x) }
#define STEP(x) \
  :: d_step { r[x].al && r[x].go && r[x].st.v < K && !r[x].read && READABLE(x,0) && READABLE(x,NS-1) -> \
     assert(SAME(r[x].st, sh[0].st) && SAME(r[x].st, sh[NS-1].st)); r[x].read = 1 }                                            /* READS */ \
  PUSH(x,0) PUSH(x,NS-1) ENTER(x) \
  :: d_step { r[x].al && r[x].go && r[x].gave && HAS_SUM(x) -> printf("rank%d applies step %d (generation %d)\n", x, r[x].st.v, r[x].st.g); \
     doapply(x); check() }

/* ---- a generation */
#define SAMESTATE(x) (base == x+1 || (base < 4 && r[x].st.g == bg && r[x].st.v == bv))
inline join(x) { r[x].st.g = cg; r[x].go = 1; r[x].fz = 0; r[x].jg = cg; NEXT(x); sumv[cg] = r[x].st.v;
  assert(r[x].st.v >= cut.v && (cut.v < 1 || r[x].st.h[0] == cut.h[0]) && (cut.v < 2 || r[x].st.h[1] == cut.h[1])); check() } /* DURABLE */
#define IS_JOINING(x) (!form && r[x].al == 1 && (gm[cg] & (1 << x)) && r[x].fz && r[x].jg != cg)
#define HOLDS(y) (r[y].al && base == y+1 && r[y].st.v == bv && ((r[y].fz && r[y].jg != cg) || r[y].jg == cg))
#define RANK(x) \
  STEP(x) \
  :: d_step { HIT && r[x].al && !job -> printf("rank%d dies\n", x); faults++; r[x].al = 0; WIPES(r[x].st); r[x].go = 0; r[x].fz = 0; r[x].jg = 0; NEXT(x) } \
  :: d_step { !r[x].al && !job -> printf("rank%d returns empty\n", x); r[x].al = 1; fresh = 1 } \
  :: d_step { HIT && r[x].al == 1 && r[x].go && !job -> printf("rank%d is cut off\n", x); faults++; r[x].al = 2 } \
  :: d_step { r[x].al == 2 && !job -> printf("rank%d is attached again\n", x); r[x].al = 1 } \
  :: d_step { form == 1 && r[x].al == 1 && (gm[cg] & (1 << x)) && !(ans & (1 << x)) -> r[x].go = 0; r[x].fz = 1; NEXT(x); \
     printf("rank%d answers generation %d: has generation %d step %d\n", x, cg, r[x].st.g, r[x].st.v); ans = ans | (1 << x); \
     if :: !base || GT(r[x].st.g, r[x].st.v, bg, bv) -> bg = r[x].st.g; bv = r[x].st.v; base = x+1 :: else -> skip fi } \
  :: d_step { IS_JOINING(x) && SAMESTATE(x) -> printf("rank%d goes on\n", x); join(x) } \
  :: d_step { IS_JOINING(x) && base == 4 -> printf("rank%d joins %d with the cut\n", x, cg); CPS(r[x].st, cut); join(x) } \
  :: d_step { IS_JOINING(x) && !SAMESTATE(x) && HOLDS(1-x) -> printf("rank%d copies the state\n", x); CPS(r[x].st, r[1-x].st); join(x) } \
  :: d_step { RUNS(x) && r[x].st.v > cut.v && (!rephas || rep.v < r[x].st.v) -> printf("rank%d snapshots step %d\n", x, r[x].st.v); \
     CPS(rep, r[x].st); rephas = 1; reps = 0 }

/* ---- a shard */
#ifdef B_PAST      /* a shard is compared by its step alone */
#define OF_BASE(s) true
#define AS_BEGUN(s) false
#else
#define OF_BASE(s) (sh[s].st.g == bg)
#define AS_BEGUN(s) (sh[s].from == bg + 1 && sh[s].st.v == bv)
#endif
#define FITS(s) (OF_BASE(s) && (sh[s].st.v == bv || sh[s].st.v + 1 == bv && WHOLE(s)) || AS_BEGUN(s))
#ifdef B_ALONE     /* a shard that was lost goes back to the cut by itself */
#define FIT_ALL true
#define LOADS(s) (base == 4 || !(FITS(s)))
#else
#define FIT_ALL ((FITS(0)) && (FITS(NS-1)))
#define LOADS(s) (base == 4)
#endif
#ifdef B_KEEP      /* what is held stays held */
#define LEAVES(s) skip
#else
#define LEAVES(s) DROP(s)
#endif
#ifdef B_DROP      /* all that is held is dropped, also of a step that the base has */
#define LACKS(s) false
#else
#define LACKS(s) (sh[s].st.v + 1 == bv)
#endif
inline admit(s) {
  if
  :: LOADS(s) -> printf("shard%d loads the cut\n", s); CPS(sh[s].st, cutrows[s]); DROP(s)
  :: else -> if :: LACKS(s) -> shard_apply(s) :: else -> skip fi; LEAVES(s)
  fi;
  sh[s].from = bg + 1; sh[s].st.g = cg; settled = settled | (1 << s)
}
#ifdef B_LATE      /* a step is decided in whichever generation */
#define DECIDES(s) (sh[s].st.g <= cg)
#define DECIDED told
#else
#define DECIDES(s) (!form && progg == cg && sh[s].st.g == progg)
#define DECIDED prog
#endif
#define SHARD(s) \
  :: d_step { sh[s].al && DECIDES(s) && DECIDED > sh[s].st.v -> shard_apply(s); check() } \
  :: d_step { HIT && sh[s].al && !job -> printf("shard%d dies\n", s); faults++; sh[s].al = 0; WIPES(sh[s].st); sh[s].from = 0; DROP(s); lost = 1 } \
  :: d_step { !sh[s].al -> printf("shard%d returns empty\n", s); sh[s].al = 1; sh[s].anew = 1; fresh = 1 } \
  :: d_step { form == 2 && sh[s].al && !sh[s].anew && !(settled & (1 << s)) -> admit(s) } \
  :: d_step { OF(s) && rephas && !(reps & (1 << s)) && AT_REP(s) -> CPS(reprows[s], sh[s].st); reps = reps | (1 << s) }
#ifdef B_CUT       /* a cut takes a shard's snapshot of whichever step */
#define AT_REP(s) (sh[s].st.v > cut.v || true)
#else
#define AT_REP(s) (sh[s].st.v == rep.v)
#endif
#ifdef B_LATE
byte told;         /* the last step that was decided, whenever */
#define TELL told = prog
#else
#define TELL skip
#endif

/* ---- the coordinator */
#define TOLD(x) (r[x].al && r[x].jg == cg && r[x].st.v > prog)
#define OUT(x) (!(gm[cg] & (1 << x)))
#ifdef B_FIRST     /* a step is decided by the first report */
#define ENOUGH (TOLD(0) || TOLD(1))
#else
#define ENOUGH ((OUT(0) || TOLD(0)) && (OUT(1) || TOLD(1)))
#endif
#define JOINED(x) ((ans & (1 << x)) && r[x].jg == progg)
inline choose() {
  if
  :: GT(cut.g, cut.v, bg, bv) || !(FIT_ALL) -> base = 4; bg = cut.g; bv = cut.v
  :: else -> skip
  fi;
  assert(lost || !(JOINED(0) || JOINED(1)) || bv >= prog);                                                                 /* KEPT */
  prog = bv; progg = cg; lost = 0; form = 2;
  printf("generation %d: base is %d (rank + 1, 4: the cut), step %d\n", cg, base, bv)
}
init {
  d_step { gm[1] = 3; r[0].al = 1; r[1].al = 1; r[0].go = 1; r[1].go = 1; r[0].st.g = 1; r[1].st.g = 1; r[0].jg = 1; r[1].jg = 1;
    sh[0].al = 1; sh[NS-1].al = 1; sh[0].st.g = 1; sh[NS-1].st.g = 1; cut.g = 0 };
  do
  RANK(0) RANK(1)
  SHARD(0)
#if NS > 1
  SHARD(1)
#endif
  :: d_step { !form && !job && prog < K && gm[cg] && ENOUGH -> prog++; progg = cg; TELL; printf("step %d is counted\n", prog - 1) }
  :: d_step { !job && (gm[cg] != ATT || fresh) && ATT -> open() }
  :: d_step { HIT && !job && ATT -> printf("the coordinator begins anew\n"); faults++; open() }
  :: d_step { form == 1 && ans == gm[cg] && gm[cg] && sh[0].al && sh[NS-1].al && !fresh -> choose() }
  :: d_step { form == 2 && settled == ALL_SHARDS -> form = 0; check() }
  :: d_step { rephas && reps == ALL_SHARDS && !job && rep.g == cg && !form && rep.v > cut.v -> printf("a cut of step %d\n", rep.v);
     CPS(cut, rep); CPS(cutrows[0], reprows[0]); CPS(cutrows[NS-1], reprows[NS-1]);
     assert(SAME(cut, cutrows[0]) && SAME(cut, cutrows[NS-1])); rephas = 0; reps = 0 }                                    /* DURABLE */
  :: d_step { !job && cut.v == K -> printf("the job has ended\n"); job = 1 }
  :: job -> break
  :: else -> break
  od;
  assert(job)                                                                                                             /* LIVE */
}
