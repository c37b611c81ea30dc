// SPDX-License-Identifier: Apache-2.0
// client/cli/say.h -- lines of news, which are no data: on stderr.
//
// Threads  main.
// Memory   texts are read only during the call.
// Errors   none: a line that cannot be written is lost; without memory a line
//          says that instead.
#ifndef CLIENT_CLI_SAY_H
#define CLIENT_CLI_SAY_H

// Writes a line of news, made as printf makes it, to stderr, after flushing
// stdout; characters that may not be shown, line ends too, are escaped.
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Sleeps for `ms` milliseconds, or until a signal comes.
void cli_pause_ms(unsigned ms);

#endif
