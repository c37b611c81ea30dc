// SPDX-License-Identifier: Apache-2.0
// Tokens of jobs: who is given the key, who a token, and whether one is asked
// for.
#include "coordinator/core/tokens.h"

#include <string.h>

#include "coordinator/core/jobs.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

static const Sluice__V1__Welcome *welcome_of(struct world *w,
                                             struct fake_member *m)
{
    world_break(w, m);
    world_pass(w, 100);
    m->inbox_count = 0;
    world_attach(w, m);
    T_TRUE(m->inbox_count > 0);
    T_EQ(m->inbox[0]->kind_case, SLUICE__V1__ATTEND_DOWN__KIND_WELCOME);
    return m->inbox[0]->welcome;
}

static void restart(struct world *w)
{
    world_stop_coord(w);
    world_start_coord(w);
}

// The world's cluster is one of before: it began without a key.
TEST(tokens, a_cluster_of_before_gets_a_key_and_asks_for_none)
{
    const Sluice__V1__Welcome *m;
    uint8_t key[TOKEN_KEY_BYTES], now[TOKEN_KEY_BYTES];
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    T_FALSE(tokens_key(w.coord, key));
    w.secret[0] = 5;
    restart(&w);
    T_TRUE(tokens_key(w.coord, key));
    T_FALSE(tokens_required(w.coord));
    w.secret[0] = 6; // the journal's stays
    w.tokens = COORD_TOKENS_REQUIRE;
    restart(&w);
    T_TRUE(tokens_key(w.coord, now));
    T_MEM(now, key, sizeof(key));
    T_TRUE(tokens_required(w.coord));
    world_people(&w, 1, 1);
    m = welcome_of(&w, &w.members[0]);
    T_EQ(m->token_key.len, TOKEN_KEY_BYTES);
    T_MEM(m->token_key.data, key, sizeof(key));
    T_TRUE(m->tokens_required);
    m = welcome_of(&w, &w.members[1]); // a worker
    T_EQ(m->token_key.len, 0);
    T_FALSE(m->tokens_required);
    world_release(&w);
}

// A lease of a closure, of whatever worker; it may be gone with the next step.
static const Sluice__V1__Lease *train_lease(struct world *w)
{
    const struct fake_member *m = &w->members[1];

    for (unsigned step = 0; step < 60000; step++) {
        world_step(w);
        for (unsigned i = 0; i < m->leases_count; i++)
            if (m->leases[i].lease->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
                return m->leases[i].lease;
    }
    return NULL;
}

TEST(tokens, a_lease_comes_with_its_proof_where_members_show_certificates)
{
    uint8_t key[TOKEN_KEY_BYTES];
    const Sluice__V1__Lease *lease;
    struct wire_token want, got;
    static struct world w;

    for (int proofs = 0; proofs < 2; proofs++) {
        world_init(&w, WORLD_SITUATION);
        w.secret[0] = 5;
        w.proofs = proofs;
        restart(&w);
        T_TRUE(tokens_key(w.coord, key));
        world_people(&w, 1, 1);
        w.job = world_submit(&w, world_graph_job);
        lease = train_lease(&w);
        T_ASSERT(lease != NULL);
        T_EQ(lease->proof != NULL, proofs);
        if (proofs) {
            T_OK(token_make_lease(&want, key, jobs_get(w.coord, w.job)->uid,
                                  lease->job_incarnation, lease->closure,
                                  wire_attempt_of(lease->attempt)));
            got = (struct wire_token){lease->proof->low, lease->proof->high};
            T_TRUE(token_same(&got, &want));
        }
        world_release(&w);
    }
}
