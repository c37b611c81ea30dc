// SPDX-License-Identifier: Apache-2.0
// client/spec/specfile.c -- the merge of a YAML file with --set, and what
// becomes of names and paths in it.
#include "client/spec/specfile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/yaml.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/remote.h"
#include "common/base/utf8.h"
#include "proto/pbjson.h"
#include "proto/spec.h"
#include "proto/wire.h"

#define WORD_MAX 256            // of one name in a path
#define TOP_KEY "unknown key '" // a text that begins so has no path before it

// ---- parse

enum sl_err specfile_parse(json_t **out, json_t **lines, const char *name,
                           const char *text, size_t len, struct sl_error *err)
{
    size_t blank = strspn(text, " \t\r\n");
    bool named_json = utf8_ends_with(name, ".json");
    json_t *root = NULL, *where = NULL;
    enum sl_err rc;

    // JSON in a file called .yaml is fine; what only looks like it is YAML.
    if (named_json || text[blank] == '{') {
        rc = sl_json_parse(&root, name, text, len, NULL,
                           named_json ? err : NULL);
        if (rc == SL_OK)
            where = json_object();
        else if (named_json)
            return rc;
    }
    if (root == NULL) {
        rc = yaml_read(&root, &where, name, text, len, err);
        if (rc != SL_OK)
            return rc;
    }
    if (where == NULL) {
        json_decref(root);
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", name);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        json_decref(where);
        return sl_fail(err, SL_EINVAL,
                       "%s: a job spec is a mapping of keys; see examples/",
                       name);
    }
    *out = root;
    *lines = where;
    return SL_OK;
}

// ---- --set

// Takes the next part of "model.layers[0].units" off *path: a name, or an
// index (then *index is set and word is ""). False at a syntax error.
static bool next_part(const char **path, char word[WORD_MAX], size_t *index)
{
    const char *p = *path;

    if (*p == '[') {
        char *end;

        *index = strtoul(p + 1, &end, 10);
        word[0] = '\0';
        if (end == p + 1 || *end != ']')
            return false;
        p = end + 1;
    } else {
        size_t n = strcspn(p, ".[");

        if (n == 0 || n >= WORD_MAX)
            return false;
        memcpy(word, p, n);
        word[n] = '\0';
        p += n;
    }
    if (*p == '.' && p[1] != '\0')
        p++;
    *path = p;
    return *p == '\0' || *p == '[' || p[-1] == '.';
}

// The container inside `node` that `word` or `index` names; made if missing.
static json_t *step_into(json_t *node, const char *word, size_t index)
{
    json_t *next;

    if (word[0] == '\0')
        return json_array_get(node, index);
    if (!json_is_object(node))
        return NULL;
    next = json_object_get(node, word);
    if (next == NULL && json_object_set_new(node, word, json_object()) == 0)
        next = json_object_get(node, word);
    return next;
}

static enum sl_err assign(json_t *node, const char *word, size_t index,
                          json_t *value, const char *set, struct sl_error *err)
{
    int rc;

    if (word[0] == '\0')
        rc = json_array_set(node, index, value);
    else
        rc = json_object_set(node, word, value);
    if (rc != 0)
        return sl_fail(err, SL_EINVAL, "--set %s: the spec has no such place",
                       set);
    return SL_OK;
}

enum sl_err specfile_set(json_t *root, const char *set, struct sl_error *err)
{
    const char *equals = strchr(set, '=');
    char path[1024], word[WORD_MAX];
    const char *p = path;
    size_t index = 0;
    json_t *node = root, *value;
    enum sl_err rc;

    if (equals == NULL || equals == set ||
        (size_t)(equals - set) >= sizeof(path))
        return sl_fail(err, SL_EINVAL,
                       "--set %s: say key=value, as in train.epochs=2", set);
    memcpy(path, set, (size_t)(equals - set));
    path[equals - set] = '\0';

    if (equals[1] == '\0') {
        value = json_string("");
    } else {
        rc = yaml_read(&value, NULL, "--set", equals + 1, strlen(equals + 1),
                       err);
        if (rc != SL_OK)
            return rc;
    }
    rc = SL_OK;
    while (rc == SL_OK) {
        if (node == NULL || !next_part(&p, word, &index))
            rc = sl_fail(err, SL_EINVAL, "--set %s: the spec has no such place",
                         set);
        else if (*p == '\0')
            break;
        else
            node = step_into(node, word, index);
    }
    if (rc == SL_OK)
        rc = assign(node, word, index, value, set, err);
    json_decref(value);
    return rc;
}

// ---- data paths

// "/jobs/./a/../b" -> "/jobs/b": workers read no path with '..' in it. The
// folder of the spec has no links, so '..' is what the kernel makes of it
// there.
static void clean(char *path)
{
    char *to = path;

    for (const char *from = path; *from != '\0';) {
        const char *word = from + strspn(from, "/");
        size_t n = strcspn(word, "/");

        from = word + n;
        if (n == 0 || (n == 1 && word[0] == '.'))
            continue;
        if (n == 2 && strncmp(word, "..", 2) == 0) {
            while (to > path && *--to != '/')
                continue;
            continue;
        }
        *to++ = '/';
        memmove(to, word, n);
        to += n;
    }
    *to = '\0';
}

static enum sl_err specfile_resolve_path(json_t *source, const char *key,
                                         const char *folder,
                                         struct sl_error *err)
{
    const char *path = json_string_value(json_object_get(source, key));
    char *joined;
    int rc;

    if (path == NULL || path[0] == '/' || path[0] == '\0' || remote_is(path))
        return SL_OK;
    joined = fs_join(folder, path);
    if (joined == NULL)
        return sl_no_memory(err);
    clean(joined);
    rc = json_object_set_new(source, key, json_string(joined));
    sl_free(joined);
    return rc == 0 ? SL_OK : sl_no_memory(err);
}

enum sl_err specfile_paths(json_t *root, const char *folder,
                           struct sl_error *err)
{
    json_t *data = json_object_get(root, "data");
    static const char *const parts[] = {"train", "test"};
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(parts); i++) {
        json_t *source = json_object_get(data, parts[i]);

        rc = specfile_resolve_path(source, "x", folder, err);
        if (rc == SL_OK)
            rc = specfile_resolve_path(source, "y", folder, err);
        // Beside a file of labels it is a file; else a column or an array.
        if (rc == SL_OK && json_is_string(json_object_get(source, "y")))
            rc = specfile_resolve_path(source, "sample_weight", folder, err);
    }
    return rc;
}

// ---- lines

void specfile_locate(struct sl_error *err, const char *name,
                     const json_t *lines)
{
    size_t n = strlen(name);
    const char *rest = err->text;
    struct sl_error located = SL_ERROR_INIT;
    char path[WORD_MAX];
    size_t len;

    if (strncmp(rest, name, n) == 0 && strncmp(rest + n, ": ", 2) == 0)
        rest += n + 2;
    len = strcspn(rest, ": ");
    if (len >= sizeof(path))
        len = 0;
    memcpy(path, rest, len);
    path[len] = '\0';

    // "a.b[2].c" is looked for as a.b[2].c, a.b[2], a.b, a.
    while (len > 0) {
        const json_t *line = json_object_get(lines, path);

        if (line != NULL) {
            sl_fail(&located, err->code, "%s:%lld: %s", name,
                    (long long)json_integer_value(line), rest);
            *err = located;
            return;
        }
        while (len > 0 && path[len - 1] != '.' && path[len - 1] != '[')
            len--;
        if (len > 0)
            path[--len] = '\0';
    }
    if (rest == err->text)
        sl_prefix(err, err->code, "%s", name);
}

// Returns true if path `at` equals `place` or lies within it.
static bool lies_in(const char *at, size_t at_len, const char *place,
                    size_t len)
{
    char next = at_len > len ? at[len] : '.';

    return at_len >= len && strncmp(at, place, len) == 0 &&
           (next == '.' || next == '[');
}

// Is it about what `set` gave: a value in its place, or its key that is none? A
// key that the text proposes instead is not what `set` gave. at_len is 0 where
// the text is about a key of the spec itself.
static bool is_about(const char *text, size_t at_len, const char *set)
{
    size_t len = strcspn(set, "="), from = at_len > 0 ? at_len + 1 : 0;
    const char *proposed = strstr(text, "; did you mean '"), *said;
    char key[WORD_MAX];

    if (at_len > 0 && lies_in(text, at_len, set, len))
        return true;
    if (at_len > 0 && !lies_in(set, len, text, at_len))
        return false;
    if ((size_t)snprintf(key, sizeof(key), " '%.*s'",
                         (int)strcspn(set + from, ".[="),
                         set + from) >= sizeof(key))
        return false;
    said = strstr(text, key);
    return said != NULL && (proposed == NULL || said < proposed);
}

bool specfile_blame_set(struct sl_error *err, const char *name,
                        const char *const *sets, size_t count)
{
    size_t n = strlen(name);
    const char *rest = err->text;
    struct sl_error blamed = SL_ERROR_INIT;
    bool top;
    size_t len;

    if (strncmp(rest, name, n) == 0 && strncmp(rest + n, ": ", 2) == 0)
        rest += n + 2;
    top = strncmp(rest, TOP_KEY, strlen(TOP_KEY)) == 0;
    len = top ? 0 : strcspn(rest, ": ");
    for (size_t i = count; (top || len > 0) && i > 0; i--) { // the last holds
        const char *set = sets[i - 1];

        if (is_about(rest, len, set)) {
            sl_fail(&blamed, err->code, "--set %s: %s", set, rest);
            *err = blamed;
            return true;
        }
    }
    return false;
}

// ---- all of it

static enum sl_err read_stdin(struct buf *out, size_t most,
                              struct sl_error *err)
{
    for (;;) {
        uint8_t *to = buf_extend(out, 4096);
        ssize_t n;

        if (to == NULL)
            return sl_no_memory(err);
        n = read(STDIN_FILENO, to, 4096);
        out->len -= 4096 - (size_t)(n > 0 ? n : 0);
        out->data[out->len] = '\0';
        if (n == 0)
            return SL_OK;
        if (n < 0 && errno != EINTR)
            return sl_fail(err, SL_EIO, "standard input: %s", strerror(errno));
        if (out->len > most)
            return sl_fail(err, SL_ERANGE,
                           "standard input: longer than %zu bytes", most);
    }
}

// The folder that relative paths mean; sl_free.
static enum sl_err folder_of(char **out, const char *path, struct sl_error *err)
{
    char *dir = strcmp(path, "-") == 0 ? sl_strdup(".") : fs_dirname(path);
    char real[PATH_MAX];
    enum sl_err rc = SL_OK;

    if (dir == NULL)
        return sl_no_memory(err);
    if (realpath(dir, real) == NULL)
        rc = sl_fail(err, sl_err_from_errno(errno), "%s: %s", dir,
                     strerror(errno));
    sl_free(dir);
    if (rc != SL_OK)
        return rc;
    *out = sl_strdup(real);
    return *out != NULL ? SL_OK : sl_no_memory(err);
}

enum sl_err specfile_spec(Sluice__V1__JobSpec **out, json_t *root,
                          const char *name, struct sl_error *err)
{
    ProtobufCMessage *msg = NULL;
    enum sl_err rc =
        pbjson_read(&msg, &sluice__v1__job_spec__descriptor, root, name, err);

    if (rc != SL_OK)
        return rc;
    rc = spec_check((Sluice__V1__JobSpec *)msg, err);
    if (rc == SL_OK)
        rc = spec_check_new((Sluice__V1__JobSpec *)msg, err);
    if (rc != SL_OK) {
        wire_free(msg);
        return rc;
    }
    *out = (Sluice__V1__JobSpec *)msg;
    return SL_OK;
}

const char *specfile_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

enum sl_err specfile_read(struct buf *out, const char *path, size_t most,
                          struct sl_error *err)
{
    return strcmp(path, "-") == 0
               ? read_stdin(out, most, err)
               : fs_read_all(fs_posix(), path, most, out, err);
}

// `sets` come before the paths are looked at: they may give some.
static enum sl_err open_with(json_t **out, json_t **lines, const char *path,
                             const char *const *sets, size_t count,
                             struct sl_error *err)
{
    struct buf text = BUF_INIT;
    json_t *root = NULL, *where = NULL;
    char *folder = NULL;
    enum sl_err rc = specfile_read(&text, path, YAML_BYTES_MAX, err);

    if (rc == SL_OK)
        rc = folder_of(&folder, path, err);
    if (rc == SL_OK)
        rc = specfile_parse(&root, &where, specfile_name(path), buf_text(&text),
                            text.len, err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = specfile_set(root, sets[i], err);
    if (rc == SL_OK)
        rc = specfile_paths(root, folder, err);
    sl_free(folder);
    buf_release(&text);
    if (rc != SL_OK) {
        json_decref(root);
        json_decref(where);
        return rc;
    }
    *out = root;
    *lines = where;
    return SL_OK;
}

enum sl_err specfile_open(json_t **out, json_t **lines, const char *path,
                          struct sl_error *err)
{
    return open_with(out, lines, path, NULL, 0, err);
}

enum sl_err specfile_load(Sluice__V1__JobSpec **out, const char *path,
                          const char *const *sets, size_t count,
                          struct sl_error *err)
{
    const char *name = specfile_name(path);
    json_t *root = NULL, *lines = NULL;
    enum sl_err rc = open_with(&root, &lines, path, sets, count, err);

    if (rc != SL_OK)
        return rc;
    rc = specfile_spec(out, root, name, err);
    if (rc != SL_OK && err != NULL &&
        !specfile_blame_set(err, name, sets, count))
        specfile_locate(err, name, lines);
    json_decref(root);
    json_decref(lines);
    return rc;
}

// Adds a warning if the file of data.`set` that `part` names is not on this
// host; `path` may be NULL.
static enum sl_err look_for(struct buf *out, const char *set, const char *part,
                            const char *path)
{
    if (path == NULL || path[0] == '\0' || remote_is(path) ||
        access(path, R_OK) == 0)
        return SL_OK;
    return buf_appendf(out,
                       "warning: data.%s.%s: %s cannot be read on this host "
                       "(%s); every worker's host needs it\n",
                       set, part, path, strerror(errno));
}

// Looks for the files of a source, which may be NULL. Only in formats with a
// file of labels are weights a file.
static enum sl_err look_for_source(struct buf *out, const char *set,
                                   const Sluice__V1__SourceSpec *s)
{
    enum sl_err rc = SL_OK;

    if (s == NULL)
        return rc;
    rc = look_for(out, set, "x", s->x);
    if (rc == SL_OK)
        rc = look_for(out, set, "y", s->y);
    if (rc == SL_OK && s->y != NULL)
        rc = look_for(out, set, "sample_weight", s->sample_weight);
    return rc;
}

enum sl_err specfile_missing(struct buf *out, const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__DataSpec *data = spec->data;
    enum sl_err rc;

    if (data == NULL)
        return SL_OK;
    rc = look_for_source(out, "train", data->train);
    return rc == SL_OK ? look_for_source(out, "test", data->test) : rc;
}
