// SPDX-License-Identifier: Apache-2.0
// client/call/opsport.h -- is a port that speaks HTTP the ops port of a daemon?
//
// Threads  any; waits for the name's look-up, a second at most for each of its
//          addresses, and as long as the peer goes on sending within a second,
//          up to 16 KiB.
// Memory   the caller's; the role is cut at OPSPORT_ROLE - 1 bytes.
#ifndef CLIENT_CALL_OPSPORT_H
#define CLIENT_CALL_OPSPORT_H

#include <stdbool.h>

#define OPSPORT_ROLE 16

// Asks `address`, HOST:PORT, for its figures. Returns true if a daemon of
// Sluice answers, and writes its role; else `role` is left alone.
bool opsport_role(char role[OPSPORT_ROLE], const char *address);

#endif
