// SPDX-License-Identifier: Apache-2.0
// proto/wire_rules.c -- the rules of which field may hold what.
//
// Numbers are the fields' numbers; a test checks that each names a field of a
// fitting type, and that no number which a daemon reads is without a rule.
// Those of the data plane, which wire_ps_read.c checks by hand, stand here as
// well. KNOWN names the file and the function that bound a number;
// house.citations looks for both.
#include "proto/wire_check.h"

#include "plan/part.h"
#include "plan/rate.h"
#include "plan/rates.h"
#include "plan/tables.h"
#include "proto/model.h"
#include "proto/spec.h"
#include "proto/table_chain.h"

#define RANGE(number, min, max)                                                \
    {                                                                          \
        number, RULE_RANGE, min, max, NULL                                     \
    }
#define COUNT_FROM(number, min, max)                                           \
    {                                                                          \
        number, RULE_COUNT, min, max, NULL                                     \
    }
#define BYTES(number, min, max)                                                \
    {                                                                          \
        number, RULE_BYTES, min, max, NULL                                     \
    }
#define TEXT(number, max)                                                      \
    {                                                                          \
        number, RULE_TEXT, 0, max, NULL                                        \
    }
#define FILE_NAME(number, min)                                                 \
    {                                                                          \
        number, RULE_FILE, min, 255, NULL                                      \
    }
#define ADDRESS(number)                                                        \
    {                                                                          \
        number, RULE_ADDRESS, 0, WIRE_NAME_BYTES, NULL                         \
    }
#define NAME_FROM(number, min)                                                 \
    {                                                                          \
        number, RULE_NAME, min, WIRE_NAME_BYTES, NULL                          \
    }
#define PLAIN(number, kind)                                                    \
    {                                                                          \
        number, kind, 0, 0, NULL                                               \
    }
#define KNOWN(number, function)                                                \
    {                                                                          \
        number, RULE_KNOWN, 0, UINT64_MAX, function                            \
    }
#define BOUND(number, min, max, function)                                      \
    {                                                                          \
        number, RULE_RANGE, min, max, function                                 \
    }

#define JOB(number) RANGE(number, 1, UINT64_MAX)
#define SHARD(number) RANGE(number, 0, WIRE_SHARDS_MAX - 1)
#define BORN(number) RANGE(number, 1, UINT64_MAX) // an incarnation
#define CLOSURE(number) RANGE(number, 0, UINT64_C(1) << 62)
#define COUNT(number, max) COUNT_FROM(number, 0, max)
#define NAME(number) NAME_FROM(number, 1)
#define MAYBE_NAME(number) NAME_FROM(number, 0)
#define PATHNAME(number) FILE_NAME(number, 0)
#define FILENAME(number) FILE_NAME(number, 1)
#define FILL(number) PLAIN(number, RULE_FILL)
#define REQUIRED(number) PLAIN(number, RULE_REQUIRED)
#define ANY_FLOAT(number) PLAIN(number, RULE_ANY_FLOAT)
#define OPAQUE(number)                                                         \
    {                                                                          \
        number, RULE_OPAQUE, 0, UINT64_MAX, NULL                               \
    }

#define OF(name) &sluice__v1__##name##__descriptor
#define LIST(...)                                                              \
    (const struct wire_rule[])                                                 \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define RULES(name, check, ...)                                                \
    {                                                                          \
        OF(name), LIST(__VA_ARGS__),                                           \
            sizeof(LIST(__VA_ARGS__)) / sizeof(struct wire_rule), check, false \
    }
#define SHOWN(name, check, ...)                                                \
    {                                                                          \
        OF(name), LIST(__VA_ARGS__),                                           \
            sizeof(LIST(__VA_ARGS__)) / sizeof(struct wire_rule), check, true  \
    }

static const struct wire_rules all[] = {
    // ---- common.proto

    RULES(counted_closure, NULL, CLOSURE(1), BYTES(2, 1, WIRE_COUNTED_BYTES)),
    RULES(counted_set, check_counted_set, CLOSURE(1),
          COUNT(2, WIRE_SPARSE_MAX)),
    RULES(geometry, check_geometry, RANGE(1, 1, UINT64_C(1) << 40),
          RANGE(2, 1, UINT32_MAX), RANGE(3, 1, UINT32_MAX),
          RANGE(4, 1, WIRE_CLOSURE_STEPS_MAX)),
    RULES(variable, check_variable, NAME(1), COUNT(2, WIRE_RANK_MAX),
          BOUND(2, 0, UINT64_C(1) << 40, "layout.c:layout_rows"),
          COUNT(8, WIRE_RANK_MAX), KNOWN(8, "wire_coord.c:check_keras_order")),
    RULES(piece, NULL, RANGE(1, 0, WIRE_VARIABLES_MAX - 1),
          RANGE(2, 0, UINT64_C(1) << 40), RANGE(3, 1, UINT64_C(1) << 40),
          SHARD(4), RANGE(5, 1, UINT64_C(1) << 40)),
    RULES(shard_counts, NULL, KNOWN(1, "job.c:job_counts_take"),
          KNOWN(2, "job.c:job_counts_take"), KNOWN(3, "job.c:job_counts_take"),
          KNOWN(4, "job.c:job_counts_take"), KNOWN(5, "job.c:job_counts_take"),
          KNOWN(6, "job.c:job_counts_take"), KNOWN(7, "job.c:job_counts_take"),
          COUNT(8, WIRE_STALENESS_BUCKETS), OPAQUE(8), COUNT(9, 65536),
          KNOWN(10, "job.c:job_counts_take"),
          KNOWN(11, "job.c:job_counts_take"), COUNT(12, WIRE_PIECES_MAX),
          OPAQUE(12)),

    RULES(table_figures, NULL, RANGE(1, 0, TABLES_MOST - 1), OPAQUE(2),
          OPAQUE(3), OPAQUE(4), OPAQUE(5), OPAQUE(6), OPAQUE(7), OPAQUE(8),
          OPAQUE(9), OPAQUE(11), OPAQUE(12), OPAQUE(13), OPAQUE(14), OPAQUE(15),
          OPAQUE(16), OPAQUE(17), OPAQUE(18), OPAQUE(19), COUNT(20, TABLE_HOT),
          OPAQUE(20), COUNT(21, TABLE_HOT), OPAQUE(21)),
    RULES(rate_step, NULL, CLOSURE(1)),
    RULES(job_token, NULL, OPAQUE(1), OPAQUE(2)),
    RULES(attempt, NULL, OPAQUE(1), OPAQUE(2)),
    RULES(tag, NULL, OPAQUE(1), OPAQUE(2)),
    RULES(trace_span, NULL, KNOWN(1, "wire_coord.c:check_spans"), OPAQUE(2),
          KNOWN(3, "wire_coord.c:check_spans"),
          KNOWN(4, "wire_coord.c:check_spans"), OPAQUE(5), OPAQUE(6),
          OPAQUE(7)),
    RULES(epoch_count, NULL, RANGE(1, 0, WIRE_EPOCHS_MAX), OPAQUE(2), OPAQUE(3),
          OPAQUE(4)),

    // ---- coord.proto, upwards

    {OF(attend_up), NULL, 0, check_attend_up, false},
    {OF(attend_down), NULL, 0, check_attend_down, false},
    RULES(hello, check_hello,
          RANGE(1, SLUICE__V1__ROLE__ROLE_WORKER,
                SLUICE__V1__ROLE__ROLE_PSSERVER),
          NAME(2), OPAQUE(3), ADDRESS(4), OPAQUE(5), MAYBE_NAME(6),
          MAYBE_NAME(7), MAYBE_NAME(8), RANGE(9, WIRE_PROTOCOL, WIRE_PROTOCOL),
          OPAQUE(11), KNOWN(12, "cluster.c:cluster_judge"), OPAQUE(15),
          OPAQUE(17), OPAQUE(23), OPAQUE(25), OPAQUE(26)),
    RULES(heartbeat, NULL, OPAQUE(1), COUNT(2, 64), COUNT(3, WIRE_SHARDS_MAX),
          OPAQUE(5), MAYBE_NAME(7), KNOWN(50, "offset.c:offset_came"),
          OPAQUE(51), KNOWN(52, "offset.c:offset_heard"), OPAQUE(80),
          OPAQUE(81), OPAQUE(82), OPAQUE(85)),
    RULES(lease_progress, NULL, JOB(1), CLOSURE(2), FILL(3), FILL(4), OPAQUE(5),
          OPAQUE(9)),
    RULES(step_metrics, NULL, KNOWN(1, "reports.c:plausible"),
          KNOWN(2, "reports.c:plausible"), ANY_FLOAT(3),
          KNOWN(4, "reports.c:plausible"), KNOWN(5, "reports.c:plausible"),
          KNOWN(6, "reports.c:plausible"), OPAQUE(11), OPAQUE(12),
          COUNT(20, WIRE_BAD_MAX), OPAQUE(40), OPAQUE(41)),
    RULES(change, NULL, COUNT(2, WIRE_CHANGE_SUMS),
          RANGE(3, 0, SPEC_INNER_STEPS_MOST)),
    RULES(score_sums, NULL, KNOWN(1, "scores.c:scores_fit"),
          KNOWN(2, "scores.c:scores_fit"), KNOWN(3, "scores.c:scores_fit"),
          KNOWN(4, "scores.c:scores_fit"), ANY_FLOAT(5), ANY_FLOAT(6),
          COUNT(7, WIRE_SCORE_BUCKETS), KNOWN(7, "scores.c:buckets_fit"),
          COUNT(8, WIRE_SCORE_BUCKETS), KNOWN(8, "scores.c:buckets_fit")),
    RULES(bad_sample, NULL, RANGE(2, 0, UINT64_C(1) << 40),
          TEXT(3, WIRE_NAME_BYTES)),
    RULES(shard_report, NULL, JOB(1), SHARD(2), OPAQUE(3), FILL(4), OPAQUE(5),
          COUNT(6, TABLES_MOST), KNOWN(8, "evidence.c:evidence_not_held"),
          OPAQUE(9)),
    RULES(shard_hello, NULL, JOB(1), OPAQUE(2), SHARD(3),
          KNOWN(4, "admit.c:admit_judge"), FILL(5), FILL(6), FILL(7), OPAQUE(9),
          RANGE(10, 0, UINT64_C(1) << 62), OPAQUE(14)),
    RULES(snapshot_report, check_snapshot, JOB(1), OPAQUE(2), SHARD(3), FILL(4),
          PATHNAME(5), RANGE(6, 0, UINT64_C(1) << 50), BYTES(7, 0, 32), FILL(8),
          FILL(9), OPAQUE(10), OPAQUE(13), OPAQUE(16)),
    RULES(snapshot_chain, NULL, COUNT(1, TABLE_CHAIN_FILES), OPAQUE(2)),
    RULES(snapshot_file, NULL, FILE_NAME(1, 1)),
    RULES(complete, NULL, JOB(1), CLOSURE(2), FILL(3),
          COUNT(5, WIRE_SHARDS_MAX), FILL(6), OPAQUE(7), OPAQUE(8),
          KNOWN(10, "reports.c:take_by_map"), KNOWN(11, "reports.c:ended_ms"),
          COUNT(12, WIRE_REPEATS_MAX)),
    RULES(repeat, NULL, KNOWN(1, "suspects.c:suspects_take"), OPAQUE(2),
          OPAQUE(3), OPAQUE(4), KNOWN(10, "ring_results.c:key_index"),
          COUNT(11, WIRE_SKETCH_MAX),
          KNOWN(12, "group_audit.c:group_audit_vote")),
    RULES(completes, NULL, COUNT(1, WIRE_LEASES_MAX)),
    RULES(shard_evidence, NULL, SHARD(1), BORN(2)),
    RULES(attempt_failed, NULL, JOB(1), CLOSURE(2), FILL(3), RANGE(5, 0, 9999),
          OPAQUE(8)),
    RULES(hand_back, NULL, JOB(1), CLOSURE(2), FILL(3), OPAQUE(6),
          COUNT(7, WIRE_REPEATS_MAX)),
    RULES(job_deleted, NULL, JOB(1), OPAQUE(2)),
    RULES(map_wanted, NULL, JOB(1), OPAQUE(2)),
    RULES(rates_taken, NULL, JOB(1), OPAQUE(2), SHARD(3), CLOSURE(4)),
    RULES(feed_ended, NULL, JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4), OPAQUE(5)),
    RULES(replica_report, NULL, JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4),
          OPAQUE(5), OPAQUE(7)),

    RULES(ring_join, NULL, JOB(1), OPAQUE(2), FILL(3), ADDRESS(4),
          MAYBE_NAME(5)),
    RULES(ring_answer, NULL, JOB(1), OPAQUE(2), BORN(3), FILL(4)),
    RULES(ring_ready, NULL, JOB(1), OPAQUE(2), BORN(3), FILL(4), FILL(5),
          FILL(6)),
    RULES(ring_step, NULL, JOB(1), OPAQUE(2), BORN(3),
          KNOWN(4, "ring.c:ring_step"), FILL(5), COUNT(7, WIRE_ROUND_MAX)),
    RULES(ring_copied, NULL, JOB(1), OPAQUE(2), BORN(3), FILL(4)),
    RULES(ring_broken, check_ring_broken, JOB(1), OPAQUE(2), BORN(3),
          KNOWN(4, "wire_coord.c:check_ring_broken")),
    RULES(data_facts, NULL, RANGE(1, 0, UINT64_C(1) << 40),
          RANGE(2, 0, UINT64_C(1) << 40), OPAQUE(3), OPAQUE(4),
          COUNT(5, WIRE_MAX_FIELDS)),

    // ---- coord.proto, downwards

    RULES(welcome, NULL, RANGE(1, 1, UINT64_MAX), OPAQUE(2),
          RANGE(3, 1, 3600000), RANGE(4, 1, 3600000), OPAQUE(5),
          BYTES(7, 0, 32)),
    RULES(place, NULL, OPAQUE(1), REQUIRED(2), FILL(3), OPAQUE(5), OPAQUE(6),
          OPAQUE(9)),
    RULES(shard_spec, check_shard_spec, JOB(1), OPAQUE(2), SHARD(3),
          COUNT(4, WIRE_PIECES_MAX), COUNT(5, WIRE_VARIABLES_MAX),
          COUNT(6, WIRE_VARIABLES_MAX), OPAQUE(6), REQUIRED(7), REQUIRED(8),
          OPAQUE(9), NAME(10), OPAQUE(11), COUNT(12, WIRE_SHARDS_MAX),
          RANGE(13, 0, UINT64_C(1) << 24), RANGE(15, 0, WIRE_CONTRIBUTIONS_MAX),
          COUNT(20, RATES_MAX), COUNT(21, TABLES_MOST),
          RANGE(22, 0, WIRE_SHARDS_MAX), RANGE(24, 0, WIRE_CODES - 1),
          RANGE(25, 0, WIRE_CONTRIBUTIONS_MAX),
          KNOWN(27, "plan.c:read_moments"), KNOWN(28, "plan.c:read_moments"),
          RANGE(30, 0, WIRE_SHARDS_MAX - 1)),
    RULES(rows_quota, NULL, MAYBE_NAME(1), OPAQUE(3), OPAQUE(5)),
    RULES(table, NULL, NAME(1), RANGE(2, 1, TABLE_DIM_MOST),
          RANGE(3, 1, TABLE_BUCKETS_MOST), REQUIRED(7), OPAQUE(9), OPAQUE(11),
          OPAQUE(12)),
    RULES(rates, NULL, OPAQUE(1), JOB(2), OPAQUE(3), SHARD(4),
          COUNT(5, RATES_MAX), OPAQUE(6)),
    RULES(source_file, NULL, FILENAME(2), BYTES(3, 32, 32),
          KNOWN(5, "snap_weights.c:check_size"), MAYBE_NAME(6)),
    RULES(admit, NULL, OPAQUE(1), JOB(2), SHARD(3), BORN(4), OPAQUE(5)),
    RULES(refuse, NULL, OPAQUE(1), JOB(2), SHARD(3)),
    RULES(hello_wanted, NULL, OPAQUE(1), JOB(2), SHARD(3)),
    RULES(close_round, NULL, OPAQUE(1), JOB(2), OPAQUE(3), SHARD(4), CLOSURE(5),
          OPAQUE(6), OPAQUE(7)),
    RULES(snapshot_request, NULL, JOB(1), SHARD(2), OPAQUE(3), OPAQUE(4),
          OPAQUE(5), OPAQUE(7)),
    RULES(feed, NULL, OPAQUE(1), JOB(2), SHARD(3), OPAQUE(4), OPAQUE(5),
          ADDRESS(6)),
    RULES(replica_out, NULL, OPAQUE(1), JOB(2), SHARD(3), OPAQUE(4)),
    RULES(keep, NULL, OPAQUE(1), JOB(2), SHARD(3), COUNT(4, 100000)),
    RULES(close_job, NULL, OPAQUE(1), JOB(2), OPAQUE(4)),
    RULES(job_open, check_job_open, JOB(1), OPAQUE(2), NAME(3), REQUIRED(4),
          COUNT(6, WIRE_VARIABLES_MAX), COUNT(7, WIRE_PIECES_MAX),
          RANGE(12, 0, WIRE_SHARDS_MAX)),
    RULES(job_map, check_job_map, JOB(1), OPAQUE(2), COUNT(3, WIRE_SHARDS_MAX),
          OPAQUE(4)),
    RULES(map_entry, NULL, SHARD(1), ADDRESS(2), OPAQUE(3)),
    RULES(lease, check_lease, OPAQUE(1), JOB(2), OPAQUE(3), CLOSURE(4), FILL(5),
          RANGE(7, 0, WIRE_EPOCHS_MAX), RANGE(8, 0, UINT64_C(1) << 40),
          RANGE(9, 0, UINT64_C(1) << 40), RANGE(10, 0, WIRE_CLOSURE_STEPS_MAX),
          OPAQUE(11), OPAQUE(12), COUNT(13, WIRE_SHARDS_MAX),
          RANGE(41, 0, WIRE_KEYS_MAX)),
    RULES(leases, NULL, COUNT(1, WIRE_LEASES_MAX)),
    RULES(revoke, NULL, JOB(1), CLOSURE(2), FILL(3)),
    RULES(ring_open, NULL, OPAQUE(1), JOB(2), OPAQUE(3), BORN(4), OPAQUE(5)),
    RULES(ring_rank, NULL, OPAQUE(1), NAME(2), ADDRESS(3), MAYBE_NAME(4)),
    RULES(ring_begin, check_ring_begin, OPAQUE(1), JOB(2), OPAQUE(3), BORN(4),
          OPAQUE(5), COUNT_FROM(6, 1, WIRE_RANKS_MAX),
          KNOWN(7, "wire_coord.c:check_ring_begin"), FILL(8),
          COUNT(9, WIRE_RANKS_MAX), KNOWN(9, "wire_coord.c:check_ring_begin"),
          COUNT(10, WIRE_SHARDS_MAX), RANGE(11, 1, WIRE_CONTRIBUTIONS_MAX)),
    RULES(ring_copy, NULL, OPAQUE(1), JOB(2), OPAQUE(3), BORN(4), OPAQUE(5),
          COUNT_FROM(6, 1, WIRE_RANKS_MAX)),
    RULES(ring_go, NULL, OPAQUE(1), JOB(2), OPAQUE(3), BORN(4)),
    RULES(heartbeat_ack, NULL, OPAQUE(1)),
    RULES(staleness, NULL, RANGE(1, 0, SPEC_DELAY_MAX)),

    RULES(trace_start, NULL, JOB(1), JOB(2), RANGE(3, 1, WIRE_TRACE_MS_MAX)),
    RULES(trace_more, NULL, JOB(1)),
    RULES(trace_piece, check_trace_piece, JOB(1),
          COUNT(2, WIRE_TRACE_NAMES_MAX), COUNT(3, WIRE_TRACE_SPANS_MAX),
          OPAQUE(5)),

    RULES(log_more, NULL, JOB(1), OPAQUE(2), OPAQUE(3)),
    RULES(log_piece, NULL, JOB(1), FILL(2)),
    RULES(log_lines, NULL, BYTES(1, 0, WIRE_LOG_BYTES), OPAQUE(2)),

    // ---- ps.proto

    RULES(local_reply, NULL, TEXT(1, 64), TEXT(2, 4096), OPAQUE(3),
          MAYBE_NAME(4)),
    RULES(ask_request, NULL, JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4),
          KNOWN(5, "shard.c:shard_ask")),
    RULES(ask_reply, NULL, OPAQUE(1), OPAQUE(3)),
    RULES(push_request, NULL, JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4),
          KNOWN(5, "once.c:once_key"), RANGE(6, 0, WIRE_CLOSURE_STEPS_MAX - 1),
          OPAQUE(8), OPAQUE(9), OPAQUE(10), OPAQUE(11),
          KNOWN(20, "wire_ps_read.c:split_rows"),
          KNOWN(21, "wire_ps_read.c:check_more"), OPAQUE(22)),
    RULES(follow_request, NULL, JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4),
          OPAQUE(5), KNOWN(6, "shard.c:follows_locked")),
    RULES(follow_reply, NULL, KNOWN(1, "oplog.c:oplog_acked")),
    RULES(push_reply, NULL, OPAQUE(1), OPAQUE(4), OPAQUE(5), OPAQUE(8),
          OPAQUE(9)),
    RULES(pull_request, NULL, JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4), OPAQUE(8),
          OPAQUE(9), KNOWN(11, "tagged.c:tagged_file_records"), OPAQUE(13)),
    RULES(pull_reply, NULL, OPAQUE(1), OPAQUE(2), OPAQUE(5), OPAQUE(6),
          KNOWN(7, "table_export.c:records_fit"),
          KNOWN(8, "table_export.c:records_fit"), OPAQUE(9)),
    RULES(refused, NULL, OPAQUE(3)),
    RULES(shm_ref, NULL, OPAQUE(1), KNOWN(2, "wire_ps_read.c:check_shm"),
          KNOWN(3, "wire_ps_read.c:check_shm")),

    // ---- ranks.proto

    RULES(share_request, NULL, JOB(1), OPAQUE(2), OPAQUE(3),
          RANGE(4, 0, WIRE_LANES - 1)),
    RULES(piece_request, NULL, JOB(1), OPAQUE(2),
          KNOWN(3, "net.c:net_piece_fits"), KNOWN(4, "net.c:net_piece_fits"),
          KNOWN(5, "net.c:net_piece_fits"), KNOWN(6, "net.c:net_piece_fits"),
          RANGE(8, 0, WIRE_LANES - 1)),
    RULES(share_reply, NULL, OPAQUE(1), OPAQUE(2),
          KNOWN(3, "sum_host.c:host_join"), OPAQUE(4)),
    RULES(state_request, NULL, OPAQUE(1), OPAQUE(2),
          KNOWN(3, "ranks.c:read_state"), KNOWN(4, "ranks.c:read_state"),
          OPAQUE(5), KNOWN(6, "ranks.c:read_state"), OPAQUE(8)),

    // ---- jobs.proto

    RULES(submit_request, NULL, REQUIRED(1), MAYBE_NAME(2),
          COUNT(21, TABLES_MOST)),
    RULES(weights_file, NULL, FILENAME(2), BYTES(3, 32, 32),
          KNOWN(4, "snap_weights.c:check_size")),
    RULES(table_file, NULL, NAME(1), REQUIRED(2)),
    SHOWN(submit_reply, NULL, MAYBE_NAME(2), TEXT(3, 1 << 20)),
    RULES(job_request, NULL, NAME(1)),
    RULES(list_request, NULL, RANGE(1, 0, 10000),
          KNOWN(2, "status_list.c:find_next")),
    SHOWN(list_reply, NULL, COUNT(1, 10000)),
    RULES(stop_request, NULL, NAME(1)),
    RULES(pause_request, NULL, NAME(1), TEXT(3, 200), MAYBE_NAME(4)),
    RULES(checkpoint_request, NULL, NAME(1)),
    RULES(trace_request, NULL, NAME(1), RANGE(2, 1, WIRE_TRACE_MS_MAX)),
    SHOWN(trace_reply, check_trace_reply, RANGE(1, 1, UINT32_MAX), NAME(2),
          NAME(3), COUNT(7, WIRE_TRACE_NAMES_MAX),
          COUNT(8, WIRE_TRACE_SPANS_MAX)),
    RULES(logs_request, NULL, MAYBE_NAME(1), OPAQUE(2), OPAQUE(3)),
    SHOWN(checkpoint_reply, NULL, FILL(1), COUNT(5, 100000)),
    SHOWN(evaluation, NULL, ANY_FLOAT(2), ANY_FLOAT(3), COUNT(20, 64)),
    SHOWN(metric, NULL, NAME(1), ANY_FLOAT(2)),
    SHOWN(callbacks_status, NULL, COUNT(5, RATES_MAX), OPAQUE(7)),
    SHOWN(audit_status, NULL, OPAQUE(1), OPAQUE(2), OPAQUE(3)),
    SHOWN(local_status, NULL, COUNT(6, 1024)),
    SHOWN(contributor, NULL, NAME(1)),
    SHOWN(shard_status, NULL, SHARD(1), MAYBE_NAME(2), FILL(5),
          COUNT(7, TABLES_MOST)),
    SHOWN(job_status, NULL, JOB(1), NAME(2), NAME(3), ANY_FLOAT(13),
          ANY_FLOAT(14), COUNT(29, 65536), COUNT(36, WIRE_SHARDS_MAX)),
    RULES(checkpoint, NULL, OPAQUE(1), RANGE(4, 0, UINT64_C(1) << 50),
          RANGE(5, 0, WIRE_EPOCHS_MAX), OPAQUE(6), COUNT(8, WIRE_SHARDS_MAX)),
    RULES(checkpoint_shard, NULL, SHARD(1), MAYBE_NAME(2), ADDRESS(3), FILL(4),
          PATHNAME(6), RANGE(7, 0, UINT64_C(1) << 50), BYTES(8, 0, 32),
          OPAQUE(9)),
    RULES(checkpoints_reply, NULL, COUNT(1, 65536),
          COUNT(2, WIRE_VARIABLES_MAX), COUNT(3, WIRE_PIECES_MAX), OPAQUE(4),
          OPAQUE(5), COUNT(6, WIRE_MAX_FIELDS), COUNT(7, 100000),
          COUNT(8, TABLES_MOST), RANGE(9, 0, WIRE_SHARDS_MAX)),
    SHOWN(member_status, NULL, NAME(1), ADDRESS(4), COUNT(33, 100000)),
    SHOWN(tainted_work, NULL, NAME(1), NAME(2), COUNT(8, 1024)),
    SHOWN(cluster_reply, NULL, COUNT(1, 100000)),
    RULES(drain_request, NULL, NAME(1), MAYBE_NAME(2), TEXT(4, 200),
          MAYBE_NAME(5)),
    SHOWN(quota_tenant, NULL, FILL(2), FILL(3), FILL(4), FILL(5), FILL(6),
          FILL(7), FILL(8)),
    SHOWN(quota_reply, NULL, COUNT(1, 100000)),
    RULES(checkpoint_asked, NULL, KNOWN(1, "calls.c:read_wish"),
          KNOWN(2, "calls.c:read_wish")),
    RULES(resume_source, check_resume_source, OPAQUE(2), COUNT(7, TABLES_MOST)),

    // ---- events.proto

    RULES(events_request, NULL, MAYBE_NAME(1), OPAQUE(2),
          RANGE(3, 0, WIRE_EVENTS_MAX)),
    SHOWN(event, NULL, MAYBE_NAME(3), MAYBE_NAME(4), TEXT(5, 1024),
          MAYBE_NAME(7)),
    SHOWN(events_reply, NULL, COUNT(1, WIRE_EVENTS_MAX)),
    RULES(timeline_request, NULL, NAME(1),
          KNOWN(2, "status_events.c:status_add_ended_spans"),
          RANGE(3, 0, WIRE_SPANS_MAX)),
    SHOWN(span, NULL, FILL(3), MAYBE_NAME(4), MAYBE_NAME(5), MAYBE_NAME(8)),
    SHOWN(timeline_reply, NULL, COUNT(1, WIRE_SPANS_MAX)),
    RULES(history_request, NULL, NAME(1), OPAQUE(3)),
    SHOWN(history_point, NULL, ANY_FLOAT(4), ANY_FLOAT(5)),
    SHOWN(history_reply, NULL, COUNT(1, WIRE_POINTS_MAX)),

    // ---- tasks.proto

    RULES(task_asked, NULL, NAME(1), BYTES(2, 0, WIRE_TASK_BYTES)),
    RULES(task_schedule, NULL, NAME(1), RANGE(2, 1, UINT64_MAX),
          RANGE(3, 1, UINT64_C(1) << 62), COUNT(4, WIRE_TASKS_MAX),
          RANGE(5, 0, 1000000), OPAQUE(6), OPAQUE(7)),
    SHOWN(task_scheduled, NULL, COUNT(5, WIRE_TASK_LEFT_MAX)),
    RULES(task_ended_request, NULL, NAME(1), RANGE(2, 1, UINT64_MAX), OPAQUE(3),
          OPAQUE(4), RANGE(5, 0, WIRE_TASKS_MAX),
          KNOWN(6, "tasks_calls.c:visit_ended"),
          COUNT(7, WIRE_TASK_NUMBERS_MAX), OPAQUE(7)),
    SHOWN(task_ended, NULL, BYTES(4, 0, WIRE_TASK_BYTES)),
    SHOWN(task_ended_reply, NULL, COUNT(1, WIRE_TASKS_MAX)),
    RULES(task_cancel, NULL, NAME(1), RANGE(2, 1, UINT64_MAX), OPAQUE(3),
          COUNT(4, WIRE_TASK_NUMBERS_MAX), OPAQUE(4)),
    RULES(task_queues_request, NULL, MAYBE_NAME(1), MAYBE_NAME(2),
          RANGE(3, 0, 10000)),
    SHOWN(task_queues_reply, NULL, COUNT(1, 10000), COUNT(2, 10000)),
    RULES(task_delete, NULL, NAME(1), MAYBE_NAME(2)),
    RULES(task_result, NULL, RANGE(1, 1, UINT64_MAX),
          BYTES(2, 0, WIRE_TASK_BYTES)),
    RULES(task_work, NULL, MAYBE_NAME(1), NAME(2), RANGE(3, 1, UINT64_MAX),
          COUNT(4, WIRE_TASKS_MAX), NAME(4), COUNT(5, WIRE_TASKS_MAX),
          COUNT(6, WIRE_TASKS_MAX), OPAQUE(6), RANGE(7, 0, WIRE_TASKS_MAX),
          KNOWN(8, "tasks_work.c:visit_work")),
    RULES(task_given, NULL, OPAQUE(1), OPAQUE(2), NAME(3),
          BYTES(4, 0, WIRE_TASK_BYTES)),
    RULES(task_work_reply, NULL, COUNT(1, WIRE_TASKS_MAX),
          COUNT(2, WIRE_TASKS_MAX), OPAQUE(2), RANGE(3, 0, 3600000)),

    // ---- job.proto: caps; spec_check has the narrower bounds, in words

    RULES(job_spec, NULL, RANGE(14, 0, 100000), COUNT(15, MODEL_OUTPUTS_MAX)),
    RULES(model_spec, NULL, COUNT(2, WIRE_RANK_MAX),
          KNOWN(2, "model_shape.c:model_shape_elements"),
          COUNT(3, MODEL_LAYERS_MAX), COUNT(4, WIRE_VARIABLES_MAX), OPAQUE(6),
          COUNT(7, TABLES_MOST), COUNT(8, MODEL_OUTPUTS_MAX)),
    RULES(table_spec, NULL, RANGE(2, 0, TABLE_DIM_MOST),
          RANGE(3, 0, TABLE_BUCKETS_MOST)),
    RULES(table_admit_spec, NULL, OPAQUE(1)),
    RULES(table_evict_spec, NULL, OPAQUE(1), OPAQUE(2)),
    RULES(layer_spec, NULL, COUNT(3, MODEL_INPUTS_MAX),
          KNOWN(4, "model_kinds.c:build_layer"), COUNT(5, 8),
          RANGE(5, 0, WIRE_WINDOW_MAX), COUNT(6, 8),
          RANGE(6, 0, WIRE_STRIDE_MAX), KNOWN(10, "model_kinds.c:build_layer"),
          COUNT(11, 8), RANGE(11, 0, WIRE_STRIDE_MAX),
          KNOWN(18, "model_kinds.c:build_layer"), OPAQUE(21), COUNT(22, 8),
          RANGE(22, 0, WIRE_STRIDE_MAX), COUNT(25, 8),
          KNOWN(25, "model_kinds.c:build_layer"), COUNT(26, 8),
          KNOWN(26, "model_kinds.c:build_layer"), COUNT(28, 8),
          RANGE(28, 0, WIRE_WINDOW_MAX), KNOWN(29, "model_kinds.c:build_layer"),
          KNOWN(30, "model_kinds.c:build_layer"),
          KNOWN(33, "model_kinds.c:build_layer"),
          KNOWN(34, "model_kinds.c:build_layer"),
          KNOWN(36, "model_kinds.c:build_layer"),
          KNOWN(37, "model_kinds.c:build_layer"),
          KNOWN(38, "model_kinds.c:build_layer"),
          KNOWN(46, "model_kinds.c:build_layer"),
          RANGE(52, 0, TABLE_BUCKETS_MOST), COUNT(56, 8),
          RANGE(56, 0, WIRE_STRIDE_MAX), COUNT(57, 8),
          RANGE(57, 0, WIRE_STRIDE_MAX), KNOWN(58, "model_kinds.c:build_layer"),
          COUNT(59, 8), KNOWN(59, "model_kinds.c:build_layer"), COUNT(60, 8),
          KNOWN(60, "model_kinds.c:build_layer"), COUNT(62, MODEL_GIVEN_MAX),
          COUNT(63, MODEL_GIVEN_MAX), RANGE(77, 0, WIRE_STRIDE_MAX),
          KNOWN(78, "model_kinds.c:build_layer"), COUNT(80, MODEL_GIVEN_MAX),
          COUNT(81, MODEL_GIVEN_MAX), OPAQUE(81),
          KNOWN(82, "model_kinds.c:build_layer"), OPAQUE(83)),
    RULES(variable_spec, NULL, COUNT(2, WIRE_RANK_MAX),
          KNOWN(2, "layout.c:layout_rows")),
    RULES(optimizer_spec, NULL, COUNT(19, 64),
          RANGE(25, 0, WIRE_CONTRIBUTIONS_MAX)),
    RULES(optimizer_group, NULL, COUNT(1, 16384)),
    RULES(schedule_spec, NULL, RANGE(2, 0, UINT64_C(1) << 53),
          COUNT(5, RATE_POINTS_MAX), OPAQUE(5), COUNT(6, RATE_POINTS_MAX + 1),
          OPAQUE(12)),
    RULES(data_spec, NULL, RANGE(10, 0, SPEC_SKIP_BAD_MAX),
          COUNT(11, SPEC_CLASSES_BYTES / 2)),
    RULES(source_spec, NULL, COUNT(11, WIRE_MAX_FIELDS),
          RANGE(12, 0, UINT64_C(1) << 40), OPAQUE(13), RANGE(15, 0, 100000),
          RANGE(16, 0, UINT64_C(1) << 40), RANGE(17, 0, 16),
          COUNT(18, SPEC_IDS_MAX), COUNT(20, SPEC_AUGMENT_MAX),
          COUNT(22, WIRE_MAX_FIELDS), RANGE(23, 0, 1)),
    RULES(augment_spec, NULL, RANGE(1, 0, 1 << 14), COUNT(10, 2)),
    RULES(id_column_spec, NULL, OPAQUE(3)),
    RULES(feature_spec, NULL, COUNT(3, 2), RANGE(3, 0, 1 << 14),
          RANGE(4, 0, UINT64_C(1) << 53)),
    RULES(train_spec, NULL, RANGE(2, 0, UINT64_C(1) << 20),
          RANGE(3, 0, WIRE_EPOCHS_MAX), RANGE(4, 0, WIRE_CLOSURE_STEPS_MAX),
          OPAQUE(5), OPAQUE(8), RANGE(9, 0, 1000), OPAQUE(10),
          RANGE(11, 0, WIRE_SPARSE_MAX), RANGE(16, 0, UINT64_C(1) << 24),
          RANGE(17, 0, SPEC_DELAY_MAX), RANGE(20, 0, WIRE_CONTRIBUTIONS_MAX),
          RANGE(21, 0, WIRE_CONTRIBUTIONS_MAX), RANGE(24, 0, UINT64_C(1) << 30),
          RANGE(30, 0, SPEC_PRIORITY_MAX), RANGE(34, 0, WIRE_CONTRIBUTIONS_MAX),
          RANGE(35, 0, 3600000), RANGE(36, 0, FRAGMENTS_MOST),
          RANGE(37, 0, 1 << 20), COUNT(45, WIRE_MAX_FIELDS)),
    RULES(group_spec, NULL, RANGE(2, 0, WIRE_GROUP_MAX)),
    RULES(inner_spec, NULL, RANGE(1, 0, 1 << 20), RANGE(6, 0, 1 << 20),
          RANGE(11, 0, 1 << 20)),
    RULES(workers_spec, NULL, RANGE(1, 0, WIRE_RANKS_MAX),
          RANGE(2, 0, WIRE_RANKS_MAX)),
    RULES(placement_spec, NULL, RANGE(2, 0, PART_MAX_SHARDS),
          KNOWN(3, "part_cut.c:part_count"), KNOWN(4, "part_cut.c:part_count"),
          KNOWN(5, "part_cut.c:part_count"), RANGE(6, 0, UINT64_C(32) << 20),
          OPAQUE(7), KNOWN(9, "spec_train.c:check_replicas")),
    RULES(checkpoint_spec, NULL, RANGE(3, 0, 1000)),
    RULES(evaluate_spec, NULL, OPAQUE(1), RANGE(2, 0, UINT64_C(1) << 20),
          RANGE(3, 0, WIRE_CLOSURE_STEPS_MAX), COUNT(10, 64),
          RANGE(11, 0, 100000), OPAQUE(20)),
    RULES(early_stopping_spec, NULL, RANGE(3, 0, 1000000), OPAQUE(7)),
    RULES(reduce_on_plateau_spec, NULL, RANGE(3, 0, 1000000), OPAQUE(6)),

    // ---- clients show all that is in these

    {OF(callback_status), NULL, 0, NULL, true},
    {OF(job_pause), NULL, 0, NULL, true},
    {OF(group_status), NULL, 0, NULL, true},
    {OF(group_member), NULL, 0, NULL, true},
    {OF(member_usage), NULL, 0, NULL, true},
    {OF(tainted_range), NULL, 0, NULL, true},
    {OF(quota_figure), NULL, 0, NULL, true},
    {OF(drain_reply), NULL, 0, NULL, true},
    {OF(task_cancel_reply), NULL, 0, NULL, true},
    {OF(task_queue), NULL, 0, NULL, true},
    {OF(task_line), NULL, 0, NULL, true},
    {OF(task_delete_reply), NULL, 0, NULL, true},
};

const struct wire_rules *wire_rules_of(const ProtobufCMessageDescriptor *of)
{
    for (size_t i = 0; i < SL_COUNT(all); i++)
        if (all[i].of == of)
            return &all[i];
    return NULL;
}
