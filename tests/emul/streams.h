// SPDX-License-Identifier: Apache-2.0
// tests/emul/streams.h -- streams, events and recordings of the stand-in for
// libcudart.
//
// Usually everything has happened when a call returns. Lazily, a stream keeps
// its work until somebody waits for it, and streams take turns at random as
// far as events let them: so a missing event, or memory that is used again too
// early, shows as wrong numbers.
//
// Threads  one at a time.
#ifndef TESTS_EMUL_STREAMS_H
#define TESTS_EMUL_STREAMS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// A piece of work: its arguments are copied, and dropped when nobody can run
// it any more. `drop` may be NULL.
struct emul_work {
    cudaError_t (*run)(void *args);
    void (*drop)(void *args);
};

// Runs it, or lets the stream keep it: in its recording, or until its turn.
// Its failure is the device's if it comes later.
cudaError_t emul_enqueue(cudaStream_t s, const struct emul_work *work,
                         const void *args, size_t bytes);

// The same of work that waits for something besides its turn: until ready()
// says so. Also if streams are not lazy: then this one is, until it is over.
cudaError_t emul_enqueue_when(cudaStream_t s, const struct emul_work *work,
                              const void *args, size_t bytes,
                              bool (*ready)(void *args));

// What is called when somebody waits for a stream that cannot get on: another
// thread may let it. At first, that is the end of the process.
void emul_when_stuck(void (*wait)(void));

// True while this thread has a stream record: then nothing may wait or
// allocate.
bool emul_recording(void);
// What was called cannot be recorded: all recordings fail at their end.
void emul_spoil(void);
// ... and the error of such a call.
cudaError_t emul_forbidden(void);
// No two streams have the same, also where one has the address of one that has
// ended; 0: there is none, or it is the default stream.
unsigned emul_stream_number(cudaStream_t s);
bool emul_records(cudaStream_t s); // this one does

// Runs all that streams keep: what a call does that waits for the device. True
// if there was anything.
bool emul_drain(void);

// Streams, events and recordings that there are.
unsigned emul_streams_alive(void);

// cudart.c: a failure of work that ran later.
void emul_broke(cudaError_t rc);
// cudart.c: the device whose calls this thread makes, until it chooses another.
int emul_current(void);
void emul_choose(int device);
// cudart.c: every call begins with it.
cudaError_t emul_enter(const char *what);
cudaError_t emul_done(cudaError_t rc);

#ifdef __cplusplus
}
#endif
#endif
