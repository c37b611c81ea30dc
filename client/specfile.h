// SPDX-License-Identifier: Apache-2.0
// client/specfile.h -- from a file that people write to a checked JobSpec.
//
//     bytes -> YAML or JSON -> --set -> paths made absolute -> JobSpec ->
//     spec_check
//
// Data paths that are relative are meant relative to the spec file's folder,
// since workers start elsewhere. "-" reads standard input (relative to the
// working folder).
//
// Threads  any.
// Memory   the spec is the caller's: wire_free.
// Errors   SL_EINVAL with "file:line: path: reason" wherever a line is known.
#ifndef CLIENT_SPECFILE_H
#define CLIENT_SPECFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/job.pb-c.h"

// sets[i] is "train.epochs=2" or "model.layers[0].units=32"; the value is
// read as YAML.
enum sl_err specfile_load(Sluice__V1__JobSpec **out, const char *path,
                          const char *const *sets, size_t count,
                          struct sl_error *err);

// The steps. specfile_parse: *lines as in yaml.h, or empty.
enum sl_err specfile_parse(json_t **out, json_t **lines, const char *name,
                           const char *text, size_t len, struct sl_error *err);
enum sl_err specfile_set(json_t *root, const char *set, struct sl_error *err);
enum sl_err specfile_paths(json_t *root, const char *folder,
                           struct sl_error *err);
// The last two. `name` is what the text was called; it begins the error.
enum sl_err specfile_spec(Sluice__V1__JobSpec **out, json_t *root,
                          const char *name, struct sl_error *err);

// All of a file of at most so many bytes, or of standard input ("-"), and what
// to call it.
enum sl_err specfile_read(struct buf *out, const char *path, size_t most,
                          struct sl_error *err);
const char *specfile_name(const char *path);

// What a file says, parsed, with its paths made absolute. *lines as above.
enum sl_err specfile_open(json_t **out, json_t **lines, const char *path,
                          struct sl_error *err);

// An error of what a --set gave is not one of the file: "a.yaml: train.batch:
// ..." becomes "--set train.batch=x: train.batch: ...". False: none of them
// did.
bool specfile_blame_set(struct sl_error *err, const char *name,
                        const char *const *sets, size_t count);

// Puts the line into an error: "a.yaml: train.batch: ..." becomes
// "a.yaml:12: train.batch: ..." where `lines` knows train.batch, or else what
// it is in.
void specfile_locate(struct sl_error *err, const char *name,
                     const json_t *lines);

// Appends a warning line per data file that is not on this host.
enum sl_err specfile_missing(struct buf *out, const Sluice__V1__JobSpec *spec);

#endif
