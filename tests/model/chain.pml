/* chain.pml - snapshots of rows as a base and deltas (docs/protocol.md, T10).
 *
 * Modelled: a table with ids 0 and 1 on one shard, and up to FILES files. All interleavings of all actions are explored.
 *   change      a row comes to be or changes: its bytes are the version of the update. An id that waits is one more record, so it is not
 *               told apart from a row.
 *   evict       a row goes, in an update of its own. It may come back.
 *   snapshot    the instant, whose records are those of T6 (rows.pml), while updates go on; then the file is durable, or is not: the disk
 *               is full, or the process dies. A file whose parent is durable and known has what changed since the parent, and the ids that
 *               went; any other file has all rows.
 *   prune       all goes but the newest file that was reported, what is below it, and what is newer.
 *   fall        the shard is killed and loads the newest file that was reported, with all below it.
 *
 * Property: a file that was reported restores the rows of its instant: when it is reported, after each prune, and at each fall.
 * Broken variants -DB_... must fail: check.sh.
 */
#ifndef FILES
#define FILES 3
#endif
#ifndef STEPS
#define STEPS 4
#endif
#define NONE 255

typedef File {
  bit there; bit delta; byte parent; byte version;
  byte rec[2];                        /* version of the record; 0: the file has none */
  bit gone[2];
  byte whole[2]                       /* the rows at the instant, for the property alone */
};
File f[FILES];
byte row[2];                            /* version of the row; 0: there is none */
bit gone[2]; bit sealed[2];             /* went since the last instant; before it, and in no durable file yet */
byte version, files, parent = NONE, since, writing = NONE, newest = NONE, i, at, falls;
byte got[2]; bit known[2];

#ifdef B_ONE        /* a record changed by the update behind the parent's is not "since" */
#define CHANGED(v) ((v) > since + 1)
#else
#define CHANGED(v) ((v) > since)
#endif

inline restore(n) {
  got[0] = 0; got[1] = 0; known[0] = 0; known[1] = 0; at = n;
  do
  :: at == NONE -> break
  :: else ->
    assert(f[at].there);
    for (i : 0 .. 1) {
#ifdef B_BACK       /* an id that went has no row, although it came back */
      if :: !known[i] && f[at].gone[i] -> known[i] = 1 :: else fi;
#endif
      if :: !known[i] && f[at].rec[i] > 0 -> got[i] = f[at].rec[i]; known[i] = 1 :: else fi;
      if :: f[at].gone[i] -> known[i] = 1 :: else fi
    }
    at = (f[at].delta -> f[at].parent : NONE)
  od;
  assert(got[0] == f[n].whole[0] && got[1] == f[n].whole[1])
}

inline freeze() {
  f[files].delta = (parent != NONE); f[files].parent = parent; f[files].version = version;
  for (i : 0 .. 1) {
    f[files].whole[i] = row[i];
    f[files].rec[i] = ((parent == NONE || CHANGED(row[i])) -> row[i] : 0);
#ifndef B_GONE      /* the ids that went are in no file */
    f[files].gone[i] = (parent != NONE && gone[i]);
#endif
    sealed[i] = gone[i]; gone[i] = 0
  }
  writing = files; files++;
#ifdef B_DURABLE    /* the next file is a delta to this one, whether it is durable or not */
  parent = writing; since = version
#endif
}

inline durable() {
  f[writing].there = 1; newest = writing; parent = writing; since = f[writing].version;
  sealed[0] = 0; sealed[1] = 0;
#ifdef B_LATE       /* what went while the file was written is forgotten with it */
  gone[0] = 0; gone[1] = 0;
#endif
  restore(newest); writing = NONE
}

inline failed() {
#ifndef B_UNDO      /* what went before a file that is not durable is forgotten */
  gone[0] = gone[0] || sealed[0]; gone[1] = gone[1] || sealed[1];
#endif
  sealed[0] = 0; sealed[1] = 0;
#ifndef B_DURABLE
  if :: !f[writing].delta -> parent = NONE :: else fi;
#endif
  writing = NONE
}

inline prune() {
  got[0] = newest;                    /* the files that stay: a line down from the newest */
  for (at : 0 .. FILES - 1) {
    i = newest;
    do
    :: i == at || i == NONE -> break
#ifdef B_PRUNE      /* what is below the newest goes with the rest */
    :: else -> i = NONE
#else
    :: else -> i = (f[i].delta -> f[i].parent : NONE)
#endif
    od;
    if :: at < newest && i == NONE -> f[at].there = 0 :: else fi
  }
  restore(newest)
}

inline fall() {
  restore(newest);
  row[0] = got[0]; row[1] = got[1]; version = f[newest].version; writing = NONE;
  gone[0] = 0; gone[1] = 0; sealed[0] = 0; sealed[1] = 0;
  parent = NONE;
  falls++
}

init {
  do
  :: version < STEPS -> atomic { version++; row[0] = version }
  :: version < STEPS -> atomic { version++; row[1] = version }
  :: version < STEPS && row[0] > 0 -> atomic { version++; row[0] = 0; gone[0] = 1 }
  :: version < STEPS && row[1] > 0 -> atomic { version++; row[1] = 0; gone[1] = 1 }
  :: writing == NONE && files < FILES -> atomic { freeze() }
  :: writing != NONE -> atomic { durable() }
  :: writing != NONE -> atomic { failed() }
  :: newest != NONE -> atomic { prune() }
  :: newest != NONE && falls < 1 -> atomic { fall() }
  :: version == STEPS && files == FILES && writing == NONE -> break
  od
}
