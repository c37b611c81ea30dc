// SPDX-License-Identifier: Apache-2.0
// host/place/pieces_inner.h -- what the files of pieces share: the room.
//
// Threads  any; and any process, by the lock of the account.
// Memory   none is handed over.
// Units    bytes of files, with their heads.
// Errors   none: a cache without room keeps nothing.
#ifndef HOST_PLACE_PIECES_INNER_H
#define HOST_PLACE_PIECES_INNER_H

#include "host/place/pieces.h"

#define PIECES_HEAD 512
#define PIECE_PATH (3 + 1 + 2 * PIECES_ID + 9 + 1)

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
// most and as long as leave(arg) is false. Returns false if it is not locked.
bool pieces_lock(const struct pieces *p, int fd, bool (*leave)(void *arg),
                 void *arg);
bool pieces_off(const struct pieces *p);
// Turns the cache off for a minute, and says why.
void pieces_turn_off(struct pieces *p, const char *why);

#endif
