// SPDX-License-Identifier: Apache-2.0
// client/findings.h -- the findings of `sluice doctor`.
//
// Threads  main.
// Memory   findings_release frees.
#ifndef CLIENT_FINDINGS_H
#define CLIENT_FINDINGS_H

#include <stddef.h>

#include "client/api.h"
#include "client/out.h"
#include "common/run/conf.h"
#include "common/base/status.h"

enum finding_level {
    FINDING_OK,
    FINDING_NOTE, // worth knowing
    FINDING_WARN, // will hurt some day
    FINDING_BAD,  // does not work
    FINDING_LEVELS
};

struct finding {
    enum finding_level level;
    const char *what; // "limits"; a constant
    char text[SL_ERROR_TEXT];
};

struct findings {
    struct finding *list; // owned
    size_t count;
    size_t of_level[FINDING_LEVELS];
};

// Adds a finding of `level` about `what`, a constant; the text is cut if long.
void finding(struct findings *f, enum finding_level level, const char *what,
             const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void findings_release(struct findings *f);
enum sl_err findings_print(const struct findings *f, const struct out *out,
                           struct sl_error *err);

// The checks of this machine (doctor_host.c).
void doctor_programs(struct findings *f);
void doctor_libraries(struct findings *f);
void doctor_limits(struct findings *f);
void doctor_disks(struct findings *f, const struct conf *conf);
// Checks the free space of the disk with `folder`; does nothing if it is
// missing.
void doctor_space(struct findings *f, const char *folder);

// Checks of TLS and the network (doctor_net.c).
void doctor_tls(struct findings *f, const struct conf *conf);
void doctor_coordinator(struct findings *f, const struct conf *conf);

// Checks which certificates would be refused, and why (doctor_certs.c): our
// own, those of a folder; psservers with none for the address that they
// advertise.
void doctor_certs(struct findings *f, const struct conf *conf);
void doctor_dial(struct findings *f, const struct api_client *api,
                 const Sluice__V1__ClusterReply *reply);

#endif
