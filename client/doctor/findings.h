// SPDX-License-Identifier: Apache-2.0
// client/doctor/findings.h -- the findings of `sluice doctor`.
//
// Threads  main. doctor_programs, doctor_tls and doctor_certs run other
//          programs, and wait 10 s at most for each.
// Memory   findings_release frees; all zeroes is empty. Texts are copied; no
//          pointer may be NULL but `err`.
// Errors   a check that fails is a finding: FINDING_BAD what does not work,
//          FINDING_WARN what is slow, scarce or at risk, FINDING_OK the rest.
#ifndef CLIENT_DOCTOR_FINDINGS_H
#define CLIENT_DOCTOR_FINDINGS_H

#include <stddef.h>

#include "client/call/api.h"
#include "client/cli/out.h"
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

// Adds a finding of `level` about `what`, a constant; the text is made as
// printf makes it, and cut if long. Without memory it only counts in of_level.
void finding(struct findings *f, enum finding_level level, const char *what,
             const char *fmt, ...) __attribute__((format(printf, 4, 5)));
// Frees the list and zeroes the struct.
void findings_release(struct findings *f);

// Writes the findings to stdout, a line each or, with out->json, as JSON or
// YAML. Returns SL_OK, SL_EIO or SL_ENOMEM. `err` may be NULL.
enum sl_err findings_print(const struct findings *f, const struct out *out,
                           struct sl_error *err);

// ---- checks of this machine (doctor_host.c)

// Adds this program's version and build, and checks the three daemons beside
// it: FINDING_WARN if one is missing or of another version, FINDING_BAD if it
// does not run. Lists the worker's devices.
void doctor_programs(struct findings *f);
// Lists the loaded libraries that matter, by their files' names, with versions;
// adds a note on gRPC.
void doctor_libraries(struct findings *f);
// Checks the limit of open files and the memory that is available, and adds the
// number of cores.
void doctor_limits(struct findings *f);
// Checks the disks of --state (else the working folder) and of --store if that
// is set: how long a synced write takes in the former, the space of both, and,
// if both are set, that they lie on two disks. A --store in S3 is read and
// written instead. Waits for disks and S3. Removes the files that it writes,
// also after a failure, but one in S3 may stay.
void doctor_disks(struct findings *f, const struct conf *conf);
// Checks the free space of the disk with `folder`: FINDING_BAD below 64 MiB,
// FINDING_WARN below 1 GiB or a fiftieth of the disk. Does nothing if the
// folder is missing.
void doctor_space(struct findings *f, const char *folder);

// ---- checks of places (doctor_places.c)

// Asks each place of --data-allow, as a worker would, with the keys of the
// store: FINDING_BAD if it does not answer, or a bucket forbids it;
// FINDING_WARN for a prefix of S3 without objects; FINDING_NOTE for a web
// server that forbids the prefix itself, as it need not have one. Waits for the
// network.
void doctor_places(struct findings *f, const struct conf *conf);

// ---- checks of TLS and the network (doctor_net.c)

// Checks that --tls-ca has signed --tls-cert, and when both expire (in less
// than 14 days: FINDING_WARN); adds a note that TLS is off if one of them is
// not given.
void doctor_tls(struct findings *f, const struct conf *conf);
// Asks the coordinator for its cluster; FINDING_BAD if it does not answer. Else
// checks what it says of its members and its store, dials the psservers
// (doctor_dial) and adds its own warnings (FINDING_WARN). Waits for each
// answer.
void doctor_coordinator(struct findings *f, const struct conf *conf);

// ---- checks of certificates (doctor_certs.c): which would be refused, and why

// Checks our own certificate, --tls-cert, and those of the folder --certs, if
// they are given: *.crt but ca.crt, and *.pem by their dates alone.
// FINDING_BAD: without a role, not signed by the folder's ca.crt, revoked by
// its ca.crl, expired, or a *.crt that cannot be read; FINDING_WARN: expires
// soon (TLS_SOON_DAYS). Our own is not compared with an authority (doctor_tls
// does).
void doctor_certs(struct findings *f, const struct conf *conf);
// Dials up to 256 psservers of `reply` that are on a network and alive, as a
// worker would; adds a FINDING_BAD for each that is not reached, or has no
// certificate for the address that it advertises, and nothing for the others.
// Waits 3 s at most for each.
void doctor_dial(struct findings *f, const struct api_client *api,
                 const Sluice__V1__ClusterReply *reply);

#endif
