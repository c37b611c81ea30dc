// SPDX-License-Identifier: Apache-2.0
// client/ask/who.h -- the user and host that gave this command, for reports of
// it.
//
// Threads  main. It may ask the system's database of users, and wait for it.
#ifndef CLIENT_ASK_WHO_H
#define CLIENT_ASK_WHO_H

#include "proto/wire.h"

#define WHO_BYTES WIRE_NAME_BYTES

// Writes "ada@host", the effective user and the host of this process, cut after
// 100 and 64 bytes, to `out` and returns `out`; "uid 1000@host" for a user
// without a name. A coordinator that sees a certificate takes the certificate's
// name instead.
const char *who_asks(char out[WHO_BYTES]);

#endif
