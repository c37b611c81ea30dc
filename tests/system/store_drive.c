// SPDX-License-Identifier: Apache-2.0
// The file system over S3 in the hands of a test: a command per line of
// standard input, an answer per line of standard output, "ok ..." or the name
// of an error and its words.
//
//   store_drive ENDPOINT REGION CREDENTIALS PATIENCE_MS PART_BYTES
//
// "-" stands for an empty argument. Local files are named by their paths.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "host/store/s3.h"

#define MOST ((size_t)1 << 30)
#define WORDS 6
#define THREADS 8

static struct fs *fs;
static struct buf out;

typedef enum sl_err (*command_fn)(char **word, struct sl_error *err);

static enum sl_err local(struct buf *b, const char *path, struct sl_error *err)
{
    return fs_read_all(fs_posix(), path, MOST, b, err);
}

static enum sl_err keep(const char *path, const void *bytes, size_t n,
                        struct sl_error *err)
{
    return fs_write_durable(fs_posix(), path, bytes, n, err);
}

// put PATH LOCAL; new PATH LOCAL
static enum sl_err put(char **word, struct sl_error *err)
{
    struct buf b = BUF_INIT;
    enum sl_err rc = local(&b, word[2], err);

    if (rc == SL_OK && strcmp(word[0], "new") == 0)
        rc = fs_write_new(fs, word[1], b.data, b.len, err);
    else if (rc == SL_OK)
        rc = fs_write_durable(fs, word[1], b.data, b.len, err);
    buf_release(&b);
    return rc;
}

// stream PATH LOCAL PIECE END HEAD: in pieces, under PATH.tmp; HEAD replaces
// the first bytes; END: commit, or leave
static enum sl_err stream(char **word, struct sl_error *err)
{
    char temp[2048];
    struct buf b = BUF_INIT;
    struct fs_file *f = NULL;
    size_t piece = strtoull(word[3], NULL, 10), at = 0;
    enum sl_err rc = local(&b, word[2], err);

    snprintf(temp, sizeof(temp), "%s.tmp", word[1]);
    if (rc == SL_OK)
        rc = fs_open(fs, &f, temp, FS_WRITE, err);
    for (; rc == SL_OK && at < b.len; at += piece)
        rc = fs_write(f, b.data + at, b.len - at < piece ? b.len - at : piece,
                      err);
    if (rc == SL_OK && strcmp(word[5], "-") != 0)
        rc = fs_pwrite(f, 0, word[5], strlen(word[5]), err);
    if (rc == SL_OK && strcmp(word[4], "commit") == 0)
        rc = fs_commit(f, word[1], err);
    else if (f != NULL)
        fs_close(f);
    buf_release(&b);
    return rc;
}

// get PATH LOCAL
static enum sl_err get(char **word, struct sl_error *err)
{
    struct buf b = BUF_INIT;
    enum sl_err rc = fs_read_all(fs, word[1], MOST, &b, err);

    if (rc == SL_OK)
        rc = keep(word[2], b.data, b.len, err);
    buf_release(&b);
    return rc;
}

// map PATH LOCAL
static enum sl_err map(char **word, struct sl_error *err)
{
    struct fs_map m = {NULL, 0, NULL};
    struct fs_file *f;
    enum sl_err rc = fs_open(fs, &f, word[1], FS_READ, err);

    if (rc != SL_OK)
        return rc;
    rc = fs_map_file(f, &m, err);
    fs_close(f);
    if (rc == SL_OK)
        rc = keep(word[2], m.data, m.bytes, err);
    fs_unmap(fs, &m);
    return rc;
}

static struct fs_file *held;

// open PATH; then range OFFSET BYTES LOCAL, of what is open
static enum sl_err open_it(char **word, struct sl_error *err)
{
    fs_close(held);
    held = NULL;
    return fs_open(fs, &held, word[1], FS_READ, err);
}

static enum sl_err range(char **word, struct sl_error *err)
{
    size_t n = strtoull(word[2], NULL, 10), got = 0;
    void *to = sl_malloc(n);
    enum sl_err rc =
        fs_pread(held, strtoull(word[1], NULL, 10), to, n, &got, err);

    if (rc == SL_OK)
        rc = keep(word[3], to, got, err);
    sl_free(to);
    return rc;
}

static enum sl_err add_name(void *arg, const char *name)
{
    return buf_appendf(arg, " %s", name);
}

static enum sl_err list(char **word, struct sl_error *err)
{
    return fs_list(fs, word[1], add_name, &out, err);
}

static enum sl_err look(char **word, struct sl_error *err)
{
    struct fs_stat st;
    enum sl_err rc = fs_stat_path(fs, word[1], &st, err);

    if (rc == SL_OK)
        rc = buf_appendf(&out, " %s %" PRIu64 " %" PRIu64,
                         st.is_dir ? "dir" : "file", st.bytes, st.mtime_ns);
    return rc;
}

static enum sl_err remove_it(char **word, struct sl_error *err)
{
    return fs_unlink(fs, word[1], err);
}

static enum sl_err mkdirs(char **word, struct sl_error *err)
{
    return fs_mkdirs(fs, word[1], err);
}

// oom PATH LOCAL: the n-th allocation fails, for each n until none does; then
// all has been read and written
static enum sl_err oom(char **word, struct sl_error *err)
{
    char *write[WORDS] = {"stream", word[1], word[2], "50000", "commit", "-"};
    char *read[WORDS] = {"map", word[1], word[2]}, dir[2048];
    char *names[WORDS] = {"list", dir};
    unsigned refused = 0;
    enum sl_err rc;

    snprintf(dir, sizeof(dir), "%s", word[1]);
    *strrchr(dir, '/') = '\0';
    for (uint64_t n = 1;; n++) {
        sl_mem_fail_at(n);
        rc = stream(write, err);
        if (rc == SL_OK)
            rc = map(read, err);
        if (rc == SL_OK)
            rc = list(names, err);
        buf_reset(&out);
        if (!sl_mem_failed())
            break;
        refused += rc != SL_OK;
    }
    return rc == SL_OK ? buf_appendf(&out, " %u", refused) : rc;
}

struct racer {
    const char *path;
    unsigned number;
    enum sl_err rc;
};

static void *race_one(void *arg)
{
    struct racer *r = arg;

    r->rc = fs_write_new(fs, r->path, &r->number, sizeof(r->number), NULL);
    return NULL;
}

// race PATH: some at once; how many won, and how many came too late
static enum sl_err race(char **word, struct sl_error *err)
{
    struct racer racer[THREADS];
    pthread_t thread[THREADS];
    unsigned won = 0, late = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        racer[i] = (struct racer){word[1], i, SL_OK};
        pthread_create(&thread[i], NULL, race_one, &racer[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        won += racer[i].rc == SL_OK;
        late += racer[i].rc == SL_EEXIST;
    }
    return buf_appendf(&out, " %u %u", won, late);
}

// "name\tvalue\n" each, from hex.
static void pairs_of(struct sigv4_pair pair[SIGV4_PAIRS + 1], char *text)
{
    char *rest = NULL, *inner = NULL;
    size_t n = 0;

    for (char *line = strtok_r(text, "\n", &rest);
         line != NULL && n < SIGV4_PAIRS; line = strtok_r(NULL, "\n", &rest)) {
        pair[n].name = strtok_r(line, "\t", &inner);
        pair[n].value = strtok_r(NULL, "\t", &inner);
        if (pair[n].value == NULL)
            pair[n].value = "";
        n++;
    }
    pair[n].name = NULL;
}

static char *text_of_hex(const char *digits)
{
    size_t n = strcmp(digits, "-") == 0 ? 0 : strlen(digits) / 2;
    char *text = sl_calloc(1, n + 1);

    if (n > 0)
        (void)hex_decode(text, n, digits);
    return text;
}

// sign METHOD PATH QUERY HEADERS DATE: what is signed of it, with the secret
// "secret"; all but the method and date in hex
static enum sl_err sign(char **word, struct sl_error *err)
{
    struct sigv4_pair query[SIGV4_PAIRS + 1], header[SIGV4_PAIRS + 1];
    char *part[3];
    struct buf path = BUF_INIT;
    struct sigv4 s = {.method = word[1],
                      .query = query,
                      .header = header,
                      .payload = "UNSIGNED-PAYLOAD",
                      .region = "eu-central-1",
                      .service = "s3",
                      .key_id = "id",
                      .secret = "secret"};
    enum sl_err rc;

    for (size_t i = 0; i < SL_COUNT(part); i++)
        part[i] = text_of_hex(word[2 + i]);
    pairs_of(query, part[1]);
    pairs_of(header, part[2]);
    snprintf(s.date, sizeof(s.date), "%s", word[5]);
    rc = sigv4_encode(&path, part[0], true);
    s.path = buf_text(&path);
    if (rc == SL_OK)
        rc = buf_appendf(&out, " %s ", s.path);
    if (rc == SL_OK)
        rc = sigv4_query(&out, query);
    if (rc == SL_OK)
        rc = buf_append_char(&out, ' ');
    if (rc == SL_OK)
        rc = sigv4_sign(&out, &s);
    for (size_t i = 0; i < SL_COUNT(part); i++)
        sl_free(part[i]);
    buf_release(&path);
    return rc;
}

static const struct {
    const char *name;
    command_fn fn;
} commands[] = {{"put", put},          {"new", put},       {"stream", stream},
                {"get", get},          {"map", map},       {"open", open_it},
                {"range", range},      {"list", list},     {"stat", look},
                {"unlink", remove_it}, {"mkdirs", mkdirs}, {"race", race},
                {"oom", oom},          {"sign", sign}};

static enum sl_err obey(char *line, struct sl_error *err)
{
    char *word[WORDS] = {"", "-", "-", "-", "-", "-"}, *rest = NULL;

    for (size_t i = 0; i < WORDS; i++) {
        char *next = strtok_r(i == 0 ? line : NULL, " \n", &rest);

        if (next == NULL)
            break;
        word[i] = next;
    }
    for (size_t i = 0; i < SL_COUNT(commands); i++)
        if (strcmp(word[0], commands[i].name) == 0)
            return commands[i].fn(word, err);
    return sl_fail(err, SL_EINVAL, "no such command");
}

static const char *given(const char *argument)
{
    return strcmp(argument, "-") == 0 ? "" : argument;
}

int main(int argc, char **argv)
{
    const char *trust = getenv("AWS_CA_BUNDLE");
    char *line = NULL;
    size_t space = 0;
    struct s3 *s3;
    struct s3_setup setup;
    struct sl_error err = SL_ERROR_INIT;

    if (argc != 6)
        return 2;
    setup = (struct s3_setup){.endpoint = given(argv[1]),
                              .region = given(argv[2]),
                              .credentials = given(argv[3]),
                              .trust = trust == NULL ? "" : trust,
                              .patience_ms = (uint32_t)atoi(argv[4]),
                              .part_bytes = (size_t)atoll(argv[5])};
    if (s3_fs_new(&s3, &setup, &err) != SL_OK) {
        printf("%s %s\n", sl_err_name(err.code), err.text);
        return 1;
    }
    if (getenv("STORE_IN_NAME") != NULL)
        s3->by_path = false; // as at Amazon's endpoints
    fs = &s3->fs;
    while (getline(&line, &space, stdin) > 0) {
        enum sl_err rc;

        buf_reset(&out);
        rc = obey(line, &err);
        if (rc == SL_OK)
            printf("ok%s\n", buf_text(&out));
        else
            printf("%s %s\n", sl_err_name(rc), err.text);
        fflush(stdout);
    }
    fs_close(held);
    s3_free(s3);
    buf_release(&out);
    free(line);
    return 0;
}
