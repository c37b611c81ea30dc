// SPDX-License-Identifier: Apache-2.0
// coordinator/service/quorum.c -- asking the members of etcd, one by one.
#include "coordinator/service/quorum.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/net/tls_peer.h"

#define FIRST_MS 1000
#define EVERY_MS 10000
#define LIMIT_MS 1000
// etcd does not say its quota. This one is the default, and what is above three
// quarters of it has to be seen before writes fail.
#define QUOTA_BYTES (UINT64_C(2) << 30)
#define CROWDED_BYTES (QUOTA_BYTES / 2)    // used, with values of before
#define DEFRAG_BYTES (UINT64_C(256) << 20) // a smaller file wastes little
#define TROUBLE 1000

enum quorum_state { UNASKED, WELL, SILENT, LEADERLESS, FULL, QUORUM_STATES };

static const char *const quorum_states[QUORUM_STATES] = {
    [WELL] = "well",
    [SILENT] = "silent",
    [LEADERLESS] = "leaderless",
    [FULL] = "full",
};

struct quorum_member {
    struct etcd *etcd;
    char address[300];
    char trouble[TROUBLE];   // under the lock; "": nothing is amiss
    uint64_t used;           // likewise: of its database; 0: it does not answer
    uint64_t bytes;          // likewise: of the file
    enum quorum_state state; // likewise
};

struct quorum {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, ending;
    struct quorum_member member[RPC_ADDRESSES_MAX];
    size_t count;
    struct tls_files *files;    // of the certificate for etcd; NULL: none
    char *file;                 // of the certificate, owned
    char cert_trouble[TROUBLE]; // under the lock, as a member's
};

// Says whether etcd of this version may lose what it has answered: one member
// alone before 3.4.21 and 3.5.5, several before 3.5.3.
static bool quorum_is_old(const char *version)
{
    unsigned major, minor, patch;

    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3 || major > 3)
        return false;
    return major < 3 || minor < 4 || (minor == 4 && patch < 21) ||
           (minor == 5 && patch < 5);
}

void quorum_judge(char *out, size_t size, const char *address,
                  const struct etcd_status *said, const char *why)
{
    char bytes[BYTES_TEXT], used[BYTES_TEXT];

    out[0] = '\0';
    if (said == NULL)
        snprintf(out, size,
                 "etcd: member %s does not answer: %.200s. A coordinator leads "
                 "only while most members run: start it again",
                 address, why);
    else if (said->full)
        snprintf(
            out, size,
            "etcd: member %s has no space left (alarm NOSPACE), so nothing "
            "is accepted: compact, defragment and disarm it "
            "(docs/operations.md, The journal in etcd)",
            address);
    else if (!said->led)
        snprintf(out, size,
                 "etcd: member %s knows no leader: most members are away, or "
                 "it is cut off from them",
                 address);
    else if (quorum_is_old(said->version))
        snprintf(out, size,
                 "etcd: member %s has version %s, which may lose what it has "
                 "answered: upgrade it to 3.4.21, 3.5.5 or later",
                 address, said->version);
    else if (said->bytes > QUOTA_BYTES / 4 * 3)
        snprintf(out, size,
                 "etcd: the database of member %s has %s, and the default "
                 "limit is %s: compact and defragment it, or raise "
                 "--quota-backend-bytes",
                 address, bytes_text(bytes, said->bytes),
                 bytes_text(used, QUOTA_BYTES));
    else if (said->bytes > DEFRAG_BYTES && said->used < said->bytes / 2)
        snprintf(out, size,
                 "etcd: the database of member %s has %s and uses %s of them: "
                 "etcdctl defrag --endpoints %s, while the cluster is quiet",
                 address, bytes_text(bytes, said->bytes),
                 bytes_text(used, said->used), address);
}

void quorum_judge_cert(char *out, size_t size, const char *file, int64_t left_s)
{
    out[0] = '\0';
    if (left_s < 0)
        snprintf(out, size,
                 "etcd: the certificate %s expired %lld days ago, and etcd "
                 "refuses it: replace the file",
                 file, (long long)(-left_s / TLS_DAY_S));
    else if (left_s < TLS_SOON_DAYS * TLS_DAY_S)
        snprintf(out, size,
                 "etcd: the certificate %s has %lld days left: replace the "
                 "file",
                 file, (long long)(left_s / TLS_DAY_S));
}

// Returns the state of a member that said that; NULL: it does not answer.
static enum quorum_state quorum_state_of(const struct etcd_status *said)
{
    return said == NULL ? SILENT
           : said->full ? FULL
           : !said->led ? LEADERLESS
                        : WELL;
}

static void quorum_look_at_cert(struct quorum *q)
{
    char text[TROUBLE];
    time_t ends, crl;

    if (q->files == NULL)
        return;
    tls_files_ends(q->files, &ends, &crl);
    quorum_judge_cert(text, sizeof(text), q->file, ends - time(NULL));
    pthread_mutex_lock(&q->lock);
    memcpy(q->cert_trouble, text, sizeof(text));
    pthread_mutex_unlock(&q->lock);
}

static void quorum_ask(struct quorum *q, struct quorum_member *m)
{
    struct sl_error err = SL_ERROR_INIT;
    struct etcd_status said;
    char text[TROUBLE];
    enum sl_err rc = etcd_status(m->etcd, LIMIT_MS, &said, &err);
    const struct etcd_status *heard = rc == SL_OK ? &said : NULL;

    quorum_judge(text, sizeof(text), m->address, heard, err.text);
    pthread_mutex_lock(&q->lock);
    memcpy(m->trouble, text, sizeof(text));
    m->used = heard != NULL ? heard->used : 0;
    m->bytes = heard != NULL ? heard->bytes : 0;
    m->state = quorum_state_of(heard);
    pthread_mutex_unlock(&q->lock);
}

// Waits so long, or until quorum_free, and then returns false.
static bool quorum_wait(struct quorum *q, uint64_t ms)
{
    struct deadline until = deadline_in_ms(ms);
    bool ending;

    pthread_mutex_lock(&q->lock);
    while (!q->ending && deadline_wait(&until, &q->changed, &q->lock))
        ;
    ending = q->ending;
    pthread_mutex_unlock(&q->lock);
    return !ending;
}

static void *quorum_run(void *arg)
{
    struct quorum *q = arg;
    bool goes_on = quorum_wait(q, FIRST_MS);

    while (goes_on) {
        for (size_t i = 0; goes_on && i < q->count; i++) {
            quorum_ask(q, &q->member[i]);
            goes_on = quorum_wait(q, 0);
        }
        quorum_look_at_cert(q);
        goes_on = goes_on && quorum_wait(q, EVERY_MS);
    }
    return NULL;
}

// Makes the client of the member whose address is the first `n` bytes of `at`.
static enum sl_err quorum_add(struct quorum *q, struct rpc_io *io,
                              const char *at, size_t n,
                              const struct rpc_tls *tls, struct sl_error *err)
{
    struct quorum_member *m = &q->member[q->count];
    char url[sizeof(m->address) + 32];
    enum sl_err rc;

    if (q->count == RPC_ADDRESSES_MAX || n >= sizeof(m->address))
        return sl_fail(err, SL_EINVAL,
                       "%.100s: more than %d members of etcd, or a long name",
                       at, RPC_ADDRESSES_MAX);
    snprintf(m->address, sizeof(m->address), "%.*s", (int)n, at);
    snprintf(url, sizeof(url), ETCD_SCHEME "%s/x", m->address);
    rc = etcd_new(&m->etcd, io, url, tls, err);
    if (rc == SL_OK)
        q->count++;
    return rc;
}

static enum sl_err quorum_open_cert(struct quorum *q, const struct rpc_tls *tls,
                                    struct sl_error *err)
{
    q->file = sl_strdup(tls->cert_file);
    return q->file == NULL ? sl_no_memory(err)
                           : tls_files_open(&q->files, tls, err);
}

enum sl_err quorum_new(struct quorum **out, struct rpc_io *io, const char *url,
                       const struct rpc_tls *tls, struct sl_error *err)
{
    struct quorum *q = sl_calloc(1, sizeof(*q));
    const char *at = url + strlen(ETCD_SCHEME);
    enum sl_err rc = SL_OK;

    if (q == NULL)
        return sl_no_memory(err);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    do {
        size_t n = strcspn(at, ",/");

        rc = quorum_add(q, io, at, n, tls, err);
        at += n + (at[n] == ',');
    } while (rc == SL_OK && at[0] != '/' && at[0] != '\0');
    if (rc == SL_OK && tls != NULL)
        rc = quorum_open_cert(q, tls, err);
    if (rc == SL_OK && pthread_create(&q->thread, NULL, quorum_run, q) != 0)
        rc = sl_fail(err, SL_ENOMEM, "no thread to ask etcd");
    if (rc != SL_OK) {
        quorum_free(q);
        return rc;
    }
    q->runs = true;
    *out = q;
    return SL_OK;
}

bool quorum_trouble(struct quorum *q, size_t i, char *out, size_t size)
{
    bool found = false;

    if (q == NULL)
        return false;
    pthread_mutex_lock(&q->lock);
    for (size_t at = 0; !found && at <= q->count; at++) {
        const char *text =
            at < q->count ? q->member[at].trouble : q->cert_trouble;

        found = text[0] != '\0' && i-- == 0;
        if (found)
            snprintf(out, size, "%s", text);
    }
    pthread_mutex_unlock(&q->lock);
    return found;
}

bool quorum_crowded(struct quorum *q, struct sl_error *err)
{
    const struct quorum_member *m = NULL;
    char used[BYTES_TEXT];

    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->count && m == NULL; i++)
        if (q->member[i].used > CROWDED_BYTES)
            m = &q->member[i];
    if (m != NULL)
        sl_fail(err, SL_EBUSY,
                "the database of etcd's member %s uses %s, with values of "
                "before: compact it more often (docs/operations.md, The "
                "journal in etcd)",
                m->address, bytes_text(used, m->used));
    pthread_mutex_unlock(&q->lock);
    return m != NULL;
}

// Adds the members by state, and sets *bytes to the largest database.
static void quorum_count(struct quorum *q, uint64_t members[QUORUM_STATES],
                         uint64_t *bytes)
{
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->count; i++) {
        members[q->member[i].state]++;
        if (q->member[i].bytes > *bytes)
            *bytes = q->member[i].bytes;
    }
    pthread_mutex_unlock(&q->lock);
}

void quorum_measure(struct quorum *q, struct expo *e)
{
    uint64_t members[QUORUM_STATES] = {0}, bytes = 0;

    if (q != NULL)
        quorum_count(q, members, &bytes);
    expo_family(e, "sluice_etcd_members", EXPO_GAUGE,
                "Members of the etcd that has the journal, by what they said "
                "last.");
    for (int i = WELL; i < QUORUM_STATES; i++)
        expo_value(e, (double)members[i], "state", quorum_states[i], NULL);
    expo_single(e, "sluice_etcd_database_bytes", EXPO_GAUGE,
                "Largest database of a member of etcd; 0: no journal is in "
                "etcd, or none answers.",
                (double)bytes);
}

void quorum_free(struct quorum *q)
{
    if (q == NULL)
        return;
    pthread_mutex_lock(&q->lock);
    q->ending = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (q->runs)
        pthread_join(q->thread, NULL);
    for (size_t i = 0; i < q->count; i++)
        etcd_free(q->member[i].etcd);
    tls_files_close(q->files);
    sl_free(q->file);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    sl_free(q);
}
