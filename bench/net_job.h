// SPDX-License-Identifier: Apache-2.0
// bench/net_job.h -- what the programs that run a worker's steps begin with:
// a job out of a spec, and parameters as it initialises them.
//
// Threads  one. Memory  the caller's; records are never freed here.
// Errors   as bench/program.h: they end the program.
#ifndef BENCH_NET_JOB_H
#define BENCH_NET_JOB_H

#include "common/run/conf.h"
#include "proto/model.h"
#include "trainer/lease/record.h"

// --spec FILE and any number of --set PATH=VALUE.
extern const struct conf_key net_job_keys[];
struct record *net_job_record(const struct conf *c);

// The flat vector of m->elements, from a fixed seed.
void net_job_params(float *params, const struct model *m);

#endif
