// SPDX-License-Identifier: Apache-2.0
// client/cli/say.h -- lines of news, which are no data: on stderr.
//
// Threads  main.
// Memory   texts are read only during the call.
// Errors   none: a line that cannot be written is lost.
#ifndef CLIENT_CLI_SAY_H
#define CLIENT_CLI_SAY_H

// Writes a line of news that is no data to stderr, after flushing stdout.
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Sleeps between two looks at something; a signal ends the sleep.
void cli_pause_ms(unsigned ms);

#endif
