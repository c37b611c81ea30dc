// SPDX-License-Identifier: Apache-2.0
// Who may call and say what, written down a second time: every method of the
// schema, and every field of a member's words, with a letter per role that may.
//
//     A admin  S submitter  V viewer  W worker  P psserver  C coordinator
#ifndef TESTS_UNIT_PROTO_MATRIX_H
#define TESTS_UNIT_PROTO_MATRIX_H

static const struct {
    const char *path, *roles;
} matrix[] = {
    {"/sluice.v1.Coordinator/Attend", "WP"},
    {"/sluice.v1.Jobs/Submit", "AS"},
    {"/sluice.v1.Jobs/Get", "ASV"},
    {"/sluice.v1.Jobs/List", "ASV"},
    {"/sluice.v1.Jobs/Watch", "ASV"},
    {"/sluice.v1.Jobs/Stop", "AS"},
    {"/sluice.v1.Jobs/Delete", "AS"},
    {"/sluice.v1.Jobs/Checkpoints", "ASV"},
    {"/sluice.v1.Jobs/Checkpoint", "AS"},
    {"/sluice.v1.Jobs/Pause", "AS"},
    {"/sluice.v1.Jobs/Resume", "AS"},
    {"/sluice.v1.Jobs/Cluster", "AV"},
    {"/sluice.v1.Jobs/Drain", "A"},
    {"/sluice.v1.Jobs/Quota", "ASV"},
    {"/sluice.v1.Jobs/Events", "ASV"},
    {"/sluice.v1.Jobs/Timeline", "ASV"},
    {"/sluice.v1.Jobs/History", "ASV"},
    {"/sluice.v1.Jobs/Trace", "AS"},
    {"/sluice.v1.Jobs/Logs", "A"},
    {"/sluice.v1.Shards/Ask", "W"},
    {"/sluice.v1.Shards/Push", "W"},
    {"/sluice.v1.Shards/Pull", "AW"},
    {"/sluice.v1.Shards/PushPull", "W"},
    {"/sluice.v1.Shards/Local", "W"},
    {"/sluice.v1.Ranks/Piece", "W"},
    {"/sluice.v1.Ranks/Share", "W"},
    {"/sluice.v1.Ranks/State", "W"},
    {"/sluice.v1.Tasks/Schedule", "AS"},
    {"/sluice.v1.Tasks/Ended", "AS"},
    {"/sluice.v1.Tasks/Cancel", "AS"},
    {"/sluice.v1.Tasks/Queues", "ASV"},
    {"/sluice.v1.Tasks/Delete", "AS"},
    {"/sluice.v1.Tasks/Work", "W"},
    {"/grpc.health.v1.Health/Check", "ASVWPC"},
    {"/grpc.health.v1.Health/Watch", "ASVWPC"},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "A"},
};

// What a member may say: every field of AttendUp and of Heartbeat.
static const struct {
    const char *message, *field, *roles;
} voice[] = {
    {"AttendUp", "hello", "WP"},
    {"AttendUp", "heartbeat", "WP"},
    {"AttendUp", "shard_hello", "P"},
    {"AttendUp", "snapshot", "WP"},
    {"AttendUp", "deleted", "P"},
    {"AttendUp", "rates_taken", "P"},
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
};

#endif
