// SPDX-License-Identifier: Apache-2.0
// trainer/ring/state_copy.h -- states between ranks: given out by the ranks
// that hold the base of a generation, fetched by those that do not.
//
// Threads  the compute thread. What is given out is read on I/O threads, from
//          copy_serve until copy_unserve has returned.
// Memory   the rank is borrowed meanwhile, and must not change.
// Errors   copy_receive: SL_ESTALE if the generation has ended meanwhile; what
//          the last call to a holder said (ranks_fetch), such as SL_EUNAVAIL;
//          SL_ECORRUPT: what came does not fit the job; SL_ENOMEM, SL_EINVAL
//          (rank_plans). `err` may be NULL.
#ifndef TRAINER_RING_STATE_COPY_H
#define TRAINER_RING_STATE_COPY_H

#include "trainer/sum/ranks.h"
#include "trainer/ring/rank.h"
#include "trainer/ring/seat.h"

struct copy_served {
    struct ranks *ranks; // NULL: nothing is given out
    uint64_t job, generation;
    struct rank_view view;
};

// Gives the state of `r` out to the ranks of the generation `of` until
// copy_unserve. *c, zeroes before, must not move meanwhile, and the state must
// not change. `r` has a state. Returns SL_OK; SL_ENOMEM, or SL_EEXIST if a
// state of that generation is given out already. On failure copy_unserve of *c
// does nothing.
enum sl_err copy_serve(struct copy_served *c, struct ranks *ranks,
                       const struct ranks_of *of, const struct rank *r,
                       struct sl_error *err);
// Ends what copy_serve began; waits until no call reads the state. Does nothing
// if nothing is given out.
void copy_unserve(struct copy_served *c);

// Copies the base that `begin` names from its holders and puts it into place as
// the state of `r`; waits. On failure the old state stays. Gives up when the
// generation has ended, but not for any other message that comes to the seat:
// the coordinator would wait for a rank that has left without a word. `begin`
// names one holder at least. Whatever a holder answers but the piece, the next
// one is tried, for 10 s in all per piece.
enum sl_err copy_receive(struct rank *r, const struct rank_job *j,
                         struct seat *seat, const Sluice__V1__RingBegin *begin,
                         struct sl_error *err);

#endif
