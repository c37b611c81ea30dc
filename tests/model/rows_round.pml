/* rows_round.pml - rows of sparse tables in rounds (docs/protocol.md, T7 and T8, with T4 and Y2).
 *
 * Modelled: ROUNDS rounds of two slots, two ids, and two shards that have one id each; with ONE, one shard that has both. All interleavings of all
 * actions are explored.
 *   worker      one for each slot, and the slot's next attempt: it reads both ids, one after the other, computes a gradient from what it read, and
 *               gives it to each shard. It may be lost at any point, and then begins again at the first round that some shard has not counted.
 *   shard       holds a slot's rows (once) until both slots are there. Then the round is one update: a gradient for each id that a slot has.
 *   admission   an id without a row waits and is counted; the second round that has it makes its row.
 *   read        a shard that has counted the round answers with its rows from before it, if that was its last round.
 *   file        a shard's rows at any point, without what is held.
 *   fall        a shard is killed and loads its last file.
 * A sum is s * 3 + g, which depends on the order, as sums in f32 do. With SKIP a gradient of round 1 is not finite.
 *
 * Properties, behind each round and each fall
 *   admitted   an id has a row, or waits with a count, as the number of counted rounds that have it says
 *   exact      rows are those of a run without losses, unless a shard was asked for rows from before a round that was not its last one, or before
 *              which it was loaded (as with values, Y2)
 *   live       no run stands still before all shards have counted all rounds
 * Broken variants -DB_... must fail: check.sh.
 */
#ifdef ONE
#define NS 1
#else
#define NS 2
#endif
#define ROUNDS 3
#ifndef FALLS
#define FALLS 2
#endif
#define MIN 2
#define SHARD_OF(i) (NS == 1 -> 0 : (i))
#define HERE(s,i) (SHARD_OF(i) == (s))
/* which slots have the id: 1 for slot 0, 2 for slot 1; id 0 in rounds 0, 1, 2, then id 1 */
#define SLOTS_OF(r,i) ((i) == 0 -> ((r) == 0 -> 3 : ((r) == 1 -> 2 : 3)) : ((r) == 0 -> 1 : ((r) == 1 -> 3 : 1)))
#define HAS(r,k,i) ((SLOTS_OF(r,i) >> (k)) & 1)
#define FIRST(i) (10 + (i))
#define MOD(x) ((x) % 251)
#define GRADIENT(k,v0,v1) MOD(1 + (k) + (v0) + 2 * (v1))
#ifdef SKIP
#define FINITE(r,k) (!((r) == 1 && (k) == 1))
#else
#define FINITE(r,k) true
#endif

typedef Rows { bit there[2]; byte count[2]; byte value[2] };
typedef Shard {
  byte version; Rows now;            /* rounds counted */
  byte before[2]; bit kept;          /* values from before the last round */
  bit held[2]; byte g[2]; byte sum;  /* sum: in the order of arrival, for B_ORDER alone */
  byte fversion; Rows file
};
Shard sh[NS];
typedef Worker { byte round; bit read[2]; byte value[2]; bit given[2]; bit busy };
Worker w[2];
byte falls; bit inexact;
Rows should[4];                      /* of the run without losses, by version */
hidden byte i_, j_, a_, s_, m_, t_;

#define COPY(x,y) x.there[0] = y.there[0]; x.there[1] = y.there[1]; x.count[0] = y.count[0]; x.count[1] = y.count[1]; \
  x.value[0] = y.value[0]; x.value[1] = y.value[1]
#define READS(x,i) (x.there[i] -> x.value[i] : FIRST(i))
#ifdef B_COUNTS    /* admission counts contributions */
#define TIMES(r,i) (SLOTS_OF(r,i) == 3 -> 2 : 1)
#else
#define TIMES(r,i) 1
#endif
#ifdef B_SKIPS     /* what is finite of a round that is skipped changes rows */
#define SKIPPED(r) false
#define IN(r,k,i) (HAS(r,k,i) && FINITE(r,k))
#else
#define SKIPPED(r) (!FINITE(r,0) || !FINITE(r,1))
#define IN(r,k,i) HAS(r,k,i)
#endif
/* one update of id i by the sum s_; `times` as admission counts it */
inline update(x, i, times) {
  x.count[i] = x.count[i] + (x.there[i] -> 0 : times);
  if :: !x.there[i] && x.count[i] >= MIN -> x.there[i] = 1; x.value[i] = FIRST(i); x.count[i] = 0 :: else -> skip fi;
  if :: x.there[i] -> x.value[i] = MOD(x.value[i] + s_) :: else -> skip fi
}
inline summed(r, i, g0, g1) {
  s_ = (IN(r,0,i) -> g0 : 0);
  if :: IN(r,1,i) -> s_ = MOD(s_ * 3 + g1) :: else -> skip fi
}
inline check(s) {
  i_ = 0;
  do
  :: i_ < 2 && HERE(s,i_) ->
     a_ = 0; j_ = 0;
     do
     :: j_ < sh[s].version -> a_ = a_ + (SLOTS_OF(j_,i_) && FINITE(j_,0) && FINITE(j_,1) -> 1 : 0); j_++
     :: else -> break
     od;
     if :: sh[s].now.there[i_] -> assert(a_ >= MIN) :: else -> assert(a_ < MIN && sh[s].now.count[i_] == a_) fi;          /* ADMITTED */
     assert(inexact || !sh[s].now.there[i_] || sh[s].now.value[i_] == should[sh[s].version].value[i_]);                    /* EXACT */
     i_++
  :: i_ < 2 && !HERE(s,i_) -> i_++
  :: else -> break
  od;
  i_ = 0; j_ = 0; a_ = 0
}

/* ---- a shard */
inline close(s) {
  printf("shard%d counts round %d\n", s, sh[s].version);
  sh[s].before[0] = READS(sh[s].now,0); sh[s].before[1] = READS(sh[s].now,1); sh[s].kept = 1;
  j_ = 0;
  do
  :: j_ < 2 && HERE(s,j_) && SLOTS_OF(sh[s].version,j_) && !SKIPPED(sh[s].version) ->
     summed(sh[s].version, j_, sh[s].g[0], sh[s].g[1]);
#ifdef B_ORDER     /* gradients are added as they come */
     if :: SLOTS_OF(sh[s].version,j_) == 3 -> s_ = sh[s].sum :: else -> skip fi;
#endif
#ifndef B_EACH
     t_ = TIMES(sh[s].version,j_); update(sh[s].now, j_, t_);
#endif
     j_++
  :: j_ < 2 && !(HERE(s,j_) && SLOTS_OF(sh[s].version,j_) && !SKIPPED(sh[s].version)) -> j_++
  :: else -> break
  od;
  sh[s].version++; sh[s].held[0] = 0; sh[s].held[1] = 0; sh[s].g[0] = 0; sh[s].g[1] = 0; sh[s].sum = 0; s_ = 0; j_ = 0;
  check(s)
}
inline hold(s, k, g_) {
#ifdef B_EACH      /* rows are applied as they come, and counted with the round */
  j_ = 0;
  do
  :: j_ < 2 && HERE(s,j_) && HAS(sh[s].version,k,j_) -> s_ = g_; update(sh[s].now, j_, 1); j_++
  :: j_ < 2 && !(HERE(s,j_) && HAS(sh[s].version,k,j_)) -> j_++
  :: else -> break
  od;
#endif
  sh[s].sum = MOD((sh[s].held[1-k] -> sh[s].sum * 3 : 0) + g_);
#ifdef B_TWICE     /* a slot that is given again is added to what is held */
  sh[s].g[k] = MOD(sh[s].g[k] + g_);
#else
  sh[s].g[k] = g_;
#endif
  sh[s].held[k] = 1
}
#ifdef B_TWICE
#define FREE(s,k) true
#else
#define FREE(s,k) (!sh[s].held[k])
#endif
#define GIVES(s,k) GRADIENT(k, w[k].value[0], w[k].value[1])
#ifdef B_PRESENT   /* rows are read as they are */
#define ANSWER(s,i,r) READS(sh[s].now,i)
#else
#define ANSWER(s,i,r) (sh[s].version == (r) + 1 && sh[s].kept -> sh[s].before[i] : READS(sh[s].now,i))
#endif
#define IS_THERE(s,r) (sh[s].version == (r) || (sh[s].version == (r) + 1 && sh[s].kept))

/* ---- actions */
#define OPEN (sh[0].version < sh[NS-1].version -> sh[0].version : sh[NS-1].version)
#define FORGET(k) w[k].busy = 0; w[k].round = 0; w[k].read[0] = 0; w[k].read[1] = 0; w[k].value[0] = 0; w[k].value[1] = 0; w[k].given[0] = 0; w[k].given[1] = 0
#define ALL_READ(k) (w[k].read[0] && w[k].read[1])
#define READ(k,i) \
  :: d_step { w[k].busy && !w[k].read[i] && sh[SHARD_OF(i)].version >= w[k].round -> \
     inexact = inexact || !IS_THERE(SHARD_OF(i),w[k].round); \
     w[k].value[i] = ANSWER(SHARD_OF(i),i,w[k].round); w[k].read[i] = 1; \
     printf("slot %d reads id%d: %d\n", k, i, w[k].value[i]) }
#define GIVE(k,s) \
  :: d_step { ALL_READ(k) && !w[k].given[s] && sh[s].version >= w[k].round -> w[k].given[s] = 1; \
     if :: sh[s].version == w[k].round && FREE(s,k) -> hold(s, k, GIVES(s,k)) :: else -> skip fi; \
     if :: sh[s].version < ROUNDS && sh[s].held[0] && sh[s].held[1] -> close(s) :: else -> skip fi }
#define BEGIN(k) \
  :: d_step { !w[k].busy && OPEN < ROUNDS && !(sh[0].held[k] && sh[NS-1].held[k]) -> w[k].round = OPEN; w[k].busy = 1; \
     printf("slot %d of round %d\n", k, OPEN) }
/* given to all, or lost, or refused by a shard that fell behind its round */
#define END(k) :: d_step { w[k].busy -> FORGET(k) }
#define WORKER(k) BEGIN(k) READ(k,0) READ(k,1) GIVE(k,0) GIVE(k,NS-1) END(k)
#define SHARD(s) \
  :: d_step { sh[s].version != sh[s].fversion -> COPY(sh[s].file, sh[s].now); sh[s].fversion = sh[s].version; printf("shard%d: file\n", s) } \
  :: d_step { falls < FALLS -> falls++; printf("shard%d falls back to version %d\n", s, sh[s].fversion); \
     sh[s].version = sh[s].fversion; COPY(sh[s].now, sh[s].file); sh[s].kept = 0; sh[s].before[0] = 0; sh[s].before[1] = 0; \
     sh[s].held[0] = 0; sh[s].held[1] = 0; sh[s].g[0] = 0; sh[s].g[1] = 0; sh[s].sum = 0; check(s) }

inline run_without_losses() {
  m_ = 0;
  do
  :: m_ < ROUNDS ->
     COPY(should[m_+1], should[m_]); i_ = 0;
     do
     :: i_ < 2 && SLOTS_OF(m_,i_) && FINITE(m_,0) && FINITE(m_,1) ->
        a_ = GRADIENT(0, READS(should[m_],0), READS(should[m_],1)); j_ = GRADIENT(1, READS(should[m_],0), READS(should[m_],1));
        s_ = (HAS(m_,0,i_) -> a_ : 0);
        if :: HAS(m_,1,i_) -> s_ = MOD(s_ * 3 + j_) :: else -> skip fi;
        update(should[m_+1], i_, 1); i_++
     :: i_ < 2 && !(SLOTS_OF(m_,i_) && FINITE(m_,0) && FINITE(m_,1)) -> i_++
     :: else -> break
     od;
     m_++
  :: else -> break
  od;
  i_ = 0; j_ = 0; a_ = 0; s_ = 0; m_ = 0
}
init {
  d_step { run_without_losses() };
  do
  WORKER(0)
  WORKER(1)
  SHARD(0)
#ifndef ONE
  SHARD(1)
#endif
  :: sh[0].version == ROUNDS && sh[NS-1].version == ROUNDS && !w[0].busy && !w[1].busy -> break
  od
}
