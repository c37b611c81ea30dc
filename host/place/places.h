// SPDX-License-Identifier: Apache-2.0
// host/place/places.h -- the places where a daemon may read what a job's spec
// names: prefixes of s3:// and https:// (--data-allow), and nothing else of the
// network.
//
// A user who submits a job names places; the operator says which may be read,
// by bucket or host, since a request comes from this host, which reaches more
// than the user. Redirects are not followed. A prefix ends between two parts of
// a name: "s3://b/a" allows s3://b/a/x, and not s3://b/ab. Keys of S3 are those
// of the store (host/store/store.h); a web server gets none.
//
// A file is read through pieces (host/place/fetch.h), of the version that it
// had when it was opened. Files are for reading alone.
//
// Threads  places_new, _allow, _free: one. The rest: any.
// Memory   places_free, when all files are closed. Strings are copied.
// Errors   as of common/base/roots.h, and those of object.h; a network that
//          does not answer is SL_EUNAVAIL. `err` may be NULL.
#ifndef HOST_PLACE_PLACES_H
#define HOST_PLACE_PLACES_H

#include <stdint.h>

#include "common/base/roots.h"
#include "common/run/expo.h"
#include "host/store/store.h"

struct places;

struct places_setup {
    struct store_setup store; // of S3; patience_ms is that of all places
    const char *cache;        // folder; NULL: no cache on the disk
    uint64_t cache_bytes;     // at least PIECES_LEAST (pieces.h)
};

// Makes an empty set of places, which allows none, opens the cache and starts
// the threads; asks no place. A web server is trusted by SSL_CERT_FILE, if that
// is set. SL_ENOTSUP: built without libcurl; SL_EINVAL: a wrong endpoint or
// region, or too small a cache; else what making the cache's folder says;
// SL_ENOMEM.
enum sl_err places_new(struct places **out, const struct places_setup *setup,
                       struct sl_error *err);
// Calls places_leave, joins the threads and frees, when all files are closed.
// NULL is allowed.
void places_free(struct places *p);

// Adds a prefix: "s3://bucket", "https://host/folder". SL_EINVAL: it is none,
// or has a pattern; SL_ENOMEM.
enum sl_err places_allow(struct places *p, const char *prefix,
                         struct sl_error *err);

// Returns what roots_read_places takes; it is of use until places_free. What is
// not below an allowed prefix is SL_EDENIED; a path without a key, or a list of
// a web server's names, is SL_EINVAL, and a list of over 262144 names
// SL_ERANGE. What a list says of an object is used instead of a request when
// that is next opened, for 10 s.
struct roots_places places_reader(struct places *p);

// Ends all that waits for a place, now and later: SL_ECANCELED. Does not wait.
// NULL is allowed.
void places_leave(struct places *p);

// Writes the figures; for NULL those of a process without places.
void places_measure(struct places *p, struct expo *e);

#endif
