/* rows.pml - rows of sparse tables on the shards (docs/protocol.md, T1 to T6).
 *
 * Modelled: one table with ids 0 and 1, two closures of STEPS steps each, and one shard that has both ids; with TWO, two shards that
 * have one id each. All interleavings of all actions are explored.
 *   push        any step at any time, but the steps of a closure in their order; a counted step may be pushed again and again. So
 *               workers, retries, late copies and steps that are done again are all in. A step has its ids, a gradient that shows in
 *               every sum, and a coin.
 *   read        any id, any number of times, by a process of its own.
 *   admission   an id without a row waits and is counted. A step that has it gives it a row, if it is the second one or a later one
 *               and its coin shows heads; else its gradient is missed.
 *   eviction    behind each update a bucket (version mod 2) is examined: a row or a waiting id that UNUSED versions did not use
 *               goes. With FULL the table has one row: a new one takes its place, unless the update uses it. What a row had learned
 *               is spent then.
 *   snapshot    the instant, then record by record, while pushes go on, which save what they change; then the file.
 *   fall        the shard is killed and loads its last file, or begins at the seed; its records lie in either order then.
 * The counted set is the steps of the log; their number is the version. Who may push, and which file is loaded, is in other rules.
 *
 * Properties, after each counted push and each fall
 *   sum        what a row has learned, and what was spent and missed of its id, are the counted gradients of the id, each once
 *   admitted   an id has a row, or waits with a count, as the counted steps since its last eviction say; a row holds its first value
 *              less the gradients since its admission; no row stays unused for longer than it takes to come to its bucket
 *   again      a shard that has counted the lost steps again, in the same order, has the records that it had
 *   live       every maximal run ends with all steps counted on all shards
 * Broken variants -DB_... must fail: check.sh.
 */
#ifdef TWO
#define NS 2
#define STEPS 2
#define STEPS_OF(i) ((i) == 0 -> 7 : 14)                              /* which steps have the id */
#else
#define NS 1
#define STEPS 4
#define STEPS_OF(i) ((i) == 0 -> 211 : 109)
#endif
#define K (2 * STEPS)
#ifndef FALLS
#define FALLS 2
#endif
#define UNUSED 2
#define MIN 2
#define HAS(t,i) ((STEPS_OF(i) >> (t)) & 1)
#define HEADS(t) ((t) != 5)
#define G(t) (1 << (t))
#define FIRST(i) (1000 + (i))
#define HERE(s,i) (NS == 1 || (i) == (s))
#define ROWLESS(s,t) (NS == 2 && !HAS(t, s))

typedef Row { byte id; byte changed; short value };                  /* id: 0 for none, else 1 + id */
typedef Wait { byte n; byte changed };
/* row: by place in memory, elsewhere by id; since: the version of the id's last eviction, for the properties alone */
typedef Table { Row row[2]; Wait wait[2]; short spent[2]; short missed[2]; byte since[2] };
typedef Shard {
  byte version; byte log[K]; byte done[2]; Table now;
  byte walk; byte at; bit saved[4]; Table out;    /* the snapshot being written: 1 + the next record, the version */
  byte fversion; Table file;
  byte wversion; byte wlog[K]; Table was                          /* before the fall; forgotten when the steps differ */
};
Shard sh[NS];
byte falls;
hidden Row r_;

#if defined(B_COIN) || defined(B_DRAWN)
#define UPDATE atomic
byte b, j, k, n, p, step, v, x; short a, f, total;
#else
#define UPDATE d_step
hidden byte b, j, k, n, p, step, v, x; hidden short a, f, total;
#endif
#define DONE(s,t) sh[s].done[(t)/STEPS]
#define CNT(s,t) (DONE(s,t) > (t) % STEPS)
#define ROW(s,p) sh[s].now.row[p]
#define WAIT(s,i) sh[s].now.wait[i]
#define PLACE(s,i) (ROW(s,0).id == 1+(i) -> 0 : (ROW(s,1).id == 1+(i) -> 1 : 2))
#define FREE(s) (ROW(s,0).id == 0 -> 0 : 1)
#define CPR(x,y) x.id = y.id; x.changed = y.changed; x.value = y.value
#define CPW(x,y) x.n = y.n; x.changed = y.changed
#define CPN(x,y,i) x.spent[i] = y.spent[i]; x.missed[i] = y.missed[i]; x.since[i] = y.since[i]
#define COPY(x,y) CPR(x.row[0],y.row[0]); CPR(x.row[1],y.row[1]); CPW(x.wait[0],y.wait[0]); CPW(x.wait[1],y.wait[1]); CPN(x,y,0); CPN(x,y,1)
#define NIL(x) x.id = 0; x.changed = 0; x.value = 0
#define NILW(x) x.n = 0; x.changed = 0
#define ZERO(x) NIL(x.row[0]); NIL(x.row[1]); NILW(x.wait[0]); NILW(x.wait[1]); x.spent[0] = 0; x.spent[1] = 0; \
  x.missed[0] = 0; x.missed[1] = 0; x.since[0] = 0; x.since[1] = 0

/* ---- what a record is to the snapshot being written, before it changes */
#ifdef B_INSTANT   /* each record is taken when the walk comes to it */
#define LATER(s,x) false
#define SAVE(s,p) skip
#define SAVEW(s,i) skip
#else
#ifdef B_LATER     /* the walk takes records that have come to be since the instant */
#define LATER(s,x) false
#else
#define LATER(s,x) (x.changed > sh[s].at)
#endif
#define SAVE(s,p) if :: sh[s].walk && sh[s].walk <= 1 + p && ROW(s,p).changed <= sh[s].at -> k = ROW(s,p).id - 1; \
     CPR(sh[s].out.row[k], ROW(s,p)); sh[s].saved[k] = 1 :: else -> skip fi
#define SAVEW(s,i) if :: sh[s].walk && sh[s].walk <= 3 + i && WAIT(s,i).n && WAIT(s,i).changed <= sh[s].at -> \
     CPW(sh[s].out.wait[i], WAIT(s,i)); sh[s].saved[2+i] = 1 :: else -> skip fi
#endif
#ifdef B_GONE      /* an eviction saves nothing */
#define SAVEGONE(s,p) skip
#else
#define SAVEGONE(s,p) SAVE(s,p)
#endif

/* ---- an update to version v by step t */
#ifdef B_WALL      /* whether a row is unused is a matter of time */
byte clock, used[2];
#define OLD(s,p) (clock != used[ROW(s,p).id-1])
#define USED(i) used[i] = clock
#else
#define OLD(s,p) (v - ROW(s,p).changed >= UNUSED)
#define USED(i) skip
#endif
#ifdef B_COIN      /* the coin is tossed anew each time */
#define TOSS(t) if :: b = 1 :: b = 0 fi
#else
#define TOSS(t) b = HEADS(t)
#endif
#ifdef B_DRAWN     /* the first value is drawn when the row is made */
#define DRAW(i) if :: f = FIRST(i) :: f = FIRST(i) - 1 fi
#else
#define DRAW(i) f = FIRST(i)
#endif
#ifdef B_TWICE     /* step 0 has two samples of an id, and the id stands twice in its push */
#define TIMES(t) ((t) == 0 -> 2 : 1)
#else
#define TIMES(t) 1
#endif
inline evict(s, p_) {
  SAVEGONE(s, p_);
  k = ROW(s,p_).id - 1; printf("shard%d evicts id%d\n", s, k);
  sh[s].now.spent[k] = sh[s].now.spent[k] + FIRST(k) - ROW(s,p_).value; sh[s].now.since[k] = v;
  NIL(ROW(s,p_))
}
inline admit(s, t, i) {
  SAVEW(s, i); TOSS(t);
  WAIT(s,i).n = WAIT(s,i).n + TIMES(t); WAIT(s,i).changed = v;
  b = b && WAIT(s,i).n >= MIN; j = FREE(s);
#ifdef FULL
  p = PLACE(s, 1-i);
  if :: b && p < 2 && ROW(s,p).changed == v -> b = 0
     :: b && p < 2 && ROW(s,p).changed != v -> evict(s, p); j = p
     :: else -> skip fi;
#endif
  if :: b -> DRAW(i); NILW(WAIT(s,i)); ROW(s,j).id = 1+i; ROW(s,j).changed = v; ROW(s,j).value = f - G(t);
        printf("shard%d makes id%d\n", s, i)
     :: else -> sh[s].now.missed[i] = sh[s].now.missed[i] + G(t) fi
}
/* first the rows that are there, then the ids without one: x of it */
inline present(s, t, i) {
  p = PLACE(s, i);
  if :: HAS(t,i) && HERE(s,i) && p < 2 -> SAVE(s, p); ROW(s,p).value = ROW(s,p).value - G(t); ROW(s,p).changed = v; USED(i)
     :: HAS(t,i) && HERE(s,i) && p == 2 -> x = x | (1 << i)
     :: else -> skip fi
}
inline absent(s, t, i) { if :: x & (1 << i) -> admit(s, t, i); USED(i) :: else -> skip fi }
#define ROWS(s,t,o) v = sh[s].version + 1; x = 0; present(s,t,0); present(s,t,1); absent(s,t,o); absent(s,t,(1-o)); x = 0
#ifdef B_PLACE     /* what is examined depends on where the records lie */
#define EXAMINED(s) (v % 2)
#else
#define EXAMINED(s) PLACE(s, v % 2)
#endif
inline slice(s, p_) { p = p_; if :: p < 2 && ROW(s,p).id && OLD(s,p) -> evict(s, p) :: else -> skip fi }
inline forgotten(s, i_) {
  k = i_;
  if :: WAIT(s,k).n && v - WAIT(s,k).changed >= UNUSED -> SAVEW(s, k); NILW(WAIT(s,k)); sh[s].now.since[k] = v :: else -> skip fi
}
#ifdef B_THREAD    /* another thread evicts, when it comes to it */
#define SLICE(s) skip
#else
#define SLICE(s) slice(s, EXAMINED(s)); forgotten(s, v % 2)
#endif
#define COUNT(s,t) LOG(s,sh[s].version) = t; sh[s].version++; DONE(s,t) = DONE(s,t) + 1

/* ---- properties */
#define LOG(s,n) sh[s].log[n]
inline sums(s, i) {
  total = 0; n = 0;
  do :: n < sh[s].version -> total = total + (HAS(LOG(s,n), i) -> G(LOG(s,n)) : 0); n++ :: else -> break od;
  p = PLACE(s, i); a = (p < 2 -> FIRST(i) - ROW(s,p).value : 0);
  assert(sh[s].now.spent[i] + sh[s].now.missed[i] + a == total)       /* SUM */
}
/* a: how often the id was counted, b: whether it has a row, total: what that has learned */
inline admitted(s, i) {
  total = 0; b = 0; a = 0; n = sh[s].now.since[i];
  do
  :: n < sh[s].version && HAS(LOG(s,n), i) -> a++; b = b || (a >= MIN && HEADS(LOG(s,n))); total = total + (b -> G(LOG(s,n)) : 0); n++
  :: n < sh[s].version && !HAS(LOG(s,n), i) -> n++
  :: else -> break
  od;
  p = PLACE(s, i);
  if :: p < 2 -> assert(b && WAIT(s,i).n == 0 && ROW(s,p).value == FIRST(i) - total && sh[s].version - ROW(s,p).changed <= UNUSED)
     :: else -> assert(!b && WAIT(s,i).n == a) fi                     /* ADMITTED */
}
#ifdef FULL
#define AGREE(s,i) sums(s,i)
#else
#define AGREE(s,i) if :: HERE(s,i) -> sums(s,i); admitted(s,i) :: else -> skip fi
#endif
#define SAMEROW(x,y) (x.id == y.id && x.changed == y.changed && x.value == y.value)
#define SAME(s,i) ((PLACE(s,i) < 2 -> SAMEROW(ROW(s,PLACE(s,i)), sh[s].was.row[i]) : !sh[s].was.row[i].id) && \
  WAIT(s,i).n == sh[s].was.wait[i].n && WAIT(s,i).changed == sh[s].was.wait[i].changed)
inline forget(s) {
  sh[s].wversion = 0; ZERO(sh[s].was); n = 0;
  do :: n < K -> sh[s].wlog[n] = 0; n++ :: else -> break od
}
inline again(s) {
  if :: sh[s].wversion && sh[s].version == sh[s].wversion && (!sh[s].version || LOG(s,sh[s].version-1) == sh[s].wlog[sh[s].version-1]) ->
        b = SAME(s,0) && SAME(s,1); assert(b); forget(s)              /* AGAIN */
     :: sh[s].wversion && sh[s].version && LOG(s,sh[s].version-1) != sh[s].wlog[sh[s].version-1] -> forget(s)
     :: else -> skip fi
}
inline check(s) { AGREE(s,0); AGREE(s,1); again(s) }

/* ---- actions */
#ifdef B_SKIP      /* a shard of which the step touches no row is passed over */
#define SENT(s,t) !ROWLESS(s,t)
#else
#define SENT(s,t) true
#endif
#define STEP(s,c) ((c) * STEPS + sh[s].done[c])
#define NEXT(s,c) (sh[s].done[c] < STEPS && SENT(s,STEP(s,c)))
#define SAYS(s,t) printf("shard%d counts step %d\n", s, t)
#ifdef B_APART     /* rows come in a message of their own; it is sent again when the shard fell */
bit told[2];
#define PUSH(s,c) \
  :: d_step { NEXT(s,c) && !told[c] -> step = STEP(s,c); printf("rows of step %d\n", step); ROWS(s,step,0); told[c] = 1; step = 0 } \
  :: d_step { NEXT(s,c) && told[c] -> step = STEP(s,c); SAYS(s,step); COUNT(s,step); v = sh[s].version; SLICE(s); check(s); told[c] = 0; step = 0 }
#define LOST told[0] = 0; told[1] = 0
#else
#ifdef B_BETWEEN   /* what is old goes between apply and count, and the lock is given up before and behind */
byte due;
#define PUSH(s,c) \
  :: d_step { NEXT(s,c) && !due -> step = STEP(s,c); printf("shard%d applies step %d\n", s, step); ROWS(s,step,0); due = 1+step; step = 0 } \
  :: d_step { NEXT(s,c) && due == 1+STEP(s,c) -> step = due-1; SAYS(s,step); v = sh[s].version + 1; SLICE(s); COUNT(s,step); due = 0; check(s); step = 0 }
#define LOST due = 0
#else
#define IN_ORDER(s,c,o) \
  :: UPDATE { NEXT(s,c) -> step = STEP(s,c); SAYS(s,step); ROWS(s,step,o); COUNT(s,step); SLICE(s); check(s); step = 0 }
#ifdef B_ORDER     /* ids come in any order */
#define PUSH(s,c) IN_ORDER(s,c,0) IN_ORDER(s,c,1)
#else
#define PUSH(s,c) IN_ORDER(s,c,0)
#endif
#define LOST skip
#endif
#endif
#ifdef TWO         /* a file is written in one go */
#define WRITE(s) \
  :: d_step { sh[s].version != sh[s].fversion -> printf("shard%d: file of version %d\n", s, sh[s].version); \
     COPY(sh[s].file, sh[s].now); sh[s].fversion = sh[s].version }
#else
#define WRITE(s) \
  :: d_step { !sh[s].walk && sh[s].version != sh[s].fversion -> printf("shard%d: instant of version %d\n", s, sh[s].version); \
     sh[s].walk = 1; sh[s].at = sh[s].version; CPN(sh[s].out, sh[s].now, 0); CPN(sh[s].out, sh[s].now, 1) } \
  :: d_step { sh[s].walk == 1 || sh[s].walk == 2 -> p = sh[s].walk - 1; k = (ROW(s,p).id -> ROW(s,p).id - 1 : 0); \
     if :: ROW(s,p).id && !LATER(s,ROW(s,p)) && !sh[s].saved[k] -> CPR(sh[s].out.row[k], ROW(s,p)) :: else -> skip fi; sh[s].walk++ } \
  :: d_step { sh[s].walk == 3 || sh[s].walk == 4 -> k = sh[s].walk - 3; \
     if :: WAIT(s,k).n && !LATER(s,WAIT(s,k)) && !sh[s].saved[2+k] -> CPW(sh[s].out.wait[k], WAIT(s,k)) :: else -> skip fi; sh[s].walk++ } \
  :: d_step { sh[s].walk == 5 -> printf("shard%d: file of version %d\n", s, sh[s].at); \
     COPY(sh[s].file, sh[s].out); WAITING_TOO(s); sh[s].fversion = sh[s].at; UNWRITE(s) }
#endif
#ifdef B_WAITING   /* what waits is in no file */
#define WAITING_TOO(s) NILW(sh[s].file.wait[0]); NILW(sh[s].file.wait[1])
#else
#define WAITING_TOO(s) skip
#endif
#define UNWRITE(s) sh[s].walk = 0; sh[s].at = 0; ZERO(sh[s].out); \
  sh[s].saved[0] = 0; sh[s].saved[1] = 0; sh[s].saved[2] = 0; sh[s].saved[3] = 0
inline remember(s) {
  sh[s].wversion = sh[s].version; COPY(sh[s].was, sh[s].now); n = 0;
  if :: ROW(s,0).id == 2 || ROW(s,1).id == 1 -> CPR(sh[s].was.row[0], ROW(s,1)); CPR(sh[s].was.row[1], ROW(s,0)) :: else -> skip fi;
  do :: n < sh[s].version -> sh[s].wlog[n] = LOG(s,n); n++ :: else -> break od
}
inline load(s) {
  do
  :: sh[s].version > sh[s].fversion -> sh[s].version--; step = LOG(s,sh[s].version); LOG(s,sh[s].version) = 0; DONE(s,step) = DONE(s,step) - 1
  :: else -> break
  od;
  step = 0; COPY(sh[s].now, sh[s].file)
}
#define FALL(s) \
  :: d_step { falls < FALLS && sh[s].version -> falls++; printf("shard%d falls back to version %d\n", s, sh[s].fversion); \
     forget(s); remember(s); UNWRITE(s); LOST; load(s); check(s) } \
  :: d_step { falls && sh[s].version == sh[s].fversion && ROW(s,0).id < ROW(s,1).id -> printf("shard%d: in the other order\n", s); \
     CPR(r_, ROW(s,0)); CPR(ROW(s,0), ROW(s,1)); CPR(ROW(s,1), r_) }
/* writes first: the search finds what a file lacks sooner */
#define SHARD(s) WRITE(s) PUSH(s,1) PUSH(s,0) FALL(s)

/* ---- reads, and pushes of counted steps: neither changes anything */
#ifdef B_MAKE      /* a read makes the row */
#define READ(s,i) :: d_step { PLACE(s,i) == 2 && (!ROW(s,0).id || !ROW(s,1).id) -> printf("a read of id%d\n", i); \
  p = FREE(s); SAVEW(s,i); NILW(WAIT(s,i)); ROW(s,p).id = 1+i; ROW(s,p).changed = sh[s].version; ROW(s,p).value = FIRST(i) }
#else
#ifdef B_LOOK      /* a read counts for admission */
#define READ(s,i) :: d_step { PLACE(s,i) == 2 && WAIT(s,i).n < MIN -> printf("a read of id%d\n", i); SAVEW(s,i); WAIT(s,i).n++ }
#else
#define READ(s,i) :: d_step { HERE(s,i) -> p = PLACE(s,i); a = (p < 2 -> ROW(s,p).value : FIRST(i)); p = 0; a = 0 }
#endif
#endif
#ifdef B_DUP       /* a push of a counted step counts for admission */
#define REPEAT(s,t) :: d_step { CNT(s,t) && HAS(t,0) && PLACE(s,0) == 2 && WAIT(s,0).n < MIN -> printf("step %d again\n", t); SAVEW(s,0); WAIT(s,0).n++ }
#else
#define REPEAT(s,t)
#endif
active proctype others() {
end:
  do
  READ(0,0) READ(0,1) REPEAT(0,0) REPEAT(0,1) REPEAT(0,2) REPEAT(0,3)
#ifdef TWO
  READ(1,0) READ(1,1)
#endif
#ifdef B_THREAD
  :: d_step { v = sh[0].version; slice(0, 0); slice(0, 1) }
#endif
#ifdef B_WALL
  :: clock < 2 -> clock++
#endif
  od
}
init {
  do
  SHARD(0)
#ifdef TWO
  SHARD(1)
#endif
  :: else -> break
  od;
  assert(sh[0].version == K && sh[NS-1].version == K)                 /* LIVE */
}
