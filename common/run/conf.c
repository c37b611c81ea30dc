// SPDX-License-Identifier: Apache-2.0
// common/run/conf.c -- where values come from: defaults, file, environment,
// flags.
#include "common/run/conf.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/run/conf_own.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define SUGGEST_MAX 256
#define ENV_PREFIX "SLUICE_"

static const struct conf_key own_keys[] = {
    {.name = "config",
     .kind = CONF_STRING,
     .help = "File with lines of `key = value`."},
    {.name = "print-config",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Print each value with its origin, and exit."},
    {.name = "help",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Print this text, and exit.",
     .letter = 'h'},
    {.name = "version",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Print the version, and exit."},
    {.name = "man", .kind = CONF_BOOL, .value = "false"}, // for packaging
    {.name = NULL},
};

enum sl_err conf_add(struct conf *c, const struct conf_key *keys)
{
    struct conf_value *values;
    size_t n = 0;

    while (keys[n].name != NULL)
        n++;
    values = sl_realloc_array(c->values, c->count + n, sizeof(*values));
    if (values == NULL)
        return SL_ENOMEM;
    c->values = values;
    for (size_t i = 0; i < n; i++) {
        struct conf_value *v = &values[c->count];
        enum sl_err rc;

        if (conf_find(c, keys[i].name, strlen(keys[i].name)) != NULL)
            continue; // an earlier table knows better
        c->count++;
        *v = (struct conf_value){.key = &keys[i]};
        if (keys[i].value == NULL)
            continue;
        rc = conf_value_set(v, keys[i].value, CONF_DEFAULT, "default", NULL);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

enum sl_err conf_new(struct conf **out, const struct conf_about *about,
                     const struct conf_key *keys)
{
    struct conf *c = sl_calloc(1, sizeof(*c));
    enum sl_err rc;

    if (c == NULL)
        return SL_ENOMEM;
    c->about = about;
    rc = conf_add(c, keys);
    if (rc == SL_OK)
        rc = conf_add(c, own_keys);
    if (rc != SL_OK) {
        conf_free(c);
        return rc;
    }
    *out = c;
    return SL_OK;
}

void conf_free(struct conf *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->count; i++)
        conf_value_release(&c->values[i]);
    sl_free(c->values);
    sl_free(c->args);
    sl_free(c);
}

static bool same_name(const char *key, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++, key++) {
        if (*key != (name[i] == '_' ? '-' : name[i]))
            return false; // also at the end of key
    }
    return *key == '\0';
}

struct conf_value *conf_find(const struct conf *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->count; i++) {
        if (same_name(c->values[i].key->name, name, len))
            return &c->values[i];
    }
    return NULL;
}

static enum sl_err conf_unknown_key(const struct conf *c, const char *where,
                                    const char *dashes, const char *name,
                                    size_t len, struct sl_error *err)
{
    const char *names[SUGGEST_MAX], *near;
    char word[64];
    size_t n = 0;

    for (; n < c->count && n < SUGGEST_MAX; n++)
        names[n] = c->values[n].key->name;
    snprintf(word, sizeof(word), "%.*s", (int)(len < 60 ? len : 60), name);
    near = sl_suggest(word, names, n);
    if (near == NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: unknown key '%s%s'; --help lists all", where,
                       dashes, word);
    return sl_fail(err, SL_EINVAL,
                   "%s: unknown key '%s%s'; did you mean '%s%s'?", where,
                   dashes, word, dashes, near);
}

enum sl_err conf_set(struct conf *c, const char *name, const char *value,
                     enum conf_origin origin, const char *where,
                     struct sl_error *err)
{
    struct conf_value *v = conf_find(c, name, strlen(name));

    if (v == NULL)
        return conf_unknown_key(c, where, "", name, strlen(name), err);
    return conf_value_set(v, value, origin, where, err);
}

// --- flags

// A command line that is being read.
struct flags {
    struct conf *c;
    char *const *argv;
    int argc, at;
};

static struct conf_value *find_letter(const struct conf *c, char letter)
{
    for (size_t i = 0; i < c->count; i++) {
        if (letter != '\0' && c->values[i].key->letter == letter)
            return &c->values[i];
    }
    return NULL;
}

// Sets v by its flag; `value` is what follows '=' or the letter, or NULL.
static enum sl_err take_flag(struct flags *f, struct conf_value *v,
                             const char *value, struct sl_error *err)
{
    if (value == NULL && v->key->kind == CONF_BOOL) {
        value = "true";
    } else if (value == NULL) {
        if (f->at + 1 >= f->argc)
            return sl_fail(err, SL_EINVAL, "command line: --%s needs a value",
                           v->key->name);
        value = f->argv[++f->at];
    }
    return conf_value_set(v, value, CONF_FLAG, "command line", err);
}

static enum sl_err long_flag(struct flags *f, const char *flag,
                             struct sl_error *err)
{
    size_t len = strcspn(flag, "=");
    const char *value = flag[len] == '=' ? flag + len + 1 : NULL;
    struct conf_value *v = conf_find(f->c, flag, len);

    if (v != NULL)
        return take_flag(f, v, value, err);
    if (strncmp(flag, "no-", 3) == 0 && value == NULL) {
        v = conf_find(f->c, flag + 3, len - 3);
        if (v != NULL && v->key->kind == CONF_BOOL)
            return conf_value_set(v, "false", CONF_FLAG, "command line", err);
    }
    return conf_unknown_key(f->c, "command line", "--", flag, len, err);
}

static enum sl_err short_flag(struct flags *f, const char *flag,
                              struct sl_error *err)
{
    struct conf_value *v = find_letter(f->c, *flag);

    if (v == NULL || (v->key->kind == CONF_BOOL && flag[1] != '\0'))
        return sl_fail(err, SL_EINVAL,
                       "command line: unknown flag '-%.20s'; --help lists all",
                       flag);
    return take_flag(f, v, flag[1] != '\0' ? flag + 1 : NULL, err);
}

static enum sl_err read_flags(struct conf *c, int argc, char *const *argv,
                              struct sl_error *err)
{
    struct flags f = {c, argv, argc, 1};
    bool only_args = false;
    enum sl_err rc = SL_OK;

    c->args = sl_malloc_array((size_t)argc + 1, sizeof(char *));
    if (c->args == NULL)
        return sl_fail(err, SL_ENOMEM, "command line: out of memory");
    for (; f.at < argc && rc == SL_OK; f.at++) {
        const char *word = argv[f.at];

        if (only_args || word[0] != '-' || word[1] == '\0')
            c->args[c->arg_count++] = argv[f.at];
        else if (word[1] != '-')
            rc = short_flag(&f, word + 1, err);
        else if (word[2] == '\0')
            only_args = true;
        else
            rc = long_flag(&f, word + 2, err);
    }
    return rc;
}

// --help wins even over mistakes before it.
static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

// --- environment

// Returns true for a key that asks for a text and so is a flag alone:
// SLUICE_VERSION may be another program's, as in an image.
static bool is_flag_alone(const struct conf_key *key)
{
    return strcmp(key->name, "help") == 0 || strcmp(key->name, "man") == 0 ||
           strcmp(key->name, "version") == 0;
}

static enum sl_err read_env(struct conf *c, char *const *env,
                            struct sl_error *err)
{
    const size_t prefix = strlen(ENV_PREFIX);
    char name[128], where[160];
    enum sl_err rc = SL_OK;

    for (; env != NULL && *env != NULL && rc == SL_OK; env++) {
        size_t len = strcspn(*env, "=");
        struct conf_value *v;

        if (strncmp(*env, ENV_PREFIX, prefix) != 0 || (*env)[len] != '=' ||
            len - prefix >= sizeof(name))
            continue;
        for (size_t i = prefix; i < len; i++)
            name[i - prefix] = (char)tolower((unsigned char)(*env)[i]);
        v = conf_find(c, name, len - prefix);
        if (v == NULL || is_flag_alone(v->key))
            continue;
        snprintf(where, sizeof(where), "environment %.*s", (int)len, *env);
        rc = conf_value_set(v, *env + len + 1, CONF_ENVIRONMENT, where, err);
    }
    return rc;
}

// --- file

static char *conf_trim(char *text)
{
    size_t n;

    text += strspn(text, CONF_BLANKS);
    n = strlen(text);
    while (n > 0 && strchr(CONF_BLANKS, text[n - 1]) != NULL)
        text[--n] = '\0';
    return text;
}

static enum sl_err conf_read_line(struct conf *c, char *line, const char *where,
                                  struct sl_error *err)
{
    char *equals, *name, *value;
    size_t n;

    line = conf_trim(line);
    if (*line == '\0' || *line == '#')
        return SL_OK;
    equals = strchr(line, '=');
    if (equals == NULL)
        return sl_fail(err, SL_EINVAL, "%s: expected `key = value`", where);
    *equals = '\0';
    name = conf_trim(line);
    value = conf_trim(equals + 1);
    n = strlen(value);
    if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
        value[n - 1] = '\0';
        value++;
    }
    return conf_set(c, name, value, CONF_FILE, where, err);
}

static enum sl_err conf_read_file(struct conf *c, struct fs *fs,
                                  const char *path, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    char where[512], *line, *next;
    unsigned number = 1;
    enum sl_err rc = fs_read_all(fs, path, FILE_MAX_BYTES, &text, err);

    if (rc == SL_OK && text.len > 0 && memchr(text.data, 0, text.len) != NULL)
        rc = sl_fail(err, SL_EINVAL, "%s: not a text file", path);
    line = rc == SL_OK ? (char *)text.data : NULL;
    for (; line != NULL && rc == SL_OK; line = next, number++) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        snprintf(where, sizeof(where), "%.400s:%u", path, number);
        rc = conf_read_line(c, line, where, err);
    }
    buf_release(&text);
    return rc;
}

enum sl_err conf_load(struct conf *c, struct fs *fs, int argc,
                      char *const *argv, char *const *env, struct sl_error *err)
{
    enum sl_err rc;

    if (asks_for_help(argc, argv)) {
        c->help = true;
        return SL_OK;
    }
    rc = read_flags(c, argc, argv, err);
    if (rc == SL_OK)
        rc = read_env(c, env, err);
    if (rc == SL_OK && conf_str(c, "config") != NULL)
        rc = conf_read_file(c, fs, conf_str(c, "config"), err);
    if (rc != SL_OK)
        return rc;
    // In another form of the flag.
    c->help = conf_bool(c, "help") && conf_origin(c, "help") == CONF_FLAG;
    c->version = conf_bool(c, "version");
    c->print = conf_bool(c, "print-config");
    c->man = conf_bool(c, "man");
    return SL_OK;
}

bool conf_wants_help(const struct conf *c)
{
    return c->help;
}

bool conf_wants_version(const struct conf *c)
{
    return c->version;
}

bool conf_wants_man(const struct conf *c)
{
    return c->man;
}

bool conf_wants_print(const struct conf *c)
{
    return c->print;
}

// --- queries

static const struct conf_value *need(const struct conf *c, const char *name,
                                     unsigned kinds)
{
    const struct conf_value *v = conf_find(c, name, strlen(name));

    assert(v != NULL && (kinds >> v->key->kind & 1) != 0);
    return v;
}

#define KIND(kind) (1u << (kind))

const char *conf_str(const struct conf *c, const char *name)
{
    return need(c, name, KIND(CONF_STRING) | KIND(CONF_CHOICE))->text;
}

int64_t conf_int(const struct conf *c, const char *name)
{
    return need(c, name, KIND(CONF_INT) | KIND(CONF_BYTES) | KIND(CONF_MS))
        ->integer;
}

double conf_float(const struct conf *c, const char *name)
{
    return need(c, name, KIND(CONF_FLOAT))->real;
}

bool conf_bool(const struct conf *c, const char *name)
{
    return need(c, name, KIND(CONF_BOOL))->integer != 0;
}

size_t conf_list_count(const struct conf *c, const char *name)
{
    return need(c, name, KIND(CONF_LIST) | KIND(CONF_MULTI))->list_count;
}

const char *conf_list_at(const struct conf *c, const char *name, size_t i)
{
    const struct conf_value *v =
        need(c, name, KIND(CONF_LIST) | KIND(CONF_MULTI));

    assert(i < v->list_count);
    return v->list[i];
}

bool conf_is_set(const struct conf *c, const char *name)
{
    return need(c, name, ~0u)->set;
}

enum conf_origin conf_origin(const struct conf *c, const char *name)
{
    return need(c, name, ~0u)->origin;
}

const char *conf_origin_name(enum conf_origin origin)
{
    static const char *const names[] = {"default", "file", "environment",
                                        "flag"};

    return names[origin];
}

size_t conf_arg_count(const struct conf *c)
{
    return c->arg_count;
}

const char *conf_arg(const struct conf *c, size_t i)
{
    return i < c->arg_count ? c->args[i] : NULL;
}
