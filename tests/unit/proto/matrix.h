// SPDX-License-Identifier: Apache-2.0
// Which role may call and send what, written a second time: every method, in
// the table of docs/security.md, and every field of a member's messages, here.
//
//     A admin  S submitter  V viewer  W worker  P psserver  C coordinator
#ifndef TESTS_UNIT_PROTO_MATRIX_H
#define TESTS_UNIT_PROTO_MATRIX_H

#include <stdio.h>
#include <string.h>

#include "tests/harness/t.h"

#define MATRIX_METHODS 64

static struct {
    char path[100], roles[8];
} matrix[MATRIX_METHODS];
static size_t matrix_count;

// Adds the methods of a row, " `Jobs/Get` `List` | x | x | x | | | |", which it
// takes apart, to the matrix. A service without a package is ours.
static void matrix_read_row(char *row)
{
    char roles[8] = "", *at, *names = strtok_r(row, "|", &at), *service = NULL;
    size_t n = 0;

    for (int i = 0; i < 6; i++) {
        const char *cell = strtok_r(NULL, "|", &at);

        T_ASSERT(cell != NULL && strspn(cell, " x") == strlen(cell));
        if (strchr(cell, 'x') != NULL)
            roles[n++] = "ASVWPC"[i];
    }
    for (char *name = strtok_r(names, " `", &at); name != NULL;
         name = strtok_r(NULL, " `", &at)) {
        char *slash = strchr(name, '/');
        const char *package;

        if (slash != NULL) {
            *slash = '\0';
            service = name;
            name = slash + 1;
        }
        T_ASSERT(service != NULL && matrix_count < MATRIX_METHODS);
        package = strchr(service, '.') != NULL ? "" : "sluice.v1.";
        T_LT(snprintf(matrix[matrix_count].path, sizeof(matrix->path),
                      "/%s%s/%s", package, service, name),
             (int)sizeof(matrix->path));
        memcpy(matrix[matrix_count++].roles, roles, sizeof(roles));
    }
}

// Sets the matrix to the table of docs/security.md.
static void matrix_read(void)
{
    FILE *f = fopen(SECURITY_PATH, "rb");
    bool inside = false;
    char line[400];

    T_ASSERT(f != NULL);
    matrix_count = 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strcmp(line, "| method | A | S | V | W | P | C |\n") == 0)
            inside = true;
        else if (line[0] == '\n')
            inside = false;
        else if (inside && strncmp(line, "| `", 3) == 0)
            matrix_read_row(line + 1);
    }
    fclose(f);
    T_GT(matrix_count, 30);
}

// Every field of AttendUp and of Heartbeat, with the roles that may send it.
static const struct {
    const char *message, *field, *roles;
} voice[] = {
    {"AttendUp", "hello", "WP"},
    {"AttendUp", "heartbeat", "WP"},
    {"AttendUp", "shard_hello", "P"},
    {"AttendUp", "snapshot", "WP"},
    {"AttendUp", "deleted", "P"},
    {"AttendUp", "rates_taken", "P"},
    {"AttendUp", "feed_ended", "P"},
    {"AttendUp", "replica", "P"},
    {"AttendUp", "complete", "W"},
    {"AttendUp", "failed", "W"},
    {"AttendUp", "hand_back", "W"},
    {"AttendUp", "map_wanted", "W"},
    {"AttendUp", "completes", "W"},
    {"AttendUp", "ring_join", "W"},
    {"AttendUp", "ring_answer", "W"},
    {"AttendUp", "ring_ready", "W"},
    {"AttendUp", "ring_step", "W"},
    {"AttendUp", "ring_broken", "W"},
    {"AttendUp", "ring_copied", "W"},
    {"AttendUp", "trace_piece", "WP"},
    {"AttendUp", "log_piece", "WP"},
    {"Heartbeat", "seq", "WP"},
    {"Heartbeat", "leases", "W"},
    {"Heartbeat", "shards", "P"},
    {"Heartbeat", "draining", "WP"},
    {"Heartbeat", "resident_bytes", "WP"},
    {"Heartbeat", "why", "WP"},
    {"Heartbeat", "device", "W"},
    {"Heartbeat", "sent_us", "WP"},
    {"Heartbeat", "heard_seq", "WP"},
    {"Heartbeat", "heard_us", "WP"},
    {"Heartbeat", "cpu_us", "WP"},
    {"Heartbeat", "host_sent_bytes", "WP"},
    {"Heartbeat", "host_received_bytes", "WP"},
    {"Heartbeat", "left_out", "W"},
    {"Heartbeat", "empties", "P"},
    {"Heartbeat", "pushes", "P"},
};

#endif
