/* audit_ring.pml - the audit of hosts in mode allreduce (docs/protocol.md, A1 to A4), where it differs from audit.pml: all ranks of a
 * generation compute a round, results are held until the round is counted, and a suspect ends the generation.
 *
 * Modelled: a coordinator, four ranks, a job of two audited rounds of three slots. One process; all interleavings are explored.
 *   rank        has a state of so many rounds, and computes the next one: its own slots, and for its votes those of the next two ranks.
 *               Each has a host of its own. An older rank says nothing of its results. Rank 3 may come late.
 *   generation  the ranks that were there when it was opened. A round is applied by a rank when all of them have contributed, and
 *               counted when all of them have said that they applied it (R5). The base of the next one is the highest state (R3).
 *   host 0      is wrong now and then: any output. Its wrong slot makes the sum, and so the parameters of the next round, others.
 *   inputs      of round 0: 0; of round 1: whether a wrong slot is in round 0 of the state. The right output of inputs n is n.
 * Faults: a rank dies (DEATHS), also between applying a round and saying so: then the round may be done again. With FALLS all
 * states are lost once, and rank 3 never comes: the job goes back to its last cut, which is the seed.
 *
 * Properties: honest, found, once, live as in audit.pml. once: no state has a round twice. live: with a rank left that is neither dead
 * nor suspect, all rounds are counted. Broken variants -DB_... must fail: check.sh.
 */
#define NW 4
#define NS 3
#ifndef DEATHS
#define DEATHS 1
#endif
#define BAD(w) ((w) == 0)
/* vote: 0: none; else 1 + inputs * 3 + output */
typedef Votes { byte by[NW] };
typedef Round { Votes vote[NS]; Votes held[NS]; bit wrong; };
typedef Rank { byte mine[NS]; byte has; byte said; bit done; bit in; bit dead; bit suspect; bit par; byte apps[2] };
Round ro[2]; Rank ra[NW];
byte members, counted, deaths, came = 3;
bit torn = 1; bit fell;
hidden byte i, j, k, x, own, best;
hidden byte bad;
#define IN(v) (((v)-1)/3)
#define OUT(v) (((v)-1)%3)
#define V(r,s,w) ro[r].vote[s].by[w]
#ifdef B_INPUTS
#define SAME(r,s,a,b) true
#else
#define SAME(r,s,a,b) (IN(V(r,s,a)) == IN(V(r,s,b)))
#endif
#define EQUAL(r,s,a,b) (OUT(V(r,s,a)) == OUT(V(r,s,b)))
#define WRONG(r,s,x,a,b) (x != a && x != b && a < b && SAME(r,s,x,a) && SAME(r,s,x,b) && EQUAL(r,s,a,b) && !EQUAL(r,s,x,a))
#define LIVE(w) (!ra[w].dead && !ra[w].suspect)

inline judge(r_, s_) {
  i = 0;
  do
  :: i < NW ->
     j = 0;
     do
     :: j < NW ->
        k = 0;
        do
        :: k < NW -> if :: V(r_,s_,i) && V(r_,s_,j) && V(r_,s_,k) && !ra[i].suspect && WRONG(r_,s_,i,j,k) ->
                           printf("rank%d is suspect\n", i); assert(BAD(i)); ra[i].suspect = 1;                       /* HONEST */
#ifndef B_STAY     /* a suspect leaves, and the others go on summing with it */
                           if :: ra[i].in -> torn = 1 :: else -> skip fi;
#endif
#ifdef B_UNDO      /* a round with a wrong slot is done again */
                           x = 0; do :: x < NW -> if :: ra[x].in && ra[x].has -> ra[x].has--; ra[x].said = ra[x].has :: else -> skip fi; x++ :: else -> break od;
                           x = 0; counted--; torn = 1
#endif
                        :: else -> skip
                        fi; k++
        :: else -> break
        od; j++
     :: else -> break
     od; i++
  :: else -> break
  od; i = 0; j = 0; k = 0
}
/* the index of rank w in the generation, and which slots it votes for: s belongs to index s % members */
#define INDEX(w) ((w > 0 && ra[0].in) + (w > 1 && ra[1].in) + (w > 2 && ra[2].in))
#define BEHIND(w,s) (((s) % members + members - INDEX(w)) % members)
/* says the result of slot s of round ra[w].has, and sets `bad` if its own contribution is wrong */
#define RIGHT(w) (ra[w].has == 0 -> 0 : ra[w].par)
#define SAY(w,s) \
  if \
  :: BEHIND(w,s) < 3 -> \
     if :: ra[w].mine[s] = 1 + RIGHT(w) * 3 + RIGHT(w) \
        :: BAD(w) -> ra[w].mine[s] = 1 + RIGHT(w) * 3 + 2; bad = bad || BEHIND(w,s) == 0 \
     fi \
  :: else -> skip \
  fi
#define SILENT(w) ra[w].mine[0] = 0; ra[w].mine[1] = 0; ra[w].mine[2] = 0
#define COMPUTE(w) \
  :: atomic { LIVE(w) && ra[w].in && !torn && !ra[w].done && ra[w].has < 2 && ra[w].said == ra[w].has -> \
     printf("rank%d computes round %d\n", w, ra[w].has); SILENT(w); bad = 0; SAY(w,0); SAY(w,1); SAY(w,2); \
     if :: w == 2 -> SILENT(w) :: skip fi; /* an older rank */ \
     ro[ra[w].has].wrong = ro[ra[w].has].wrong || bad; bad = 0; ra[w].done = 1 }
#define GAVE(w,r) (!ra[w].in || ra[w].done && ra[w].has == r || ra[w].has > r)
#define ALL(r) (GAVE(0,r) && GAVE(1,r) && GAVE(2,r) && GAVE(3,r))
#define APPLY(w) \
  :: d_step { LIVE(w) && ra[w].in && ra[w].done && ALL(ra[w].has) -> \
     printf("rank%d applies round %d\n", w, ra[w].has); ra[w].done = 0; ra[w].apps[ra[w].has]++; \
     if :: ra[w].has == 0 -> ra[w].par = ro[0].wrong :: else -> skip fi; \
     REPEATED(w); assert(ra[w].apps[ra[w].has] == 1);                                                            /* ONCE */ \
     ra[w].has++ }
#ifdef B_COUNT     /* a repeat enters the sum, too */
#define REPEATED(w) if :: members > 1 && ra[w].mine[0] -> ra[w].apps[ra[w].has]++ :: else -> skip fi
#else
#define REPEATED(w) skip
#endif
#define REPORT(w) \
  :: d_step { LIVE(w) && ra[w].in && !torn && ra[w].said < ra[w].has -> \
     printf("rank%d reports round %d\n", w, ra[w].said); \
     ro[ra[w].said].held[0].by[w] = ra[w].mine[0]; ro[ra[w].said].held[1].by[w] = ra[w].mine[1]; \
     ro[ra[w].said].held[2].by[w] = ra[w].mine[2]; ra[w].said++ }
#define SAID(w) (!ra[w].in || ra[w].said > counted)
#ifdef B_GATE      /* a round is counted when each slot has two results */
#define HELD(s) ((ro[counted].held[s].by[0] > 0) + (ro[counted].held[s].by[1] > 0) + (ro[counted].held[s].by[2] > 0) + (ro[counted].held[s].by[3] > 0))
#define GATE (HELD(0) > 1 && HELD(1) > 1 && HELD(2) > 1)
#else
#define GATE true
#endif
/* the first vote of a rank stays, also if the round is done again */
inline cast(r_, s_) {
  x = 0;
  do
  :: x < NW -> if :: ro[r_].held[s_].by[x] && !V(r_,s_,x) -> V(r_,s_,x) = ro[r_].held[s_].by[x] :: else -> skip fi;
               ro[r_].held[s_].by[x] = 0; x++
  :: else -> break
  od; x = 0
}
#define COUNT \
  :: d_step { !torn && members && counted < 2 && SAID(0) && SAID(1) && SAID(2) && SAID(3) && GATE -> \
     printf("round %d is counted\n", counted); own = counted; counted++; \
     cast(own, 0); cast(own, 1); cast(own, 2); judge(own, 0); judge(own, 1); judge(own, 2); own = 0 }
#define EMPTY(r) ro[r].held[0].by[x] = 0; ro[r].held[1].by[x] = 0; ro[r].held[2].by[x] = 0
/* opens a generation of all that are there, from the highest state among them */
#define OPEN \
  :: d_step { (torn || came == 4 && LIVE(3) && !ra[3].in) && (LIVE(0) || LIVE(1) || LIVE(2) || came == 4 && LIVE(3)) -> \
     members = 0; best = NW; x = 0; \
     do \
     :: x < NW -> ra[x].in = LIVE(x) && x < came; members = members + ra[x].in; \
        if :: ra[x].in && (best == NW || ra[x].has > ra[best].has) -> best = x :: else -> skip fi; EMPTY(0); EMPTY(1); x++ \
     :: else -> break \
     od; x = 0; \
     do \
     :: x < NW -> if :: ra[x].in -> ra[x].has = ra[best].has; ra[x].said = ra[best].has; ra[x].par = ra[best].par; \
                        ra[x].apps[0] = ra[best].apps[0]; ra[x].apps[1] = ra[best].apps[1] \
                     :: else -> skip fi; ra[x].done = 0; SILENT(x); x++ \
     :: else -> break \
     od; x = 0; counted = ra[best].has; printf("a generation of %d from round %d\n", members, counted); best = 0; \
     if :: counted < 2 -> ro[1].wrong = 0 :: else -> skip fi; if :: counted < 1 -> ro[0].wrong = 0 :: else -> skip fi; torn = 0 }
#define DIE(w) \
  :: d_step { LIVE(w) && deaths < DEATHS -> deaths++; ra[w].dead = 1; printf("rank%d dies\n", w); if :: ra[w].in -> torn = 1 :: else -> skip fi }
#define RANK(w) COMPUTE(w) APPLY(w) REPORT(w) DIE(w)
#define LOSE(w) ra[w].has = 0; ra[w].said = 0; ra[w].par = 0; ra[w].done = 0; ra[w].apps[0] = 0; ra[w].apps[1] = 0
#ifdef FALLS
#define FALL \
  :: d_step { !fell && !torn && counted == 2 -> fell = 1; torn = 1; printf("all states are lost\n"); LOSE(0); LOSE(1); LOSE(2); LOSE(3) }
#define COMES false
#else
#define FALL
#define COMES true
#endif
/* FOUND: as in audit.pml, of the last word of each round */
#define TRUE(r,s,a,x) (V(r,s,a) && !BAD(a) && SAME(r,s,a,x))
#define TWO(r,s,x) ((TRUE(r,s,1,x) + TRUE(r,s,2,x) + TRUE(r,s,3,x)) >= 2)
#define FOUND(r,s) assert(!(V(r,s,0) && OUT(V(r,s,0)) != IN(V(r,s,0)) && TWO(r,s,0)) || ra[0].suspect)

init {
  do
  RANK(0) RANK(1) RANK(2) RANK(3) COUNT OPEN FALL
  :: d_step { COMES && came == 3 && !torn && !ra[3].dead -> came = 4; printf("rank3 comes\n") }
  :: else -> break
  od;
  assert(!(LIVE(0) || LIVE(1) || LIVE(2) || came == 4 && LIVE(3)) || counted == 2);                              /* LIVE */
  FOUND(0,0); FOUND(0,1); FOUND(0,2); FOUND(1,0); FOUND(1,1); FOUND(1,2)
}
