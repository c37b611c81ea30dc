/* moments.pml - moments of a worker's own optimizer that shards keep (docs/protocol.md, L9, with Y1, Y2, I4, S2).
 *
 * Modelled: rounds of two slots at two shards, NR of them, and two workers. The contribution to slot 0 of each round brings moments, which are a number:
 * the round behind which they are. All interleavings of all actions are explored.
 *   worker   computes a slot of the first round that some shard lacks; one that is new first takes the moments of both shards. It pushes to the shards
 *            in any order. It may die, or its lease may end while it runs on: then another one computes its slot, and its pushes are late.
 *   shard    holds contributions, and counts a round when both are there. It writes files, and falls back to the last one.
 *
 * Properties
 *   together   the moments that a shard gives are those behind the round whose parameters it gives, for a slot that some shard lacks; unless a shard
              fell back meanwhile
 *   counted    they are never behind a round that the shard has not counted; those of a file are behind its last round
 *   live       no run stands still before all rounds are counted
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef NR
#define NR 3
#endif
#ifndef FALLS
#define FALLS 0
#endif
#ifndef LEAVES       /* workers that die, leases that end */
#define LEAVES 2
#endif

typedef Shard {
  byte cnt; byte held; bit past;       /* rounds counted; slots held of the next one; the values before the last one are kept */
  byte kept; byte before; bit changed; /* moments, and those before the last round if that changed them */
  byte hm;                             /* moments of what is held; 0: none */
  byte fcnt; byte fkept                /* file */
};
typedef Worker { byte r; byte slot; byte sent; byte asked; byte m[2]; bit lost; bit knows; bit old }; /* old: it has taken a step */
Shard sh[2]; Worker w[2];
byte falls, leaves;

#define LOW (sh[0].cnt < sh[1].cnt -> sh[0].cnt : sh[1].cnt)
#define OTHER(n,k) (w[1-n].r == LOW + 1 && w[1-n].slot == k && !w[1-n].lost)
#define LACKS(s,k) (sh[s].cnt == LOW && !(sh[s].held & (1 << (k))))
#define WANTED(k) (LOW < NR && (LACKS(0,k) || LACKS(1,k)))

/* ---- a shard */
inline hold(s,n) {
  sh[s].held = sh[s].held | (1 << w[n].slot);
  if
#ifndef B_APART
  :: w[n].slot == 0 ->
     sh[s].before = 0; sh[s].changed = 0;
#ifdef B_HELD        /* kept when they come */
     sh[s].kept = w[n].r
#else
     sh[s].hm = w[n].r
#endif
#endif
  :: else -> skip
  fi
}
inline count(s) {
  sh[s].before = sh[s].kept; sh[s].changed = 1;
  if :: sh[s].hm -> sh[s].kept = sh[s].hm :: else -> skip fi;
  sh[s].hm = 0; sh[s].held = 0; sh[s].cnt++; sh[s].past = 1;
  printf("shard%d counts round %d\n", s, sh[s].cnt)
}
#ifdef B_REPEAT      /* a push that counts nothing brings moments as well */
#define REPEATED(s,n) if :: w[n].slot == 0 -> sh[s].kept = w[n].r :: else -> skip fi
#else
#define REPEATED(s,n) skip
#endif
#define HAS(s,n) (sh[s].cnt >= w[n].r || (sh[s].held & (1 << w[n].slot)))
#define PUSH(n,s) \
  :: d_step { w[n].r && w[n].knows && !(w[n].sent & (1 << s)) && HAS(s,n) -> w[n].sent = w[n].sent | (1 << s); REPEATED(s,n) } \
  :: d_step { w[n].r && w[n].knows && !(w[n].sent & (1 << s)) && !HAS(s,n) && sh[s].cnt + 1 == w[n].r -> \
     printf("worker%d pushes slot %d of round %d to shard%d\n", n, w[n].slot, w[n].r, s); \
     assert(w[n].old || falls || (w[n].m[0] + 1 == w[n].r && w[n].m[1] + 1 == w[n].r));                               /* TOGETHER */ \
     w[n].old = 1; w[n].m[0] = 0; w[n].m[1] = 0; w[n].sent = w[n].sent | (1 << s); hold(s,n); if :: sh[s].held == 3 -> count(s) :: else -> skip fi } \
  :: d_step { w[n].r && w[n].knows && !(w[n].sent & (1 << s)) && sh[s].cnt + 1 < w[n].r -> w[n].sent = 3 }  /* early: Y4 */
#ifdef B_FILE        /* a file has moments that are held */
#define OF_FILE(s) (sh[s].hm -> sh[s].hm : sh[s].kept)
#else
#define OF_FILE(s) sh[s].kept
#endif
#define SHARD(s) \
  :: d_step { sh[s].fcnt != sh[s].cnt || sh[s].fkept != OF_FILE(s) -> sh[s].fcnt = sh[s].cnt; sh[s].fkept = OF_FILE(s); \
     assert(sh[s].fkept == sh[s].fcnt) }                                                                             /* COUNTED */ \
  :: d_step { falls < FALLS && sh[s].cnt -> falls++; printf("shard%d falls back to %d\n", s, sh[s].fcnt); sh[s].cnt = sh[s].fcnt; \
     sh[s].kept = sh[s].fkept; sh[s].held = 0; sh[s].hm = 0; sh[s].past = 0; sh[s].before = 0; sh[s].changed = 0 }

/* ---- a worker */
#ifdef B_PAST        /* a shard gives what it keeps, also to a slot of its last round */
#define GIVES(s,n) sh[s].kept
#else
#define GIVES(s,n) (sh[s].cnt == w[n].r && sh[s].past && sh[s].changed -> sh[s].before : sh[s].kept)
#endif
#define ASK(n,s) \
  :: d_step { w[n].r && !w[n].knows && !(w[n].asked & (1 << s)) -> w[n].m[s] = GIVES(s,n); \
     printf("shard%d gives worker%d moments behind %d\n", s, n, w[n].m[s]); \
     assert(w[n].m[s] <= sh[s].cnt);                                                                                /* COUNTED */ \
     w[n].asked = w[n].asked | (1 << s); if :: w[n].asked == 3 -> w[n].knows = 1 :: else -> skip fi }
#ifdef B_ONCE        /* a worker asks once, though the closure may be counted */
#define ANEW(n) skip
#else
#define ANEW(n) if :: !w[n].old -> w[n].knows = 0; w[n].asked = 0; w[n].m[0] = 0; w[n].m[1] = 0 :: else -> skip fi
#endif
#ifdef B_APART       /* moments come in a message of their own, which is taken when it comes */
#define APART(n,s) :: d_step { w[n].r && w[n].old && w[n].slot == 0 && sh[s].kept != w[n].r -> sh[s].kept = w[n].r }
#else
#define APART(n,s)
#endif
#define LEASE(n,k) \
  :: d_step { !w[n].r && WANTED(k) && !OTHER(n,k) -> w[n].r = LOW + 1; w[n].slot = k; w[n].sent = 0 }
#define WORKER(n) \
  LEASE(n,0) LEASE(n,1) ASK(n,0) ASK(n,1) PUSH(n,0) PUSH(n,1) APART(n,0) APART(n,1) \
  :: d_step { w[n].r && w[n].sent == 3 -> w[n].r = 0; w[n].slot = 0; w[n].sent = 0; w[n].lost = 0; ANEW(n) } \
  :: d_step { w[n].r && leaves < LEAVES -> leaves++; printf("worker%d dies\n", n); \
     w[n].r = 0; w[n].slot = 0; w[n].sent = 0; w[n].lost = 0; w[n].old = 0; \
     w[n].knows = 0; w[n].asked = 0; w[n].m[0] = 0; w[n].m[1] = 0 } \
  :: d_step { w[n].r && !w[n].lost && leaves < LEAVES -> leaves++; printf("the lease of worker%d ends\n", n); w[n].lost = 1 }

init {
  do
  WORKER(0)
  WORKER(1)
  SHARD(0)
  SHARD(1)
  :: sh[0].cnt == NR && sh[1].cnt == NR && !w[0].r && !w[1].r -> break
  od
}
