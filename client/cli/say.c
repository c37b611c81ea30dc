// SPDX-License-Identifier: Apache-2.0
// client/cli/say.c -- lines of news on stderr, and the pause between two looks.
#include "client/cli/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "client/cli/out.h"
#include "common/base/buf.h"

void cli_pause_ms(unsigned ms)
{
    const struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&pause, NULL);
}

void cli_say(const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    va_list ap;

    fflush(stdout);
    va_start(ap, fmt);
    if (buf_vappendf(&text, fmt, ap) == SL_OK)
        out_tell(buf_text(&text), text.len, "\n");
    else
        fputs("sluice: out of memory\n", stderr);
    va_end(ap);
    buf_release(&text);
}
