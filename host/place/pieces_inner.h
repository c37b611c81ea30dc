// SPDX-License-Identifier: Apache-2.0
// host/place/pieces_inner.h -- what the files of pieces share: the room.
//
// Threads  any; and any process, by the lock of the account.
// Memory   none is handed over.
// Units    bytes of files, with their heads.
// Errors   none: a cache without room keeps nothing. Where the account cannot
//          be locked for patience_ms the room_* turn the cache off; while it is
//          off they do nothing, and return false.
#ifndef HOST_PLACE_PIECES_INNER_H
#define HOST_PLACE_PIECES_INNER_H

#include "host/place/pieces.h"

#define PIECES_HEAD 4096
#define PIECES_MAGIC "sluice 2"
#define PIECE_PATH (3 + 1 + 2 * PIECES_ID + 9 + 1)

// The front of a piece's file; `sums` are of its blocks.
struct piece_head {
    char magic[8]; // PIECES_MAGIC, without a 0
    uint8_t id[PIECES_ID];
    uint32_t index, bytes;
    uint32_t sums[PIECE_BYTES / PIECE_BLOCK];
    uint32_t sum; // of all before
};
_Static_assert(sizeof(struct piece_head) <= PIECES_HEAD, "it has its place");

// Writes the name of a piece's file in the folder, "5a/ID-INDEX"; `mark` "."
// for the file that is being written.
void piece_path(char out[PIECE_PATH], const struct piece_name *name,
                const char *mark);

// ---- pieces that stay open

// Begins without an open piece; before the others.
void open_init(struct pieces *p);
// Closes all pieces; no thread has one, and only open_init may follow.
void open_release(struct pieces *p);
// Returns true if the piece is open.
bool open_has(struct pieces *p, const struct piece_name *name);
// Returns the piece, which is opened if it is not open, for open_give. NULL: it
// is missing or memory is out; or *damaged, which is set in any case: its head
// does not fit.
struct open_piece *open_take(struct pieces *p, const struct piece_name *name,
                             bool *damaged);
// Gives back a piece; one that is damaged is opened anew when it is next read.
void open_give(struct pieces *p, struct open_piece *e, bool damaged);
// Reads n bytes from `offset` of a piece, and notes that it was used. Returns
// false, with undefined bytes in `to`, if it has not so many, or is damaged.
bool open_read(struct pieces *p, struct open_piece *e, size_t offset,
               uint8_t *to, size_t n);

// ---- room

// Counts the bytes of all pieces if the account is not there, and removes what
// is too much; else leaves the account as it is.
void room_count(struct pieces *p);
// Adds n bytes to the account. If they do not fit, removes the pieces that were
// used longest ago before, until they do with a sixteenth of the cache free.
// Returns false, and adds nothing, if that fails, as without memory.
bool room_take(struct pieces *p, uint64_t n);
// Takes n bytes off the account, which is then at least 0.
void room_give(struct pieces *p, uint64_t n);
// Removes a sixteenth of the bytes that there are, those first that were used
// longest ago. Returns false if nothing went.
bool room_make(struct pieces *p);

// Locks an open file, for which another process is waited for patience_ms at
// most and as long as leave(arg), not NULL, is false. Returns false if it is
// not locked; errno is flock's then, unless leave(arg) changes it.
bool pieces_lock(const struct pieces *p, int fd, bool (*leave)(void *arg),
                 void *arg);
// Returns true while the cache is off, and takes no pieces.
bool pieces_off(const struct pieces *p);
// Turns the cache off for a minute, and says why.
void pieces_turn_off(struct pieces *p, const char *why);

#endif
