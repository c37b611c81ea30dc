// SPDX-License-Identifier: Apache-2.0
// client/cert/audit.c -- the verb audit: does a coordinator's audit log hold.
#include <inttypes.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/verbs.h"
#include "common/base/chain.h"
#include "common/base/mem.h"

#define FILE_OF_UP "./cluster/coordinator/audit.log"

// The files of one log, the oldest first.
struct files {
    char **path;
    size_t count;
    const char *newest; // current log; older logs are looked for beside it
};

static void files_release(struct files *f)
{
    for (size_t i = 0; i < f->count; i++)
        sl_free(f->path[i]);
    sl_free(f->path);
}

static enum sl_err audit_files_add(struct files *f, char *path,
                                   struct sl_error *err)
{
    char **more = path == NULL
                      ? NULL
                      : sl_realloc_array(f->path, f->count + 1, sizeof(*more));

    if (more == NULL) {
        sl_free(path);
        return sl_no_memory(err);
    }
    f->path = more;
    f->path[f->count++] = path;
    return SL_OK;
}

// A name like audit.log.000012. They come in their order: with as many digits.
static enum sl_err add_older(void *arg, const char *name)
{
    struct files *f = arg;
    const char *base = strrchr(f->newest, '/');
    size_t n;
    char *folder, *path;

    base = base == NULL ? f->newest : base + 1;
    n = strlen(base);
    if (strncmp(name, base, n) != 0 || name[n] != '.' ||
        strlen(name + n + 1) != 6 || strspn(name + n + 1, "0123456789") != 6)
        return SL_OK;
    folder = fs_dirname(f->newest);
    path = folder == NULL ? NULL : fs_join(folder, name);
    sl_free(folder);
    return audit_files_add(f, path, NULL);
}

// Finds the files to check: one argument stands for that log and the full logs
// before it, several arguments for just these files.
static enum sl_err audit_find_files(struct files *f, const struct cli *cli,
                                    struct sl_error *err)
{
    const char *first = cli_arg(cli, 1) != NULL ? cli_arg(cli, 1) : FILE_OF_UP;
    enum sl_err rc = SL_OK;

    if (cli_arg(cli, 2) == NULL) {
        char *folder = fs_dirname(first);

        f->newest = first;
        rc = folder == NULL ? sl_no_memory(err)
                            : fs_list(fs_posix(), folder, add_older, f, err);
        sl_free(folder);
    }
    if (rc == SL_OK)
        rc = audit_files_add(f, sl_strdup(first), err);
    for (size_t i = 2; rc == SL_OK && cli_arg(cli, i) != NULL; i++)
        rc = audit_files_add(f, sl_strdup(cli_arg(cli, i)), err);
    return rc;
}

// Where the first file should go on: at nothing, or at the line of --after.
static enum sl_err audit_find_start(struct chain_end *start,
                                    const struct files *f, const char *after,
                                    struct sl_error *err)
{
    enum sl_err rc = chain_first(fs_posix(), f->path[0], start, err);

    if (rc != SL_OK)
        return rc;
    if (after == NULL && start->lines > 0)
        return sl_fail(err, SL_ECORRUPT,
                       "%s begins with number %" PRIu64
                       ": name the files before it too, or say with --after "
                       "which hash their last line has",
                       f->path[0], start->lines + 1);
    if (after != NULL && strcmp(after, start->hash) != 0)
        return sl_fail(
            err, SL_ECORRUPT,
            "%s follows a line with another hash than that of --after: %s",
            f->path[0], start->hash);
    return SL_OK;
}

static enum sl_err audit_print_result(const struct cli *cli,
                                      const struct files *f,
                                      const struct chain_end *start,
                                      const struct chain_end *end,
                                      struct sl_error *err)
{
    const char *newest = f->path[f->count - 1];
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (cli->out.json)
        return out_json(json_pack("{s:s, s:I, s:I, s:I, s:s}", "file", newest,
                                  "files", (json_int_t)f->count, "first",
                                  (json_int_t)(start->lines + 1), "lines",
                                  (json_int_t)(end->lines - start->lines),
                                  "last", end->hash),
                        err);
    rc = buf_append_str(&text, newest);
    if (rc == SL_OK && f->count > 1)
        rc = buf_appendf(&text, " and %zu before it hold: ", f->count - 1);
    else if (rc == SL_OK)
        rc = buf_append_str(&text, " holds: ");
    if (rc == SL_OK)
        rc = buf_appendf(&text, "%" PRIu64 " lines, the last is %s\n",
                         end->lines - start->lines, end->hash);
    return out_text(&text, rc, err);
}

int verb_audit(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    struct chain_end start, end;
    struct files f = {.path = NULL};
    enum sl_err rc;

    chain_begin(&start);
    if (strcmp(cli_arg(cli, 0), "verify") != 0)
        return cli_usage(cli, "'%s' is not known; say: audit verify [FILE]...",
                         cli_arg(cli, 0));
    rc = audit_find_files(&f, cli, &err);
    if (rc == SL_OK)
        rc = audit_find_start(&start, &f, conf_str(cli->conf, "after"), &err);
    end = start;
    for (size_t i = 0; rc == SL_OK && i < f.count; i++)
        rc = chain_verify(fs_posix(), f.path[i], &end, &err);
    if (rc == SL_OK)
        rc = audit_print_result(cli, &f, &start, &end, &err);
    files_release(&f);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
