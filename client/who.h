// SPDX-License-Identifier: Apache-2.0
// client/who.h -- the user and host that gave this command, for reports of it.
//
// Threads  main.
#ifndef CLIENT_WHO_H
#define CLIENT_WHO_H

#include "proto/wire.h"

#define WHO_BYTES WIRE_NAME_BYTES

// "ada@host". A coordinator that sees a certificate takes its name instead.
const char *who_asks(char out[WHO_BYTES]);

#endif
