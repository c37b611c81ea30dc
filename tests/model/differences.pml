/* differences.pml - which worker is wrong by differences of several rounds (docs/protocol.md, A6).
 *
 * Modelled: a coordinator, four workers, ROUNDS audited rounds of two slots of which one is looked at: any two workers vote for it, one after the other.
 *   worker      each has a host and a party of its own; with NAMES, workers 0 and 1 are two names on host 0. Workers 2 and 3 are alike.
 *   host 0      is wrong now and then; with TWO, host 1 is, too, and its wrong results are others.
 *   inputs      0; a shard that falls back makes them 1, also between the two votes: right outputs differ then, too.
 *   difference  of two workers: volatile, kept until one of the two is blamed.
 * Faults: a shard falls back (once); a suspect is repaired and undrained (once); the coordinator starts anew and has forgotten all differences (once).
 *
 * Properties
 *   honest   assert at blame: only a worker that is wrong is blamed
 *   doubt    with TWO, an honest worker is blamed only while neither wrong host has differed from anyone else
 *   found    at the end: a wrong worker that differed from two honest ones of independent hosts was blamed
 * Broken variants -DB_... must fail: check.sh.
 */
#define NW 4
#ifndef ROUNDS
#define ROUNDS 5
#endif
#ifdef NAMES
#define HOST(w) ((w) < 2 -> 0 : (w))
#else
#define HOST(w) (w)
#endif
#ifdef TWO
#define BAD(w) ((w) < 2 && !good[w])
#else
#define BAD(w) (HOST(w) == 0 && !good[w])
#endif
#define APART(a,b) (HOST(a) != HOST(b))

typedef Row { bit with[NW] };
Row d[NW];      /* differences that are kept */
Row was[NW];    /* ghost: all of them, until one of the two is blamed or all are forgotten */
bit suspect[NW], good[NW]; bit fell, anew, mended; byte rounds;
hidden byte i, j, k, l;
byte va, vb, wa, wb;      /* two votes: 1 + inputs * 3 + output, and of whom; 0: none */
#define IN(v) (((v)-1)/3)
#define OUT(v) (((v)-1)%3)

#ifdef B_THIRD    /* one whose own word is in doubt decides */
#define STANDS(x,a) true
#else
#ifdef B_KIN      /* a difference with the accused one's kin puts a word in doubt */
#define ELSE(x,o) (x != o)
#else
#define ELSE(x,o) (APART(x,o))
#endif
#define DOUBTED(x,a,o) (d[a].with[o] && ELSE(x,o))
#define STANDS(x,a) (!DOUBTED(x,a,0) && !DOUBTED(x,a,1) && !DOUBTED(x,a,2) && !DOUBTED(x,a,3))
#endif
#ifdef B_ONE      /* one difference is enough */
#define WRONG(x,a,b) (x != a && a == b && d[x].with[a] && STANDS(x,a))
#else
#ifdef B_HOST     /* the two may be of one host */
#define APART3(x,a,b) (a < b && APART(x,a) && APART(x,b))
#else
#define APART3(x,a,b) (a < b && APART(a,b) && APART(x,a) && APART(x,b))
#endif
#define WRONG(x,a,b) (APART3(x,a,b) && d[x].with[a] && d[x].with[b] && STANDS(x,a) && STANDS(x,b))
#endif
#define ELSEWHERE(o,w) (((w) != 0 && was[o].with[0]) || ((w) != 1 && was[o].with[1]) || ((w) != 2 && was[o].with[2]) || ((w) != 3 && was[o].with[3]))

inline blame(w_) {
  printf("worker%d is suspect\n", w_);
#ifdef TWO
  assert(BAD(w_) || (!ELSEWHERE(0,w_) && !ELSEWHERE(1,w_)));         /* DOUBT */
#else
  assert(BAD(w_));                                                   /* HONEST */
#endif
  suspect[w_] = 1;
  l = 0;
  do
  :: l < NW -> was[w_].with[l] = 0; was[l].with[w_] = 0;
#ifndef B_KEEP    /* differences outlive the blame */
     d[w_].with[l] = 0; d[l].with[w_] = 0;
#endif
     l++
  :: else -> break
  od; l = 0
}
/* every worker by every two others, those that are never wrong first: no order may be what saves them */
inline judge() {
  i = NW;
  do
  :: i > 0 ->
     i--; j = 0;
     do
     :: j < NW ->
        k = 0;
        do
        :: k < NW -> if :: !suspect[i] && WRONG(i,j,k) -> blame(i) :: else -> skip fi; k++
        :: else -> break
        od; j++
     :: else -> break
     od
  :: else -> break
  od; j = 0; k = 0
}
#ifdef B_INPUTS
#define SAME true
#else
#define SAME (IN(va) == IN(vb))
#endif
inline compare() {
  if
  :: SAME && OUT(va) != OUT(vb) && APART(wa,wb) ->
     printf("worker%d and worker%d differ\n", wa, wb);
     d[wa].with[wb] = 1; d[wb].with[wa] = 1; was[wa].with[wb] = 1; was[wb].with[wa] = 1
  :: else -> skip
  fi; judge(); va = 0; vb = 0; wa = 0; wb = 0
}
/* the right output of inputs n is n, the wrong one 2; a second wrong host's is another one */
#ifdef TWO
#define WORST(w) ((w) == 1 -> 1 - fell : 2)
#else
#define WORST(w) 2
#endif
#define FIRST(w) :: atomic { rounds < ROUNDS && !va && !suspect[w] -> wa = w; if :: va = 1 + fell * 3 + fell :: BAD(w) -> va = 1 + fell * 3 + WORST(w) fi }
#define SECOND(w) :: atomic { va && w != wa && !suspect[w] -> wb = w; if :: vb = 1 + fell * 3 + fell :: BAD(w) -> vb = 1 + fell * 3 + WORST(w) fi; \
   d_step { rounds++; compare() } }
#define MEND(w) :: d_step { suspect[w] && !mended && !va -> mended = 1; suspect[w] = 0; good[w] = 1; printf("worker%d is mended\n", w) }
#define FOUND(x) assert(suspect[x] || !BAD(x) || !(was[x].with[2] && was[x].with[3]))                 /* FOUND */

init {
  do
  FIRST(0) FIRST(1) FIRST(2) FIRST(3)
  SECOND(0) SECOND(1) SECOND(2) SECOND(3)
  MEND(0) MEND(1) MEND(2) MEND(3)
  :: d_step { !fell -> fell = 1; printf("a shard falls back\n") }
  :: d_step { !anew && !va -> anew = 1; printf("the coordinator starts anew\n"); l = 0;
     do :: l < NW * NW -> d[l / NW].with[l % NW] = 0; was[l / NW].with[l % NW] = 0; l++ :: else -> break od; l = 0 }
  :: else -> break
  od;
#ifndef TWO
  FOUND(0); FOUND(1)
#endif
}
