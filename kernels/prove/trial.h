// SPDX-License-Identifier: Apache-2.0
// kernels/prove/trial.h -- the tensors of one op, to try a plan on: random
// inputs as the op wants them, between guard bytes.
//
// Threads  any; one at a time per trial.
// Memory   a trial owns its tensors. What a function takes besides is borrowed
//          for the call.
// Units    elements; _bytes are bytes.
// Errors   SL_ENOMEM, where it is said; descriptors were checked.
#ifndef KERNELS_PROVE_TRIAL_H
#define KERNELS_PROVE_TRIAL_H

#include "common/base/rng.h"
#include "kernels/desc.h"

#define TRIAL_GUARD                                                            \
    256                    // bytes of guard before a tensor; at least as many
                           // behind
#define TRIAL_PERIOD 16381 // elements until the values of a tensor repeat

#define TRIAL_THIN ((size_t)3 << 20) // a thin tensor has more bytes
#define TRIAL_WINDOW                                                           \
    ((size_t)512 << 10) // bytes of an output's window, at least
#define TRIAL_WINDOWS 3 // its beginning, its end, one in between

// The tensors of one op, each between guards, `shift` bytes off a cache line; 8
// bytes off, where elements have 8 and `shift` is no multiple of that.
struct trial {
    struct kern_desc d;
    void *io[KERN_IO];
    char *base[KERN_IO];
    size_t bytes[KERN_IO], whole[KERN_IO]; // of the tensor; of base
    bool repeats;       // large tensors repeat their first TRIAL_PERIOD values
    bool mapped;        // base is of pages.h, not of the heap
    bool thin[KERN_IO]; // base is pages_new_repeated's
    struct trial_window { // bytes of a thin output that are its own
        size_t from, to;
    } window[KERN_IO][TRIAL_WINDOWS];
};

// Makes the tensors of *d on the heap, with undefined contents, `shift` bytes
// off a cache line; what *t held is not freed. trial_free frees them. Returns
// SL_OK, or SL_ENOMEM: *t is empty.
enum sl_err trial_new(struct trial *t, const struct kern_desc *d, size_t shift);
// Makes the tensors as trial_new does, of memory that goes back to the host
// when it is freed (pages.h).
enum sl_err trial_new_mapped(struct trial *t, const struct kern_desc *d,
                             size_t shift);
// Makes the tensors as trial_new_mapped does, in little memory: those of more
// than TRIAL_THIN bytes are thin, where the op allows that. A thin input's
// contents repeat; a thin output has memory of its own in windows alone, and is
// shared by all its elements elsewhere, where what it holds is of no use. Call
// trial_fill and then trial_settle before it is used.
enum sl_err trial_new_thin(struct trial *t, const struct kern_desc *d,
                           size_t shift);
// Gives thin tensors their windows, one around byte middle[i] of output i, and
// their guards; once, after trial_fill. Does nothing to other tensors. Returns
// SL_OK, or SL_ENOMEM: the trial can only be freed.
enum sl_err trial_settle(struct trial *t, const size_t middle[KERN_IO]);
// Returns true if element `k` of output `i` may be compared: neither it nor the
// rest of its row lies where a thin tensor is shared. Always true for a tensor
// that is not thin.
bool trial_owns(const struct trial *t, unsigned i, int64_t k);
// Frees the tensors; *t is empty then. An empty one is allowed.
void trial_free(struct trial *t);
// Returns true if the bytes around all tensors are as they were made; false if
// one was written to.
bool trial_holds(const struct trial *t);
// Copies the contents of all tensors of *from to those of *to, which has the
// same descriptor; neither has thin tensors.
void trial_copy(struct trial *to, const struct trial *from);

// Fills the inputs with random values that suit the op, drawn from *rng, and
// the outputs with NaN, or with random values if the op adds to them. Returns
// SL_OK, or SL_ENOMEM: contents are undefined.
enum sl_err trial_fill(struct trial *t, struct rng *rng);

// Returns true if the op reads what its outputs held before it ran: ACCUM, or
// an AXPBY with b other than 0.
bool trial_adds(const struct kern_desc *d);

// Returns element `i`, counted as it lies in memory, of the tensor at `at` with
// the dtype of *s, as a double.
double trial_get(const struct kern_shape *s, const void *at, int64_t i);

// Computes the op with ref on the tensors io[], whatever their dtypes. Returns
// SL_OK, or SL_ENOMEM: nothing was computed.
enum sl_err trial_run_ref(const struct kern_desc *d, void *const *io);

#endif
