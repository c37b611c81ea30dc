// SPDX-License-Identifier: Apache-2.0
// tests/harness/t_dir.c -- a folder per test.
#include <ftw.h>
#include <unistd.h>

#include "tests/harness/t_run.h"

#define PATHS 64

static char folder[512];
static char *paths[PATHS];
static size_t path_count;

const char *t_tmpdir(void)
{
    const char *base = getenv("TMPDIR");

    if (folder[0] != '\0')
        return folder;
    snprintf(folder, sizeof(folder), "%s/sluice-test-XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        t_fail(__FILE__, __LINE__, "cannot make %s", folder);
    return folder;
}

const char *t_path(const char *name)
{
    const char *dir = t_tmpdir();
    size_t room = strlen(dir) + strlen(name) + 2;

    if (path_count == PATHS)
        t_fail(__FILE__, __LINE__, "more than %d paths in a test", PATHS);
    paths[path_count] = malloc(room);
    if (paths[path_count] == NULL)
        abort();
    snprintf(paths[path_count], room, "%s/%s", dir, name);
    return paths[path_count++];
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    return remove(path);
}

void t_dir_remove(void)
{
    while (path_count > 0)
        free(paths[--path_count]);
    if (folder[0] == '\0')
        return;
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}
