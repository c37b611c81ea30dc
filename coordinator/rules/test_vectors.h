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
//          Names are copied. All is volatile. No pointer is NULL.
// Errors   without memory a vector is left out.
#ifndef COORDINATOR_RULES_TEST_VECTORS_H
#define COORDINATOR_RULES_TEST_VECTORS_H

#include "coordinator/rules/votes.h"

#define TEST_VECTORS_MOST 128
#define TEST_VECTORS_JUDGED 64 // wrong ones that are remembered

// A struct of zeroes is an empty list.
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

// Takes the vector *vote (copied) that process `process` of worker vote->name
// computed, in place of an earlier one of that name. Returns true if it is new
// and to be judged: then sets *other to an older vector of its kind that
// differs from it, valid until the next call, or to NULL if there is none.
// Returns false, with *other NULL, if it was taken or found wrong before, or
// there is no memory (an earlier one of that name is gone all the same): then
// no new vector is to be judged.
bool test_vectors_take(struct test_vectors *v, const struct vote *vote,
                       uint64_t process, const struct vote **other);

// Looks for a vector that the one taken last shows to be wrong (or that is that
// one): sets *out, moves the wrong vector to v->wrong, remembers its process as
// judged and returns true. Returns false, with *out untouched, if there is
// none. To be called again and again until then, after each test_vectors_take
// that returned true.
bool test_vectors_judge(struct test_vectors *v,
                        struct test_vectors_verdict *out);

// Frees all vectors; *v is empty then, and may be used again.
void test_vectors_release(struct test_vectors *v);

#endif
