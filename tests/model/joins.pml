/* joins.pml - test vectors of workers that join (docs/protocol.md, A7).
 *
 * Modelled: a coordinator and four workers, each on a host of its own; with NAMES, workers 0 and 1 share host 0. One process; all
 * interleavings of all actions are explored.
 *   worker      its process computes a vector once, (kind, output), and tells it whenever it joins. The right output of kind k is k. Worker 3
 *               is of kind 1 (with NAMES of kind 0), the others are of kind 0.
 *   host 0      is wrong: any output. With LIES it also says any kind, and so may say what it likes.
 *   known       the newest vector of each worker, attached or not
 *   judged      of the process: its vector was found wrong
 * Faults: a worker leaves and joins again, its process begins anew, the coordinator begins anew and has forgotten known and judged
 * (suspects are in the journal). Somebody forgives a suspect.
 *
 * Properties
 *   honest   assert at blame: only a worker of host 0 is ever blamed
 *   found    always: no wrong vector of host 0 is known beside two right ones of independent hosts, of the same kind
 *   once     assert at blame: a process that the coordinator blamed, in this life, and that was forgiven is not blamed again
 *   before   assert at lease: one that is known to be wrong when it joins is leased nothing before it is suspect
 * Broken variants -DB_... must fail: check.sh.
 */
#define NW 4
#define BUDGET 2
#ifdef NAMES
#define HOST(w) ((w) < 2 -> 0 : (w))
#define KIND(w) 0
#else
#define HOST(w) (w)
#define KIND(w) ((w) == 3)
#endif
#define BAD(w) (HOST(w) == 0)

/* vector: 0: none; else 1 + kind * 3 + output */
byte vec[NW]; byte known[NW]; bit att[NW]; bit judged[NW]; bit suspect[NW]; bit forgiven[NW]; bit lease[NW]; bit late[NW];
byte leaves; byte lives; bit anew;
hidden byte i, j, k;
#define KOF(v) (((v)-1)/3)
#define OUT(v) (((v)-1)%3)

#ifdef B_KINDS
#define SAME(a,b) true
#else
#define SAME(a,b) (KOF(known[a]) == KOF(known[b]))
#endif
#ifdef B_NAMES
#define APART(a,b) ((a) != (b))
#else
#define APART(a,b) (HOST(a) != HOST(b))
#endif
#define EQUAL(a,b) (OUT(known[a]) == OUT(known[b]))
#ifdef B_WORD     /* one word against another is enough */
#define WRONG(x,a,b) (a == b && SAME(x,a) && APART(x,a) && !EQUAL(x,a))
#else
#define WRONG(x,a,b) (a < b && SAME(x,a) && SAME(x,b) && APART(a,b) && APART(x,a) && APART(x,b) && EQUAL(a,b) && !EQUAL(x,a))
#endif

inline blame(w_) {
  printf("worker%d is suspect\n", w_);
  assert(BAD(w_));                                                    /* HONEST */
  assert(!forgiven[w_]);                                              /* ONCE */
  suspect[w_] = 1; known[w_] = 0; lease[w_] = 0;
  judged[w_] = 1
}
/* every vector against every two others, the last worker's first: a rule that asks for less blames an honest one then */
inline judge() {
  i = NW;
  do
  :: i > 0 ->
     i--; j = 0;
     do
     :: j < NW ->
        k = 0;
        do
        :: k < NW -> if :: known[i] && known[j] && known[k] && WRONG(i,j,k) -> blame(i) :: else -> skip fi; k++
        :: else -> break
        od; j++
     :: else -> break
     od
  :: else -> break
  od; i = 0; j = 0; k = 0
}
inline hear(w_) {
  if :: !judged[w_] -> known[w_] = vec[w_]; judge() :: else -> skip fi
}
/* x's own vector is wrong, and two right ones of its kind are known, of independent hosts: honest hosts have one worker each */
#define RIGHT(a,v) (known[a] && !BAD(a) && KOF(known[a]) == KOF(v))
#define TWO(v) ((RIGHT(1,v) + RIGHT(2,v) + RIGHT(3,v)) >= 2)
#define WRONGLY(v) ((v) && OUT(v) != KOF(v) && TWO(v))
#define FOUND(w) assert(!(BAD(w) && WRONGLY(known[w])))

#ifdef B_AGAIN    /* a vector that was judged is forgotten with the suspicion */
#define FORGETS(w) judged[w] = 0
#else
#define FORGETS(w) skip
#endif
#ifdef LIES
#define COMPUTES(w) if :: vec[w] = 1 + KIND(w) * 3 + KIND(w) :: BAD(w) -> vec[w] = 2 :: BAD(w) -> vec[w] = 3 :: BAD(w) -> vec[w] = 4 \
  :: BAD(w) -> vec[w] = 5 fi
#else
#define COMPUTES(w) if :: vec[w] = 1 + KIND(w) * 3 + KIND(w) :: BAD(w) -> vec[w] = 1 + KIND(w) * 3 + 2 fi
#endif
#ifdef B_LATE     /* leases are given before the vector is compared */
#define HEARD(w) late[w] = 1
#define LATER(w) :: d_step { att[w] && late[w] -> late[w] = 0; hear(w) }
#else
#define HEARD(w) hear(w)
#define LATER(w)
#endif
#define WORKER(w) \
  :: atomic { !vec[w] -> COMPUTES(w); printf("worker%d computes %d\n", w, vec[w]) } \
  :: d_step { vec[w] && !att[w] -> printf("worker%d joins\n", w); att[w] = 1; HEARD(w) } \
  LATER(w) \
  :: d_step { att[w] && leaves < BUDGET -> printf("worker%d leaves\n", w); leaves++; att[w] = 0; lease[w] = 0; late[w] = 0 } \
  :: d_step { vec[w] && !att[w] && lives < BUDGET -> printf("worker%d begins anew\n", w); lives++; vec[w] = 0; judged[w] = 0; forgiven[w] = 0 } \
  :: d_step { suspect[w] && lives < BUDGET -> printf("worker%d is forgiven\n", w); lives++; suspect[w] = 0; forgiven[w] = judged[w]; FORGETS(w) } \
  :: d_step { att[w] && !suspect[w] && !lease[w] -> assert(forgiven[w] || !BAD(w) || !WRONGLY(vec[w])); lease[w] = 1 }          /* BEFORE */
#define GONE(w) att[w] = 0; lease[w] = 0; late[w] = 0; known[w] = 0; judged[w] = 0; forgiven[w] = 0

init {
  do
  WORKER(0) WORKER(1) WORKER(2) WORKER(3)
  :: d_step { !anew -> anew = 1; printf("the coordinator begins anew\n"); GONE(0); GONE(1); GONE(2); GONE(3) }
  :: d_step { FOUND(0); FOUND(1); assert(!(suspect[0] && lease[0]) && !(suspect[1] && lease[1])) }
  od
}
