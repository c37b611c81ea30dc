// SPDX-License-Identifier: Apache-2.0
// common/net/local/shm.h -- memory that two processes of one host share, and
// the socket over which one hands it to the other.
//
// The memory is a memfd of a sealed size, so that its maker can never make it
// smaller under the other's hands (SIGBUS). What is in it may change at any
// moment: code that must rely on a value copies it first.
//
// The socket is a private unix one of whole messages (SOCK_SEQPACKET) between
// processes of one user. Nothing here ever blocks.
//
// Threads  any; a socket, one at a time.
// Memory   shm_release unmaps; the file lives until the last of its mappings
//          and descriptors is gone.
// Units    bytes.
// Errors   SL_EBUSY: not now (shm_accept, shm_send, shm_receive). SL_EUNAVAIL:
//          the other end is gone. Outputs are then as they were (but `bytes` of
//          shm_receive, which is undefined); `err` may be NULL.
#ifndef COMMON_NET_LOCAL_SHM_H
#define COMMON_NET_LOCAL_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct shm {
    uint8_t *at; // NULL: none
    size_t bytes;
};

// Makes, allocates, seals and maps `bytes` (> 0) of zeroes. What *out had
// before is not unmapped. *fd is the caller's, to hand over and close; the map
// lasts without it. SL_ENOMEM or SL_EIO.
enum sl_err shm_new(struct shm *out, int *fd, size_t bytes,
                    struct sl_error *err);

// Maps the memfd `fd` of another process, to read and write; `fd` stays the
// caller's. SL_EDENIED unless it is plain memory of exactly `bytes`, sealed
// against a change of its size and not against writes; SL_ENOMEM or SL_EIO: it
// cannot be mapped.
enum sl_err shm_map(struct shm *out, int fd, size_t bytes,
                    struct sl_error *err);

// Unmaps, and leaves *m all zeroes, which is allowed.
void shm_release(struct shm *m);

#define SHM_BOOT_ID 64

// Writes the kernel's id of this boot of this host to `out`; returns false if
// it cannot be read, and `out` is then undefined.
bool shm_boot_id(char out[SHM_BOOT_ID]);

// Draws a random number that an attacker cannot guess; never 0. SL_EIO: the
// kernel gives none.
enum sl_err shm_secret(uint64_t *out);

// ---- the socket; descriptors are the caller's to close

// Listens at `path`, for this user only; *out does not block. Replaces a file
// there (no process may answer on it), and may have removed it on failure. The
// caller removes the file when it has closed *out. SL_ERANGE: `path`, which may
// exceed sun_path, is too long; else what the system says. *out stays then.
enum sl_err shm_listen(int *out, const char *path, struct sl_error *err);

// Accepts the next connection on `listening`. SL_EDENIED: it came from another
// user's process, and is closed, or it ended before; ask again for the next.
// SL_EBUSY: no process waits. SL_EIO: the system refuses, as when no descriptor
// is left.
enum sl_err shm_accept(int *out, int listening);

// Connects to the socket at `path`; *out does not block. SL_EDENIED if it is
// another user's; SL_EUNAVAIL if no process listens on it any more; SL_ENOENT
// if there is no such file; SL_EBUSY if as many connections wait there as may;
// SL_ERANGE as shm_listen; else what the system says.
enum sl_err shm_connect(int *out, const char *path, struct sl_error *err);

// Sends one message of `n` bytes (> 0), with a copy of the descriptor `pass`
// unless it is -1; `pass` stays the caller's. SL_EBUSY: no room for it now;
// SL_EUNAVAIL: any other failure. Nothing was sent then.
enum sl_err shm_send(int fd, const void *bytes, size_t n, int pass);

// Receives one message of exactly `n` bytes; *passed is -1 or a descriptor for
// the caller to close. SL_ECORRUPT: the message had another length, or more
// than one descriptor; it is gone. SL_EBUSY: no message waits; SL_EUNAVAIL: the
// socket has ended.
enum sl_err shm_receive(int fd, void *bytes, size_t n, int *passed);

#endif
