// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/test_vectors.h -- what workers computed of the test vector
// when they joined, and which of them computed it wrongly (A7).
//
// All workers compute the same vector, so that right results of one kind have
// the same bits. A vector is wrong as a vote is (votes.h): by two others of its
// kind that agree against it, all three of independent witnesses. They need not
// be attached at the same time: a later worker may decide about an earlier one.
//
// A vector is judged once: what a process was found wrong for is not heard
// again, since somebody may have forgiven it.
//
// Threads  the loop.
// Memory   test_vectors_release frees; at most TEST_VECTORS_MOST, one for each
//          name. One more takes the place of the least independent one, so that
//          many names of one host or one certificate push out each other.
//          Names are copied. All is volatile.
// Errors   without memory a vector is left out.
#ifndef COORDINATOR_RULES_TEST_VECTORS_H
#define COORDINATOR_RULES_TEST_VECTORS_H

#include "coordinator/rules/votes.h"

#define TEST_VECTORS_MOST 128
#define TEST_VECTORS_JUDGED 64 // wrong ones that are remembered

// All zeroes is an empty one.
struct test_vectors {
    struct test_vector_vote {
        struct vote vote;      // its inputs are 0; the name is owned
        uint64_t key;          // number of the process and what it computed
    } list[TEST_VECTORS_MOST]; // oldest first
    uint32_t count;
    struct vote wrong; // the last that was found wrong; its name is owned
    uint64_t judged[TEST_VECTORS_JUDGED]; // keys of those found wrong
    uint32_t judged_count;                // ever
};

// A vector that is wrong, and two that agree against it, valid until the next
// call.
struct test_vectors_verdict {
    const struct vote *wrong, *right[2];
};

// Takes the vector of worker vote->name, which process `process` computed; it
// replaces an earlier one of that name. Returns false if it is one that was
// taken or found wrong before, or there is no memory: then nothing new is
// known. *other is an older vector of its kind that differs from it, valid
// until the next call, or NULL.
bool test_vectors_take(struct test_vectors *v, const struct vote *vote,
                       uint64_t process, const struct vote **other);

// Finds a wrong vector by means of the one that was taken last, and drops it.
// Returns false if there is none. Called until then, once test_vectors_take has
// returned true.
bool test_vectors_judge(struct test_vectors *v,
                        struct test_vectors_verdict *out);

void test_vectors_release(struct test_vectors *v); // *v is empty then

#endif
