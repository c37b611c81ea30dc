/* move.pml - a shard that moves from one psserver to another (docs/protocol.md, M1 to M5).
 *
 * Modelled: a coordinator, its journal, psservers 0 and 1 with one store, and a worker that pushes two keys to the psserver that it believes to
 * be the owner, again and again: answers get lost, keys come twice. All interleavings of all actions are explored. Messages between coordinator
 * and psserver keep their order and are lost with either end.
 *   move        the owner writes a snapshot, the other one prepares: it loads it; the owner is asked for its last snapshot, for which it stops;
 *               the journal names the other one; that loads anew, and is admitted under the next incarnation.
 *   feed        of the same snapshot the owner begins a log; when the other one has loaded that, the owner sends what it did since, operation
 *               by operation, stops, and sends the end; when it hears that the other one has done all, it tells the coordinator; the journal
 *               names the other one, which is admitted as it is. Calls are late, and come when nobody waits for them any more.
 *   give up     of a move, at any time before the journal names the other one.
 * Faults: either psserver and the coordinator are killed at any time.
 *
 * Properties
 *   one      assert at admit: no two memories were admitted under one incarnation
 *   once     assert at push: a memory that has counted a key has applied it once, and else not
 *   kept     assert at admit: a key that was answered "counted" is in the set of the admitted memory, unless the owner was killed with
 *            keys that were in no file, or told to load anew since a newer number was committed and its admission lost with the coordinator
 *   goes on  no end but the one where the owner has counted all keys
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef KILLS
#define KILLS 2
#endif
#ifndef MOVES
#define MOVES 2
#endif
#define ALL 3
mtype = { PLACE, PREPARE, ADMIT, REFUSE, RELOAD, SNAP, LAST, WANTED, FEED, HELLO, PREPARED, REPORT, ENDED };
mtype = { NONE, LOADED, OPEN };

chan down0 = [5] of { mtype, byte }; chan down1 = [5] of { mtype, byte };
chan up0 = [5] of { mtype, byte, byte }; chan up1 = [5] of { mtype, byte, byte };
chan call0 = [1] of { byte, byte, byte }; chan call1 = [1] of { byte, byte, byte };     /* to psserver 0, 1: order, number, key or end */

/* the journal */
bit owner; byte newest;
/* the coordinator's memory */
byte phase;                             /* 0: no move; 1: the base is written; 2: the target prepares; 3: the last snapshot is awaited; 4: it is fed */
byte request;                           /* number of the move: rises over restarts, as it has the term in it */
bit placed;                             /* the owner was asked to load */
/* psservers */
mtype st[2] = NONE; byte set[2]; byte val0[2]; byte val1[2]; byte inc[2]; byte bore[2]; bit handed[2]; bit ready[2];
/* of a feed: the order, records in the log, their keys, how many are sent and acknowledged; of a follower: order, operations, the end was seen */
byte fo[2]; byte ln[2]; byte k1[2]; byte k2[2]; byte k3[2]; byte sent[2]; byte done[2]; bit ends[2]; bit act[2];
byte fl[2]; byte did[2]; bit whole[2];
/* the newest file */
byte file_inc; byte file_set;
/* ghosts */
byte answered; bit lost; byte named[12]; byte life[2]; byte lives = 1; byte kills; byte moves;
#ifdef B_DURABLE
byte unwritten = 9;                     /* B_DURABLE: the psserver whose last file is not durable yet */
#endif
#ifdef B_NUMBER
bit ahead;                              /* the coordinator is killed before it writes what it has sent */
#endif

#define END 9
#ifdef B_ORDER      /* the operations of another order will do */
#define OURS(i, o) (fl[i] != 0)
#else
#define OURS(i, o) (o == fl[i])
#endif
#ifdef B_STALE      /* the answer to an older preparation will do */
#define STALE(o) 0
#else
#define STALE(o) (o != request)
#endif
#ifdef B_INSTANT    /* the log begins behind the instant of the snapshot */
#define BEGUN(i, o) (fo[i] == 0)
#else
#define BEGUN(i, o) (fo[i] == o)
#endif
#define T (1 - owner)
#define SEND(i, m, n) if :: i == 0 -> down0!m(n) :: else -> down1!m(n) fi
#define SAY(i, m, a, b) if :: i == 0 -> up0!m(a, b) :: else -> up1!m(a, b) fi
#define ROOM (len(down0) < 4 && len(down1) < 4)
#define SPEAKS(i) ((i == 0 && len(up0) < 4) || (i == 1 && len(up1) < 4))
#define QUIET (len(down0) == 0 && len(down1) == 0 && len(up0) == 0 && len(up1) == 0)

/* Its memory goes, and what was in no file. */
inline forget(i_) { if :: i_ == owner && (set[i_] & ~file_set) != 0 -> lost = 1 :: else fi }
inline unfeed(i_) { fo[i_] = 0; ln[i_] = 0; k1[i_] = 0; k2[i_] = 0; k3[i_] = 0; sent[i_] = 0; done[i_] = 0; ends[i_] = 0; act[i_] = 0 }
inline log(i_, k_) {
  if
  :: fo[i_] != 0 && !ends[i_] ->
    ln[i_]++;
    if :: ln[i_] == 1 -> k1[i_] = k_ :: ln[i_] == 2 -> k2[i_] = k_ :: else -> k3[i_] = k_ fi;
    if :: k_ == END -> ends[i_] = 1 :: else fi
  :: else
  fi
}
inline load(i_) {
  unfeed(i_); fl[i_] = 0; did[i_] = 0; whole[i_] = 0;
  st[i_] = LOADED; set[i_] = file_set; val0[i_] = file_set & 1; val1[i_] = file_set >> 1; inc[i_] = 0; handed[i_] = 0;
  life[i_] = lives; lives++
}
inline drop(i_) { unfeed(i_); fl[i_] = 0; did[i_] = 0; whole[i_] = 0; st[i_] = NONE; set[i_] = 0; val0[i_] = 0; val1[i_] = 0; inc[i_] = 0; handed[i_] = 0; ready[i_] = 0; life[i_] = 0 }
inline write(i_) { if :: inc[i_] >= file_inc -> file_inc = inc[i_]; file_set = set[i_] :: else fi }
inline hello(i_) {
  if
  :: ready[i_] -> SAY(i_, PREPARED, fl[i_], 0)
  :: !ready[i_] && st[i_] == LOADED -> SAY(i_, HELLO, 0, 0)
  :: !ready[i_] && st[i_] == OPEN -> SAY(i_, HELLO, inc[i_], 0)
  :: else
  fi
}

/* One message from the coordinator to psserver i_. */
inline take(i_, m_, n_) {
  if
  :: m_ == PLACE ->
    if
#ifdef B_EARLY      /* what was prepared is shown as if it were all */
    :: st[i_] == LOADED -> ready[i_] = 0
#endif
    :: st[i_] == OPEN
    :: st[i_] == LOADED && ready[i_] && whole[i_] -> ready[i_] = 0
    :: st[i_] == LOADED && !ready[i_] && (file_set & ~set[i_]) == 0
    :: else -> ready[i_] = 0; load(i_)
    fi;
    hello(i_)
  :: m_ == PREPARE ->
    forget(i_); load(i_); ready[i_] = 1; fl[i_] = n_; hello(i_)
  :: m_ == ADMIT ->
    if
    :: st[i_] == LOADED && !ready[i_] && n_ > bore[i_] ->
      st[i_] = OPEN; inc[i_] = n_; bore[i_] = n_; fl[i_] = 0; did[i_] = 0; whole[i_] = 0;
      assert(named[n_] == 0 || named[n_] == life[i_]); named[n_] = life[i_];        /* ONE */
      assert(lost || (answered & ~set[i_]) == 0)                                    /* KEPT */
    :: st[i_] == OPEN && n_ >= inc[i_] ->
#ifndef B_FEEDS     /* it feeds on, and stops some time, although its move is over */
      unfeed(i_);
#endif
      handed[i_] = 0;
      assert(named[n_] == 0 || named[n_] == life[i_]); named[n_] = life[i_]; inc[i_] = n_
    :: else
    fi
  :: m_ == REFUSE -> drop(i_)
  :: m_ == RELOAD -> forget(i_); load(i_); hello(i_)
  :: m_ == WANTED -> if :: st[i_] == OPEN -> hello(i_) :: else fi
  :: m_ == SNAP ->
    if
    :: st[i_] == OPEN -> write(i_); unfeed(i_);
#ifndef B_INSTANT
      fo[i_] = n_;
#endif
      SAY(i_, REPORT, n_, 0)
    :: else
    fi
  :: m_ == FEED ->
    if
    :: st[i_] == OPEN && !handed[i_] && BEGUN(i_, n_) -> fo[i_] = n_; act[i_] = 1
    :: else -> SAY(i_, ENDED, n_, 1)
    fi
  :: m_ == LAST ->
    if
    :: st[i_] == OPEN ->
#ifndef B_ANSWERS   /* the source goes on answering */
      handed[i_] = 1;
#endif
#ifdef B_DURABLE    /* the file is reported before it is durable */
      unwritten = i_;
#else
      write(i_);
#endif
      SAY(i_, REPORT, n_, 1)
    :: else
    fi
  fi
}

inline give_up() {
  if :: phase >= 3 -> SEND(owner, WANTED, 0) :: else fi;
  if :: phase >= 2 -> SEND(T, REFUSE, 0) :: else fi;
  phase = 0
}

/* One message from psserver i_ to the coordinator. */
inline hear(i_, m_, a_, b_) {
  if
#ifdef B_LATE       /* an old hello of the target is refused, and the move goes on */
  :: m_ == HELLO && i_ != owner -> SEND(i_, REFUSE, 0)
#else
  :: m_ == HELLO && i_ != owner -> if :: phase >= 2 -> give_up() :: else -> SEND(i_, REFUSE, 0) fi
#endif
  :: m_ == HELLO && i_ == owner && a_ == 0 ->
    if :: phase > 0 -> give_up() :: else fi;
#ifdef B_NUMBER     /* the incarnation is sent before it is in the journal */
    SEND(i_, ADMIT, newest + 1);
    if :: newest++ :: kills < KILLS -> kills++; ahead = 1 fi
#else
    newest++; SEND(i_, ADMIT, newest)
#endif
  :: m_ == HELLO && i_ == owner && a_ == newest && a_ > 0 ->
#ifdef B_FORGET     /* who stopped for a move is not set going by a coordinator that does not know of it */
    if :: handed[i_] && phase == 0 :: else -> SEND(i_, ADMIT, a_) fi
#else
#ifndef B_RENEW     /* the source is renewed while its last snapshot is awaited */
    if :: phase >= 3 -> phase = 0; SEND(T, REFUSE, 0) :: else fi;
#endif
    SEND(i_, ADMIT, a_)
#endif
  :: m_ == HELLO && i_ == owner && a_ > 0 && a_ != newest -> SEND(i_, RELOAD, 0)
  :: m_ == PREPARED && i_ == T && phase == 2 && STALE(a_)
  :: m_ == PREPARED && i_ == T && phase == 2 && !STALE(a_) ->
    if
    :: phase = 3; SEND(owner, LAST, request)
    :: phase = 4; SEND(owner, FEED, request)
    fi
  :: m_ == PREPARED && i_ == T && phase < 2 -> SEND(i_, REFUSE, 0)
  :: m_ == PREPARED && i_ == T && phase > 2
  :: m_ == PREPARED && i_ == owner
  :: m_ == REPORT && b_ == 0 ->
    if :: phase == 1 && a_ == request && i_ == owner -> phase = 2; SEND(T, PREPARE, request) :: else fi
  :: m_ == REPORT && b_ == 1 ->
    if
#ifdef B_OLD        /* the last snapshot of a move that was given up will do */
    :: phase > 0 && i_ == owner ->
#else
    :: phase == 3 && a_ == request && i_ == owner ->
#endif
      phase = 0; SEND(owner, REFUSE, 0);
      owner = T; SEND(owner, PLACE, 0); placed = 1
    :: else
    fi
  :: m_ == ENDED && b_ == 1 -> if :: phase == 4 && a_ == request && i_ == owner -> give_up() :: else fi
  :: m_ == ENDED && b_ == 0 ->
    if
#ifdef B_OLDEND     /* the end of a feed that was given up will do */
    :: i_ == owner ->
#else
    :: phase == 4 && a_ == request && i_ == owner ->
#endif
      phase = 0; SEND(owner, REFUSE, 0);
      owner = T; SEND(owner, PLACE, 0); placed = 1
    :: else
    fi
  fi
}

/* The source sends the next operation, or stops and logs the end. */
inline feed(i_) {
  if
  :: sent[i_] < ln[i_] && sent[i_] == done[i_] ->
    sent[i_]++;
    if
    :: i_ == 0 -> call1!fo[0], sent[0], (sent[0] == 1 -> k1[0] : (sent[0] == 2 -> k2[0] : k3[0]))
    :: else -> call0!fo[1], sent[1], (sent[1] == 1 -> k1[1] : (sent[1] == 2 -> k2[1] : k3[1]))
    fi
  :: !ends[i_] ->
#ifndef B_SERVES    /* it goes on serving behind the end */
    handed[i_] = 1;
#endif
    log(i_, END)
  fi
}

/* A call comes to follower i_, perhaps late; its source hears the answer, if it still waits for that. */
inline follow(i_, o_, n_, k_) {
  if
  :: st[i_] == LOADED && ready[i_] && n_ == did[i_] + 1 && !whole[i_] && OURS(i_, o_) ->
    did[i_]++;
    if
    :: k_ == END -> whole[i_] = 1; assert(fo[1 - i_] != o_ || set[i_] == set[1 - i_])                                   /* SAME */
    :: k_ == 0 -> set[i_] = set[i_] | 1; val0[i_]++
    :: k_ == 1 -> set[i_] = set[i_] | 2; val1[i_]++
    fi;
    assert(val0[i_] == (set[i_] & 1) && val1[i_] == (set[i_] >> 1));                /* ONCE */
    if
    :: act[1 - i_] && fo[1 - i_] == o_ && sent[1 - i_] == n_ ->
      done[1 - i_] = n_;
      if :: k_ == END -> act[1 - i_] = 0; SAY(1 - i_, ENDED, o_, 0) :: else fi
    :: else
    fi;
#ifdef B_HALF       /* the first answer is taken for that to the end */
    if :: act[1 - i_] && fo[1 - i_] == o_ && k_ != END -> act[1 - i_] = 0; handed[1 - i_] = 1; SAY(1 - i_, ENDED, o_, 0) :: else fi;
#endif
    skip
  :: else ->
    if :: act[1 - i_] && fo[1 - i_] == o_ -> act[1 - i_] = 0; SAY(1 - i_, ENDED, o_, 1) :: else fi
  fi
}

/* The coordinator is killed, and attends to both again: they say what they have. */
inline die() {
  phase = 0; request++; placed = 0;
  do :: down0?_, _ :: down1?_, _ :: up0?_, _, _ :: up1?_, _, _ :: QUIET -> break od;
  hello(0); hello(1)
}

inline kill(i_) {
  forget(i_); drop(i_); bore[i_] = 0;
  if
  :: i_ == 0 -> do :: down0?_, _ :: up0?_, _, _ :: len(down0) == 0 && len(up0) == 0 -> break od
  :: else -> do :: down1?_, _ :: up1?_, _, _ :: len(down1) == 0 && len(up1) == 0 -> break od
  fi;
  /* calls to it are lost, and its own may come all the same; the other end hears nothing more */
  if :: i_ == 0 -> do :: call0?_, _, _ :: empty(call0) -> break od :: else -> do :: call1?_, _, _ :: empty(call1) -> break od fi;
  if :: act[1 - i_] && SPEAKS(1 - i_) -> act[1 - i_] = 0; SAY(1 - i_, ENDED, fo[1 - i_], 1) :: else fi;
#ifdef B_DURABLE
  if :: unwritten == i_ -> unwritten = 9 :: else fi;
#endif
  if :: phase > 0 -> give_up() :: else fi;
  if :: i_ == owner -> placed = 0 :: else fi
}

/* Key k_ comes to psserver i_, under the incarnation that it has; the answer may get lost. */
inline push(i_, k_) {
  if
  :: (set[i_] & (1 << k_)) == 0 ->
    set[i_] = set[i_] | (1 << k_); log(i_, k_);
    if :: k_ == 0 -> val0[i_]++ :: else -> val1[i_]++ fi
  :: else
  fi;
  assert(val0[i_] == (set[i_] & 1) && val1[i_] == (set[i_] >> 1));                  /* ONCE */
  if :: inc[i_] == newest && i_ == owner -> answered = answered | (1 << k_) :: skip fi
}

byte m1, m2, m3; mtype mt;

init {
  do
  :: atomic { !placed && len(down0) == 0 && len(down1) == 0 -> placed = 1; SEND(owner, PLACE, 0) }
  :: atomic { st[0] == OPEN && !handed[0] && set[0] != ALL -> push(0, 0) }
  :: atomic { st[0] == OPEN && !handed[0] && set[0] != ALL -> push(0, 1) }
  :: atomic { st[1] == OPEN && !handed[1] && set[1] != ALL -> push(1, 0) }
  :: atomic { st[1] == OPEN && !handed[1] && set[1] != ALL -> push(1, 1) }
  :: atomic { phase == 0 && moves < MOVES && st[owner] == OPEN && len(down0) == 0 && len(down1) == 0 -> moves++; request++; phase = 1; SEND(owner, SNAP, request) }
  :: atomic { phase > 0 && ROOM && kills < KILLS -> kills++; give_up() }
  :: atomic { nempty(down0) && SPEAKS(0) -> down0?mt(m1) -> take(0, mt, m1) }
  :: atomic { nempty(down1) && SPEAKS(1) -> down1?mt(m1) -> take(1, mt, m1) }
  :: atomic { act[0] && empty(call1) && (!ends[0] || sent[0] < ln[0]) && sent[0] == done[0] -> feed(0) }
  :: atomic { act[1] && empty(call0) && (!ends[1] || sent[1] < ln[1]) && sent[1] == done[1] -> feed(1) }
  :: atomic { nempty(call0) && SPEAKS(1) -> call0?m1, m2, m3 -> follow(0, m1, m2, m3) }
  :: atomic { nempty(call1) && SPEAKS(0) -> call1?m1, m2, m3 -> follow(1, m1, m2, m3) }
  :: atomic { nempty(up0) && ROOM -> up0?mt(m1, m2) -> hear(0, mt, m1, m2) }
  :: atomic { nempty(up1) && ROOM -> up1?mt(m1, m2) -> hear(1, mt, m1, m2) }
  :: atomic { kills < KILLS && ROOM && st[0] != NONE -> kills++; kill(0) }
  :: atomic { kills < KILLS && ROOM && st[1] != NONE -> kills++; kill(1) }
  :: atomic { kills < KILLS -> kills++; die() }
#ifdef B_DURABLE
  :: atomic { unwritten != 9 -> if :: st[unwritten] == OPEN -> write(unwritten) :: else fi; unwritten = 9 }
#endif
#ifdef B_NUMBER
  :: atomic { ahead -> ahead = 0; die() }
#endif
#ifdef B_TIMER      /* the source goes on by itself if it hears nothing */
  :: atomic { handed[0] -> handed[0] = 0 }
  :: atomic { handed[1] -> handed[1] = 0 }
#endif
  :: atomic { QUIET && phase == 0 && st[owner] == OPEN && !handed[owner] && set[owner] == ALL && inc[owner] == newest -> break }
  od
}
