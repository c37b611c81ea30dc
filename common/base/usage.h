// SPDX-License-Identifier: Apache-2.0
// common/base/usage.h -- processor time, memory and network traffic of this
// process and its host, as the kernel counts them.
//
// Threads  any.
// Units    microseconds of processor time; bytes. Counts rise from the start of
//          the process, those of the network from that of each interface.
// Errors   a figure that the kernel does not give is 0.
#ifndef COMMON_BASE_USAGE_H
#define COMMON_BASE_USAGE_H

#include <stdint.h>

struct usage {
    uint64_t cpu_us;         // processor time of all threads
    uint64_t resident_bytes; // memory that is in use now
    // Sums of all network interfaces that this process sees (in a container
    // those of the container), but not of loopback.
    uint64_t sent_bytes, received_bytes;
};

// Returns the figures of now; reads files of /proc.
struct usage usage_read(void);

#endif
