// SPDX-License-Identifier: Apache-2.0
// What an operator is told about a member of etcd.
#include "coordinator/service/quorum.h"

#include <stdio.h>

#include "tests/harness/t.h"

#define MIB (UINT64_C(1) << 20)

static void judged(const struct etcd_status *said, const char *words)
{
    char text[600];

    quorum_judge(text, sizeof(text), "e1.lan:2379", said, "connection refused");
    if (words == NULL) {
        T_STR(text, "");
        return;
    }
    T_HAS(text, "e1.lan:2379");
    T_HAS(text, words);
}

TEST(quorum, a_member_in_order_is_no_trouble)
{
    judged(
        &(struct etcd_status){
            .version = "3.4.23", .led = true, .bytes = 30 * MIB, .used = MIB},
        NULL); // a small file may be half empty
    judged(&(struct etcd_status){.led = true,
                                 .bytes = 1000 * MIB,
                                 .used = 600 * MIB},
           NULL);
}

TEST(quorum, each_trouble_is_said_with_what_to_do)
{
    judged(NULL, "does not answer: connection refused");
    judged(&(struct etcd_status){.led = false}, "knows no leader");
    judged(&(struct etcd_status){.led = false, .full = true}, "NOSPACE");
    judged(&(struct etcd_status){.version = "3.4.20", .led = true},
           "has version 3.4.20, which may lose what it has answered");
    judged(&(struct etcd_status){.version = "3.5.4", .led = true}, "upgrade");
    judged(&(struct etcd_status){.version = "3.5.5", .led = true}, NULL);
    judged(&(struct etcd_status){.version = "4.0.0", .led = true}, NULL);
    judged(&(struct etcd_status){.led = true,
                                 .bytes = 1600 * MIB,
                                 .used = 1500 * MIB},
           "has 1.562 GiB, and the default limit is 2 GiB");
    judged(&(struct etcd_status){.led = true,
                                 .bytes = 1000 * MIB,
                                 .used = 400 * MIB},
           "uses 400 MiB of them: etcdctl defrag --endpoints e1.lan:2379");
}

TEST(quorum, a_certificate_that_ends_soon_is_said)
{
    char text[600];

    quorum_judge_cert(text, sizeof(text), "e/cert.pem", 15 * 86400);
    T_STR(text, "");
    quorum_judge_cert(text, sizeof(text), "e/cert.pem", 13 * 86400 + 5);
    T_HAS(text, "e/cert.pem has 13 days left");
    quorum_judge_cert(text, sizeof(text), "e/cert.pem", -2 * 86400 - 5);
    T_HAS(text, "e/cert.pem expired 2 days ago");
}
