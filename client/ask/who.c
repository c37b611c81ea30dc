// SPDX-License-Identifier: Apache-2.0
// client/ask/who.c -- the name of the user and of this host.
#include "client/ask/who.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

const char *who_asks(char out[WHO_BYTES])
{
    const struct passwd *user = getpwuid(geteuid());
    char host[65] = "";

    (void)gethostname(host, sizeof(host) - 1);
    if (user != NULL)
        snprintf(out, WHO_BYTES, "%.100s@%.64s", user->pw_name, host);
    else
        snprintf(out, WHO_BYTES, "uid %u@%.64s", (unsigned)geteuid(), host);
    return out;
}
