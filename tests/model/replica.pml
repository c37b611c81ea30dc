/* replica.pml - a shard with a replica on another psserver (docs/protocol.md, P1 to P7).
 *
 * Modelled: a coordinator, its journal, psservers 0 and 1, and workers that push a key, or two, to any psserver that answers, again and again. The
 * owner's psserver feeds the other one: an image, and then each push, in order. What is on its way of a feed may come late or never. Messages
 * between coordinator and psserver keep their order and are lost with either end. All interleavings of all actions are explored.
 *   begin       the coordinator gives the feed a number; the replica follows, and the owner feeds it. When the replica has all that the owner has
 *               answered, the owner answers nothing more that the replica lacks, and says so; then the journal has the replica in the set.
 *   leave       the owner misses acknowledgements, and asks; the journal takes the replica out of the set; then the owner goes on alone.
 *   promotion   the owner is lost, or is believed to be: the journal makes the replica the owner, with the memory of that feed; it ends the feed,
 *               says what it has, and is admitted under the next incarnation.
 *   cut         the owner writes a snapshot, and a cut names it (K7).
 * Faults: either psserver and the coordinator are killed at any time; the feed is cut, or an owner that lives is believed to be lost: it then
 * goes on hearing workers.
 *
 * Properties
 *   kept     assert at admit and at each answer: a key that was answered "counted" is in the memory that is admitted, as long as the owner or a
 *            replica in the set has lived since, or it is in the file (a hello that comes late may have an owner load anew: then it has not lived)
 *   told     assert at admit: what was a replica has what it said when it was placed, and no more
 *   cut      assert at admit: all that the last cut holds is in the memory that is admitted
 *   goes on  no end but the one where the owner has counted and answered all keys
 *
 * With -DFOLLOW the owner answers at once, so a replica may lack what was answered (P6). A worker pushes what the coordinator does not believe to
 * be counted (C1, C3). In place of "kept":
 *   counted  assert at admit: what the coordinator believes to be counted is in the memory that is admitted (C2)
 *   fed      assert at the end: the owner still has the feed of a replica in the set, so it will miss it when it is gone
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef KILLS
#define KILLS 2
#endif
#ifndef FEEDS
#define FEEDS 2
#endif
#ifndef SNAPS
#define SNAPS 1
#endif
#ifndef ALL
#define ALL 1                           /* keys: 1, or 3 for two */
#endif
#define IMAGE 4                         /* of what a replica has acknowledged: the image */
mtype = { PLACE, EXPECT, FEED, OUT, ADMIT, REFUSE, RELOAD, HELLO, FOLLOWING, READY, GONE };
mtype = { NONE, LOADED, OPEN, FOLLOWS, ENDED };
mtype = { FREE, FED, WAITS, BOUND, ASKED };

chan down0 = [10] of { mtype, byte }; chan down1 = [10] of { mtype, byte };
chan up0 = [10] of { mtype, byte, byte }; chan up1 = [10] of { mtype, byte, byte };

/* the journal */
bit owner; byte newest;
byte inset, from;                       /* feeds: whose replica is in the set, and whose memory the owner had at its promotion; 0: none */
byte cut_set, cut_tag;
/* the coordinator's memory */
byte next = 1;                          /* number of the next feed: rises over restarts, as it has the term in it */
byte begun; bit placed;                 /* begun: the feed that is not in the set yet; placed: the owner was told */
/* psservers: what a memory has counted, the snapshot that it is not older than, and its incarnation */
mtype st[2] = NONE; byte set[2]; byte tag[2]; byte inc[2];
/* of an owner */
mtype mode[2] = FREE; byte feed[2]; byte acked[2]; byte mark[2];
/* of a replica */
byte follows[2]; bit has[2]; byte said[2];
/* the feed, by its source: what is on its way there, and back */
byte wire[2]; byte wire_set[2]; byte wire_tag[2]; byte back[2];
/* the newest file */
byte file_set, file_tag;
/* ghosts */
byte answered;                          /* with FOLLOW: what the coordinator believes to be counted */
bit lost; byte had; byte kills; byte feeds; byte snaps;
#ifdef B_JOURNAL
bit ahead;                              /* the coordinator is killed before it writes what it has sent */
#endif

#define T (1 - owner)
#define SEND(i, m, n) if :: i == 0 -> down0!m(n) :: else -> down1!m(n) fi
#define SAY(i, m, a, b) if :: i == 0 -> up0!m(a, b) :: else -> up1!m(a, b) fi
#define ROOM (len(down0) < 6 && len(down1) < 6)
#define SPEAKS(i) ((i == 0 && len(up0) < 8) || (i == 1 && len(up1) < 8))
#define QUIET (len(down0) == 0 && len(down1) == 0 && len(up0) == 0 && len(up1) == 0)
/* A copy lives that has all that was answered. */
#define LIVES (st[owner] == OPEN || (from != 0 && follows[owner] == from) || (inset != 0 && follows[T] == inset))

inline alone(i_) { mode[i_] = FREE; feed[i_] = 0; acked[i_] = 0; mark[i_] = 0; back[i_] = 0 }
inline drop(i_) {
  st[i_] = NONE; set[i_] = 0; tag[i_] = 0; inc[i_] = 0; follows[i_] = 0; has[i_] = 0; said[i_] = 0;
  alone(i_)
}
inline load(i_) { drop(i_); st[i_] = LOADED; set[i_] = file_set; tag[i_] = file_tag }
#ifdef FOLLOW
inline grieve() { had = 0 }
#define KEPT(i, keys) 1
#define COUNTED(i) ((answered & ~set[i]) == 0)
#define FED (inset == 0 || feed[owner] == inset)
#else
inline grieve() { if :: ((answered | had) & ~file_set) != 0 && !LIVES -> lost = 1 :: else fi; had = 0 }
#define KEPT(i, keys) (lost || ((keys) & ~set[i]) == 0)
#define COUNTED(i) 1
#define FED 1
#endif
/* The evidence about the owner becomes what its hello says (C2); it is heard before the owner does anything else. */
inline believe(i_) {
#ifdef FOLLOW
#ifdef B_EVIDENCE   /* a replica is believed to have all that was answered */
  if :: from == 0 -> answered = set[i_] :: else -> answered = answered | set[i_] fi
#else
  answered = set[i_]
#endif
#else
  skip
#endif
}
inline hello(i_) {
  if
  :: st[i_] == LOADED || st[i_] == ENDED -> SAY(i_, HELLO, 0, tag[i_])
  :: st[i_] == OPEN ->
    SAY(i_, HELLO, inc[i_], 0);
    if
    :: mode[i_] == BOUND -> SAY(i_, READY, feed[i_], 0)
    :: mode[i_] == ASKED -> SAY(i_, GONE, feed[i_], 0)
    :: else
    fi
  :: st[i_] == FOLLOWS -> SAY(i_, FOLLOWING, follows[i_], 0)
  :: else
  fi
}

inline misses(s_) {
  SAY(s_, GONE, feed[s_], 0);
#ifdef B_ALONE      /* the source goes on alone by itself */
  alone(s_)
#else
  if
  :: mode[s_] == BOUND -> mode[s_] = ASKED
  :: else -> alone(s_)
  fi
#endif
}

/* One message from the coordinator to psserver i_. */
inline take(i_, m_, n_) {
  if
  :: m_ == PLACE ->
    if
    :: st[i_] == FOLLOWS && has[i_] && follows[i_] == n_ -> st[i_] = ENDED; said[i_] = set[i_]
    :: st[i_] == NONE || (st[i_] == FOLLOWS && !(has[i_] && follows[i_] == n_)) -> load(i_)
    :: else
    fi;
    hello(i_)
  :: m_ == RELOAD ->                    /* of an older hello, perhaps: what was loaded since will do, and its hello is on its way */
    if
    :: (st[i_] == LOADED || st[i_] == ENDED) && tag[i_] >= n_
    :: else -> had = set[i_]; load(i_); grieve(); hello(i_)
    fi
  :: m_ == EXPECT -> drop(i_); st[i_] = FOLLOWS; follows[i_] = n_
  :: m_ == FEED ->
    if
    :: st[i_] == OPEN && mode[i_] == FREE -> mode[i_] = FED; feed[i_] = n_
    :: else -> SAY(i_, GONE, n_, 0)
    fi
  :: m_ == OUT ->
    if
#ifdef B_OLD        /* the word about an older feed will do */
    :: feed[i_] != 0 -> alone(i_)
#else
    :: feed[i_] == n_ && n_ != 0 -> alone(i_)
#endif
    :: else
    fi
  :: m_ == ADMIT ->
    if
    :: st[i_] == LOADED || st[i_] == ENDED ->
      assert(st[i_] == LOADED || said[i_] == set[i_]);                              /* TOLD */
      assert((cut_set & ~set[i_]) == 0);                                            /* CUT */
      assert(KEPT(i_, answered));                                                   /* KEPT */
      assert(COUNTED(i_));                                                          /* COUNTED */
      st[i_] = OPEN; inc[i_] = n_; follows[i_] = 0; has[i_] = 0; said[i_] = 0
    :: st[i_] == OPEN && n_ > inc[i_] -> inc[i_] = n_; if :: feed[i_] != 0 -> misses(i_) :: else fi
    :: else
    fi
  :: m_ == REFUSE -> drop(i_)
  fi
}

/* The journal takes the replica out of the set. */
inline leave() {
  if
  :: inset != 0 ->
    SEND(T, REFUSE, 0); SEND(owner, OUT, inset);
#ifdef B_JOURNAL    /* the owner is told before the journal has it */
    if :: inset = 0 :: kills < KILLS -> kills++; ahead = 1 fi
#else
    inset = 0
#endif
  :: else
  fi
}
/* The journal makes the replica the owner. */
inline promote() {
  SEND(owner, REFUSE, 0);
  owner = T; from = inset; inset = 0; begun = 0; placed = 1;
  SEND(owner, PLACE, from)
}

/* One message from psserver i_ to the coordinator. */
inline hear(i_, m_, a_, b_) {
  if
  :: m_ == HELLO && i_ != owner -> SEND(i_, REFUSE, 0)
  :: m_ == HELLO && i_ == owner && a_ == 0 ->
    if
#ifndef B_ANEW      /* an owner without its memory is admitted beside a replica that has it */
    :: inset != 0 -> promote()
    :: inset == 0 && b_ >= cut_tag ->
#else
    :: b_ >= cut_tag ->
#endif
      newest++; begun = 0; believe(i_); SEND(i_, ADMIT, newest)
#ifdef B_CUT        /* what the last cut holds is not asked */
    :: inset == 0 && b_ < cut_tag -> newest++; begun = 0; believe(i_); SEND(i_, ADMIT, newest)
#else
    :: inset == 0 && b_ < cut_tag -> SEND(i_, RELOAD, cut_tag)
#endif
    fi
  :: m_ == HELLO && i_ == owner && a_ > 0 && a_ == newest -> believe(i_); SEND(i_, ADMIT, a_)
  :: m_ == HELLO && i_ == owner && a_ > 0 && a_ != newest -> SEND(i_, RELOAD, cut_tag)
  :: m_ == FOLLOWING ->
    if
    :: i_ == T && a_ == inset
    :: i_ == T && a_ != inset -> SEND(i_, REFUSE, 0)
    :: i_ != T
    fi
  :: m_ == READY && i_ == owner ->
    if
    :: a_ == begun -> inset = a_; begun = 0
    :: a_ == inset && a_ != begun
    :: else -> SEND(i_, OUT, a_)
    fi
  :: m_ == GONE && i_ == owner ->
    if
    :: a_ == inset -> leave()
    :: a_ == begun && a_ != inset -> begun = 0; SEND(T, REFUSE, 0); SEND(i_, OUT, a_)
    :: else -> SEND(i_, OUT, a_)
    fi
  :: (m_ == READY || m_ == GONE) && i_ != owner -> SEND(i_, REFUSE, 0)
  fi
}

/* The coordinator is killed, and attends to both again: they say what they have. */
inline die() {
  begun = 0; placed = 0;
#ifdef FOLLOW
  answered = 0;
#endif
#ifdef B_FORGET     /* the set is in its memory alone */
  inset = 0;
#endif
#ifdef B_FROM       /* that the owner has the memory of a feed is in its memory alone */
  from = 0;
#endif
  do :: down0?_, _ :: down1?_, _ :: up0?_, _, _ :: up1?_, _, _ :: QUIET -> break od;
  hello(0); hello(1)
}

/* A psserver is killed. Its memory goes, and what it was sent; the coordinator learns of it. */
inline kill(i_) {
  had = set[i_]; drop(i_);
  grieve();
  if
  :: i_ == 0 -> do :: down0?_, _ :: up0?_, _, _ :: len(down0) == 0 && len(up0) == 0 -> break od
  :: else -> do :: down1?_, _ :: up1?_, _, _ :: len(down1) == 0 && len(up1) == 0 -> break od
  fi;
  if
  :: i_ == owner -> placed = 0; begun = 0; if :: inset != 0 -> promote() :: else fi
  :: else -> begun = 0; leave()
  fi
}

#define MAY(i, k) (st[i] == OPEN && (set[i] & (1 << k)) != 0 && (answered & (1 << k)) == 0 && TELLS(i, k))
#ifdef FOLLOW
#define TELLS(i, k) (i == owner && inc[i] == newest) /* C1 believes no other one */
#else
#define TELLS(i, k) (FREELY(i) || (acked[i] & (1 << k)) != 0)
#endif
#ifdef B_EARLY      /* it is answered before the replica has it */
#define FREELY(i) (mode[i] != ASKED)
#else
#define FREELY(i) (mode[i] == FREE || mode[i] == FED)
#endif
inline answer(i_, k_) {
  answered = answered | (1 << k_);
  assert(i_ == owner || st[owner] != OPEN || KEPT(owner, 1 << k_))                  /* KEPT */
}
/* Of what the source has, more is sent; of what is on its way, more arrives. */
inline arrives(s_, t_) {
  if
  :: wire[s_] == follows[t_] && st[t_] == FOLLOWS ->
    set[t_] = wire_set[s_]; has[t_] = 1;
#ifdef B_TAG        /* the tag comes ahead of the operations before it */
    tag[t_] = tag[s_];
#else
    tag[t_] = wire_tag[s_];
#endif
    if :: wire[s_] == feed[s_] -> back[s_] = set[t_] | IMAGE :: else fi
#ifdef B_FENCE      /* a feed goes on after its end */
  :: wire[s_] == follows[t_] && st[t_] == ENDED -> set[t_] = wire_set[s_]
#endif
  :: else
  fi;
  wire[s_] = 0; wire_set[s_] = 0; wire_tag[s_] = 0
}
#ifdef FOLLOW
#define PUSHED(i) (st[i] == OPEN && set[i] != ALL && ((2 * set[i] + 1) & ~set[i] & ~answered) != 0)
#else
#define PUSHED(i) (st[i] == OPEN && set[i] != ALL)
#endif
byte m1, m2; mtype mt;
inline clear() { m1 = 0; m2 = 0; mt = FREE }

init {
  do
  :: atomic { !placed && ROOM -> placed = 1; SEND(owner, PLACE, from) }
  :: atomic { PUSHED(0) -> set[0] = 2 * set[0] + 1 }
  :: atomic { PUSHED(1) -> set[1] = 2 * set[1] + 1 }
  :: atomic { MAY(0, 0) -> answer(0, 0) }
  :: atomic { MAY(0, 1) -> answer(0, 1) }
  :: atomic { MAY(1, 0) -> answer(1, 0) }
  :: atomic { MAY(1, 1) -> answer(1, 1) }
  :: atomic { begun == 0 && inset == 0 && feeds < FEEDS && st[owner] == OPEN && ROOM ->
      feeds++; begun = next; next++; SEND(T, EXPECT, begun); SEND(owner, FEED, begun) }
  /* the feed: sent, applied, acknowledged */
  :: atomic { st[0] == OPEN && feed[0] != 0 && mode[0] != ASKED && back[0] != (set[0] | IMAGE) && acked[0] != (set[0] | IMAGE) ->
      wire[0] = feed[0]; wire_set[0] = set[0]; wire_tag[0] = tag[0] }
  :: atomic { st[1] == OPEN && feed[1] != 0 && mode[1] != ASKED && back[1] != (set[1] | IMAGE) && acked[1] != (set[1] | IMAGE) ->
      wire[1] = feed[1]; wire_set[1] = set[1]; wire_tag[1] = tag[1] }
  :: atomic { wire[0] != 0 -> arrives(0, 1) }
  :: atomic { wire[1] != 0 -> arrives(1, 0) }
  :: atomic { back[0] != 0 -> acked[0] = back[0]; back[0] = 0 }
  :: atomic { back[1] != 0 -> acked[1] = back[1]; back[1] = 0 }
  /* what was answered freely is marked, and from then on nothing is */
  :: atomic { st[0] == OPEN && mode[0] == FED && acked[0] != 0 -> mode[0] = WAITS; mark[0] = set[0] }
  :: atomic { st[1] == OPEN && mode[1] == FED && acked[1] != 0 -> mode[1] = WAITS; mark[1] = set[1] }
#ifdef B_READY      /* it is said before the replica has what was answered */
#define HAS(i) (acked[i] != 0)
#else
#define HAS(i) ((mark[i] & ~acked[i]) == 0)
#endif
  :: atomic { st[0] == OPEN && mode[0] == WAITS && HAS(0) && SPEAKS(0) -> mode[0] = BOUND; mark[0] = 0; SAY(0, READY, feed[0], 0) }
  :: atomic { st[1] == OPEN && mode[1] == WAITS && HAS(1) && SPEAKS(1) -> mode[1] = BOUND; mark[1] = 0; SAY(1, READY, feed[1], 0) }
  /* acknowledgements that are missed: without a fault if nobody follows */
  :: atomic { feed[0] != 0 && mode[0] != ASKED && SPEAKS(0) && (follows[1] != feed[0] || st[1] != FOLLOWS) -> misses(0) }
  :: atomic { feed[1] != 0 && mode[1] != ASKED && SPEAKS(1) && (follows[0] != feed[1] || st[0] != FOLLOWS) -> misses(1) }
  :: atomic { feed[0] != 0 && mode[0] != ASKED && SPEAKS(0) && kills < KILLS -> kills++; misses(0) }
  :: atomic { feed[1] != 0 && mode[1] != ASKED && SPEAKS(1) && kills < KILLS -> kills++; misses(1) }
  /* the coordinator believes that the owner is lost */
  :: atomic { inset != 0 && ROOM && kills < KILLS -> kills++; promote() }
  :: atomic { snaps < SNAPS && st[owner] == OPEN && inc[owner] == newest ->
      snaps++; tag[owner] = snaps; file_set = set[owner]; file_tag = snaps; cut_set = file_set; cut_tag = file_tag }
  :: atomic { nempty(down0) && SPEAKS(0) -> down0?mt(m1) -> take(0, mt, m1); clear() }
  :: atomic { nempty(down1) && SPEAKS(1) -> down1?mt(m1) -> take(1, mt, m1); clear() }
  :: atomic { nempty(up0) && ROOM -> up0?mt(m1, m2) -> hear(0, mt, m1, m2); clear() }
  :: atomic { nempty(up1) && ROOM -> up1?mt(m1, m2) -> hear(1, mt, m1, m2); clear() }
  :: atomic { kills < KILLS && ROOM && st[0] != NONE -> kills++; kill(0) }
  :: atomic { kills < KILLS && ROOM && st[1] != NONE -> kills++; kill(1) }
  :: atomic { kills < KILLS -> kills++; die() }
#ifdef B_JOURNAL
  :: atomic { ahead -> ahead = 0; die() }
#endif
  :: atomic { QUIET && st[owner] == OPEN && set[owner] == ALL && answered == ALL && inc[owner] == newest ->
      assert(FED); break }                                                          /* FED */
  od
}
