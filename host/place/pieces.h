// SPDX-License-Identifier: Apache-2.0
// host/place/pieces.h -- pieces of objects in a folder of this host's disk.
//
// A piece is 1 MiB of one version of an object, or its rest, in a file of its
// own, under a name made of the object's id and the piece's number. It appears
// whole (rename), and each 4 KiB of it have a checksum: what does not fit is
// removed and counts as missing. All workers of the host may share the folder:
// one of them fetches a piece while the others wait for it (a lock of the
// unfinished file), and the sum of bytes stands in the file `account`, which is
// locked while it changes. If a piece has no room, those that were used longest
// ago go.
//
// The cache may lose anything at any time, and never fails: a piece that cannot
// be written is not there. A full disk makes pieces go as `most` does; if that
// does not help, or another process keeps the account locked, the cache takes
// nothing for a minute.
//
// Threads  any.
// Memory   pieces_free, after the last call has returned. Bytes are borrowed
//          for the call.
// Units    bytes, with their heads; _ms.
// Errors   pieces_new alone: SL_EINVAL, SL_ENOMEM, or what making the folder
//          and its account says.
#ifndef HOST_PLACE_PIECES_H
#define HOST_PLACE_PIECES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/status.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define PIECE_BLOCK ((size_t)4 << 10) // bytes with one checksum
#define PIECES_ID 32                  // bytes of an object's id
#define PIECES_LEAST ((uint64_t)8 << 20)

struct pieces {
    int dir;     // owned
    int account; // owned; the file with the sum
    pthread_mutex_t
        lock; // guards the account among threads; a lock of the file does not
    uint64_t most;        // bytes of all pieces
    uint64_t fresh_ms;    // a use is noted if the last was noted before that
    uint64_t patience_ms; // how long another process is waited for
    pthread_mutex_t open_lock; // guards the next three
    struct map opened;         // pieces_open.c: those that stay open
    struct list open;
    unsigned open_count;
    _Atomic uint64_t off_until_ms; // the cache takes no pieces until then
    _Atomic uint64_t damaged;      // pieces that did not fit their checksums
};

struct piece_name {
    const uint8_t *id; // PIECES_ID bytes
    uint32_t index;
};

// Opens the folder, which is made for this user alone if it is missing; warns
// in the log if other users may read it. SL_EINVAL: `most` is below
// PIECES_LEAST. Counts the pieces that are there, if no account says it.
enum sl_err pieces_new(struct pieces **out, const char *dir, uint64_t most,
                       struct sl_error *err);
// Closes the cache and frees; the pieces stay on the disk. NULL is allowed.
void pieces_free(struct pieces *p);

// Returns true if the piece is in the folder; it may be damaged, or go.
bool pieces_has(struct pieces *p, const struct piece_name *name);

// Reads n bytes from `offset` of a piece, which has them. Returns false, with
// undefined bytes in `to`, if it is missing or damaged; a damaged one is
// counted, logged and removed.
bool pieces_read(struct pieces *p, const struct piece_name *name, size_t offset,
                 void *to, size_t n);

// Waits while another process fetches the piece, for patience_ms at most and as
// long as leave(arg), not NULL, is false. Returns a claim, for pieces_write or
// pieces_drop, with which others wait for this process; -1: the wait has ended
// without one, or the cache takes no pieces (for a minute, if the file cannot
// be opened), and the caller goes on without. The piece may have appeared
// meanwhile.
int pieces_claim(struct pieces *p, const struct piece_name *name,
                 bool (*leave)(void *arg), void *arg);
// Ends a claim on a piece without writing it, and removes the unfinished file.
// -1 is allowed.
void pieces_drop(struct pieces *p, int claim, const struct piece_name *name);

// Writes a piece of n bytes (1 to PIECE_BYTES), and ends its claim. Returns
// false if it was not kept: `claim` is -1 (`p` may then be NULL), there is no
// room, or the disk failed (then the cache takes no pieces for a minute).
bool pieces_write(struct pieces *p, int claim, const struct piece_name *name,
                  const void *bytes, size_t n);

// Returns the sum of bytes as the account has it; 0 if it cannot be read.
uint64_t pieces_bytes(const struct pieces *p);

#endif
