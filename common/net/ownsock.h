// SPDX-License-Identifier: Apache-2.0
// common/net/ownsock.h -- the socket of a user's own cluster, which `sluice up`
// listens on and programs of the same user find without being told.
//
//     $XDG_RUNTIME_DIR/sluice/up.sock    else
//     /run/user/UID/sluice/up.sock       else
//     /tmp/sluice-UID/up.sock
//
// The folder that holds it belongs to the user and has mode 0700; a folder that
// does not is passed over, since another user may have put it there.
//
// Threads  any. They make folders, and ownsock_find also connects to the
//          addresses that it tries: all may wait.
// Memory   callers' own.
// Errors   ownsock_folder, ownsock_make: SL_EDENIED where no such folder can be
//          had, SL_ENOENT where its name is not known; `out` is then untouched.
//          `err` may be NULL.
#ifndef COMMON_NET_OWNSOCK_H
#define COMMON_NET_OWNSOCK_H

#include "common/base/status.h"

#define OWNSOCK_BYTES 128             // bytes of an address, with the 0
#define OWNSOCK_PORT "127.0.0.1:7070" // address of a coordinator told none

// Writes to `out` the path of the first folder of the list that exists or can
// be made, and belongs to the user alone; other sockets of the same cluster may
// lie there too.
enum sl_err ownsock_folder(char out[OWNSOCK_BYTES], struct sl_error *err);

// Makes the folder (ownsock_folder) and writes the address to listen on there,
// "unix:.../up.sock", to `out`.
enum sl_err ownsock_make(char out[OWNSOCK_BYTES], struct sl_error *err);

// Writes to `out`, and returns, the address of a coordinator where none was
// said: the user's own socket if a process answers there, else OWNSOCK_PORT if
// one answers there, else again the socket, as ownsock_make does, which makes
// its folder, or OWNSOCK_PORT where there can be none. Never NULL.
const char *ownsock_find(char out[OWNSOCK_BYTES]);

#endif
