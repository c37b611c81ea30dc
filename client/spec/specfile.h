// SPDX-License-Identifier: Apache-2.0
// client/spec/specfile.h -- from a file that people write to a checked JobSpec.
//
//     bytes -> YAML or JSON -> --set -> paths made absolute -> JobSpec ->
//     spec_check
//
// Data paths that are relative are meant relative to the spec file's folder,
// since workers start elsewhere. "-" reads standard input (relative to the
// working folder).
//
// Threads  any.
// Memory   the spec is the caller's: wire_free. JSON values are borrowed, or
//          given as references of the caller's.
// Errors   SL_EINVAL: the text or the spec, from specfile_load with "file:line:
//          path: reason" wherever a line is known; SL_ERANGE: over a limit of
//          yaml.h, json.h or spec_check; those of reading the file (SL_ENOENT,
//          ...); SL_ENOMEM. *out and *lines are then untouched; `err` may be
//          NULL, but for specfile_locate and specfile_blame_set.
#ifndef CLIENT_SPEC_SPECFILE_H
#define CLIENT_SPEC_SPECFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/job.pb-c.h"

// Reads the spec file `path` ("-": standard input), applies sets[count] in
// turn, and checks the spec. sets[i] is "train.epochs=2" or
// "model.layers[0].units=32"; the value is read as YAML.
enum sl_err specfile_load(Sluice__V1__JobSpec **out, const char *path,
                          const char *const *sets, size_t count,
                          struct sl_error *err);

// ---- the steps

// Parses text[len], behind which a 0 stands, called `name` in errors: as JSON
// if the name ends in ".json" or the text is a JSON object, else as YAML. *out
// is an object (else SL_EINVAL); *lines is as in yaml.h, and empty for JSON.
// Both are the caller's references.
enum sl_err specfile_parse(json_t **out, json_t **lines, const char *name,
                           const char *text, size_t len, struct sl_error *err);
// Sets one value, "train.epochs=2", in the object `root`; the value is read as
// YAML, nothing behind '=' is "". Objects on the way are made; a list's element
// must be there. SL_EINVAL: it has no '=', a value that is no YAML, or there is
// no such place; objects that were made on the way stay.
enum sl_err specfile_set(json_t *root, const char *set, struct sl_error *err);
// Joins relative paths x and y of data.train and data.test, and sample_weight
// where there is y, to `folder`, an absolute path without links, and takes '.'
// and '..' out of them; leaves absolute and remote ones (remote_is) alone.
// SL_ENOMEM.
enum sl_err specfile_paths(json_t *root, const char *folder,
                           struct sl_error *err);
// Makes a spec of `root`, which is borrowed, and checks it as that of a new job
// (spec_check, spec_check_new). `name` is what the text was called; it begins
// the error of a value of the wrong form, those of the checks begin with the
// field (specfile_locate adds the name).
enum sl_err specfile_spec(Sluice__V1__JobSpec **out, json_t *root,
                          const char *name, struct sl_error *err);

// Appends a file of at most `most` bytes, or standard input ("-") to its end,
// for which it waits. SL_ERANGE: it is longer; after a failure `out` may hold a
// part.
enum sl_err specfile_read(struct buf *out, const char *path, size_t most,
                          struct sl_error *err);
// Returns what to call `path` in errors: itself, or "standard input".
const char *specfile_name(const char *path);

// Reads and parses file `path` ("-": standard input) of at most YAML_BYTES_MAX
// bytes (else SL_ERANGE), and makes its paths absolute. *lines as in
// specfile_parse. *out and *lines are the caller's references; both are
// unchanged on failure.
enum sl_err specfile_open(json_t **out, json_t **lines, const char *path,
                          struct sl_error *err);

// Changes an error so that it names the --set that gave the wrong value,
// instead of the file `name`: "a.yaml: train.batch: ..." becomes "--set
// train.batch=x: train.batch: ...". Returns false, with *err as it was, if none
// of sets[count] gave it.
bool specfile_blame_set(struct sl_error *err, const char *name,
                        const char *const *sets, size_t count);

// Puts the line into an error: "a.yaml: train.batch: ..." becomes
// "a.yaml:12: train.batch: ..." where `lines` knows train.batch, or else what
// it is in; else, and with `lines` NULL, the error begins with `name` alone.
void specfile_locate(struct sl_error *err, const char *name,
                     const json_t *lines);

// Appends a line with a warning for each data file in the spec that cannot be
// read on this host; remote ones are not looked at. SL_ENOMEM.
enum sl_err specfile_missing(struct buf *out, const Sluice__V1__JobSpec *spec);

#endif
