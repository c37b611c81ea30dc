// SPDX-License-Identifier: Apache-2.0
// The part of a lease that a leader believes in: see
// coordinator/rules/tenure.h.
#include "coordinator/rules/tenure.h"

#include "tests/harness/t.h"

#define S UINT64_C(1000000) // a second, in microseconds

TEST(tenure, H4_a_lease_counts_from_the_sending_of_its_renewal)
{
    struct tenure t = {0};

    T_EQ(tenure_left_ms(&t, 100 * S), 0);
    tenure_renewed(&t, 100 * S, 5); // the answer came two seconds later
    T_EQ(tenure_left_ms(&t, 102 * S), 2500);
    T_EQ(tenure_left_ms(&t, 100 * S), 4500); // a tenth less than the lease
    T_EQ(tenure_left_ms(&t, 104 * S + S / 2 - 1000), 1);
    T_EQ(tenure_left_ms(&t, 104 * S + S / 2), 0);
    T_EQ(tenure_left_ms(&t, 1000 * S), 0); // it stood still for long
}

TEST(tenure, H4_a_late_answer_does_not_end_it_sooner)
{
    struct tenure t = {0};

    tenure_renewed(&t, 102 * S, 5);
    tenure_renewed(&t, 100 * S, 5);
    T_EQ(tenure_left_ms(&t, 102 * S), 4500);
}

TEST(tenure, a_third_of_the_lease_lies_between_renewals)
{
    struct tenure t = {0};

    tenure_renewed(&t, 100 * S, 6);
    T_EQ(tenure_wait_ms(&t, 100 * S), 2000);
    T_EQ(tenure_wait_ms(&t, 102 * S), 0);
    T_EQ(tenure_limit_ms(&t, 102 * S), 2000);
    tenure_failed(&t, 104 * S); // the call took as long as it may
    T_EQ(tenure_wait_ms(&t, 104 * S), TENURE_AGAIN_MS);
    T_EQ(tenure_limit_ms(&t, 104 * S + S / 10), 1300); // no longer than is left
    tenure_failed(&t, 105 * S + 390 * 1000);
    T_EQ(tenure_wait_ms(&t, 105 * S + 390 * 1000), 10); // until its end
    T_EQ(tenure_limit_ms(&t, 200 * S), 1);
}
