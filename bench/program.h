// SPDX-License-Identifier: Apache-2.0
// bench/program.h -- what the programs of bench/ share: options, time, and the
// one line of JSON in which each says what it measured.
//
// Threads  one at a time.
// Memory   meter_release frees.
// Units    seconds and milliseconds of the monotonic clock; bytes.
// Errors   A program of bench/ that cannot go on says why and exits with 1;
//          wrong options: 2. This is the end of every story here, so nothing
//          returns an error.
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/run/conf.h"
#include "common/base/status.h"

// Reads the options of these tables (the last is NULL), or prints the help and
// exits.
struct conf *program_options(const struct conf_about *about,
                             const struct conf_key *const *tables, int argc,
                             char **argv);

// "program: text", exit status 1.
void program_die(const char *fmt, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

// The same for a call of ours that failed.
void program_must(enum sl_err rc, const struct sl_error *err, const char *what);

double program_now_s(void);
// Returns the seconds of processor time that this process has taken.
double program_cpu_s(void);
// Returns those that this thread has taken: what else the machine does is not
// in it.
double program_thread_s(void);
// Returns the most bytes of memory that this process ever had.
double program_peak_bytes(void);

// "key": [1.5, 2], within a line of JSON.
void program_print_list(const char *key, const double *x, int count);

// This thread, and those that it starts from here on, run on one core.
void program_pin(int cpu);

// Zeroes; never NULL. On huge pages where that pays.
void *program_memory(size_t bytes);

// Sorts n numbers.
void program_sort(double *values, size_t n);
// Returns the smallest of n sorted numbers that a share `part` of them do not
// exceed; 0 if there are none.
double program_percentile(const double *sorted, size_t n, double part);

// Two processes that talk: --far-cpu, where the child runs, and --near-cpu.
// The child ends with its parent.
extern const struct conf_key pair_keys[];
// What they exchange: --bytes of a message, and how many may be --outstanding.
#define OUTSTANDING_MAX 1024
extern const struct conf_key message_keys[];
void pair_far(const struct conf *c);
void pair_near(const struct conf *c);

// What is counted of one run: only what ends between `from` and `until`, so
// that neither the start nor the last messages are in it.
struct meter {
    double from_s, until_s;
    uint64_t messages, bytes;
    uint64_t all_bytes; // also of those before and after
    double cpu_s;       // of this process and its dead children, at the start
    double *ms;         // latencies, owned
    size_t cap;
};

// --seconds and --warmup. The run begins now.
extern const struct conf_key meter_keys[];
void meter_start(struct meter *m, const struct conf *c);
void meter_release(struct meter *m);

// A message of so many bytes that began at began_s has ended at now_s. False:
// the run is over, begin no other.
bool meter_add(struct meter *m, uint64_t bytes, double began_s, double now_s);

// {"what": ..., "messages": ..., "seconds": ..., "bytes_per_s": ...,
//  "per_s": ..., "p50_ms": ..., "p99_ms": ..., "max_ms": ...,
//  "all_bytes": ..., "cpu_s": ...}
// The last is what this process, and the children that it has waited for, spent
// on all_bytes.
void meter_print(struct meter *m, const char *what);

#endif
