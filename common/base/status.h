// SPDX-License-Identifier: Apache-2.0
// common/base/status.h -- error codes and texts, the same in all of Sluice.
//
// A function that can fail returns enum sl_err; SL_OK is 0. If it also takes a
// `struct sl_error *err` (always last), then on failure *err names the tensor,
// peer or path that failed; on success *err stays unchanged. NULL is allowed
// unless the header says that it is not. Library code never logs an error it
// also returns: the function that ends the story, in an api.c or main.c, does.
// Numbers cross the wire: append, never reorder. The gRPC status beside each
// code is what a client in another language sees.
//
// Threads  all functions: any.
// Memory   struct sl_error is a value; it owns nothing. Strings that these
//          return are literals.
#ifndef COMMON_BASE_STATUS_H
#define COMMON_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

// X(code, gRPC status, sentence)
#define SL_ERR_MAP(X)                                                          \
    X(OK, OK, "ok")                                                            \
    X(EINVAL, INVALID_ARGUMENT, "invalid argument")                            \
    X(ERANGE, INVALID_ARGUMENT, "range lies outside the tensor")               \
    X(ENOENT, NOT_FOUND, "not found")                                          \
    X(EEXIST, ALREADY_EXISTS, "exists already")                                \
    X(ESTALE, FAILED_PRECONDITION, "a newer term, map or attempt holds")       \
    X(ESTATE, FAILED_PRECONDITION, "not possible in this state")               \
    X(EBUSY, RESOURCE_EXHAUSTED, "over the limit for now; try again later")    \
    X(ENOMEM, RESOURCE_EXHAUSTED, "out of memory")                             \
    X(ECORRUPT, DATA_LOSS, "checksum or format does not hold")                 \
    X(EIO, INTERNAL, "input or output failed")                                 \
    X(ECANCELED, CANCELLED, "canceled")                                        \
    X(ETIMEDOUT, DEADLINE_EXCEEDED, "timed out")                               \
    X(EUNAVAIL, UNAVAILABLE, "peer is not reachable")                          \
    X(ENOTSUP, UNIMPLEMENTED, "not supported")                                 \
    X(EDENIED, PERMISSION_DENIED, "not allowed")                               \
    X(EAUTH, UNAUTHENTICATED, "identity is not proven")                        \
    X(ENUMERIC, INVALID_ARGUMENT, "a value is not finite")                     \
    X(ELOST, ABORTED, "device or process is lost")                             \
    X(EPREEMPTED, ABORTED, "preempted, with notice")                           \
    X(EINTERNAL, INTERNAL, "a bug: an invariant does not hold")

enum sl_err {
#define SL_ERR_ENUM(code, grpc, text) SL_##code,
    SL_ERR_MAP(SL_ERR_ENUM)
#undef SL_ERR_ENUM
        SL_ERR_COUNT
};

#define SL_ERROR_TEXT 1000 // long enough for lists of all known names

// An error: what failed, where, and if possible what to do next. One sentence
// without a full stop, e.g. "examples/a.yaml:7: unknown key 'modle'; did you
// mean 'model'?".
struct sl_error {
    enum sl_err code;
    char text[SL_ERROR_TEXT];
};
#define SL_ERROR_INIT                                                          \
    {                                                                          \
        SL_OK, ""                                                              \
    }

// Fills *err (NULL allowed) and returns `code`, so that a failing line reads
// `return sl_fail(err, SL_EINVAL, "...", ...)`. Long texts are cut. The
// arguments must not lie in *err.
enum sl_err sl_fail(struct sl_error *err, enum sl_err code, const char *fmt,
                    ...) __attribute__((format(printf, 3, 4)));

// Fills *err (NULL allowed) with "out of memory" and returns SL_ENOMEM.
enum sl_err sl_no_memory(struct sl_error *err);

// Puts "prefix: " before the text of *err (NULL allowed), to say where the
// error happened; an empty text is that of `code`. Long texts are cut. Sets
// err->code to `code` and returns it. The arguments must not lie in *err.
enum sl_err sl_prefix(struct sl_error *err, enum sl_err code, const char *fmt,
                      ...) __attribute__((format(printf, 3, 4)));

// Returns the name of `code`, "SL_EINVAL"; "SL_UNKNOWN" for a number beyond the
// table. Never NULL.
const char *sl_err_name(enum sl_err code);

// Returns the sentence of `code` in the table above, or one for numbers beyond
// it; never NULL.
const char *sl_err_text(enum sl_err code);

// Returns the number of the gRPC status of `code`; UNKNOWN for a number beyond
// the table.
int sl_err_to_grpc(enum sl_err code);

// Returns the code of a gRPC status. Where several codes share the status, it
// is SL_EINVAL, SL_ESTATE, SL_EBUSY, SL_ELOST or SL_EINTERNAL. OUT_OF_RANGE is
// SL_ERANGE; UNKNOWN, and a number that gRPC does not have, SL_EINTERNAL.
enum sl_err sl_err_from_grpc(int grpc_status);

// Returns true for errors that may pass: EUNAVAIL, ETIMEDOUT, EBUSY, ELOST.
bool sl_err_transient(enum sl_err code);

// Returns the code of an errno, SL_OK for 0. ENOENT, EEXIST, ENOMEM, EBUSY,
// EINVAL, ETIMEDOUT and ECANCELED have the code of their name. ENOTDIR is
// SL_ENOENT; ENOTEMPTY SL_EEXIST; EACCES, EPERM and EROFS SL_EDENIED; EAGAIN,
// EMFILE and ENFILE SL_EBUSY; EISDIR and ENAMETOOLONG SL_EINVAL; ENOSYS and
// EOPNOTSUPP SL_ENOTSUP; EPIPE, and a connection refused, reset or without a
// route, SL_EUNAVAIL. Any other, as ENOSPC, EINTR, ERANGE or ESTALE, is SL_EIO.
enum sl_err sl_err_from_errno(int errnum);

// Returns the struct of `type` whose member `member` is *ptr, not NULL.
#define sl_container_of(ptr, type, member)                                     \
    ((type *)((char *)(ptr)-offsetof(type, member)))
// Returns the number of elements of an array (not of a pointer), as size_t.
#define SL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
