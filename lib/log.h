/*
 * Log lines on stderr: one event, one line, subject first. Text, or one JSON object a line. Control
 * bytes and invalid UTF-8 are escaped, so that no input can forge a line. A slow reader of stderr
 * never blocks the caller: a line that cannot be written at once is dropped and counted.
 */
#ifndef LIB_LOG_H
#define LIB_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/*
 * Names the program in each line and sets the form; `verbosity` is klog's: from 4 on debug lines
 * appear. `program` must live on. Ignores SIGPIPE, since a stderr that nobody reads any more must
 * not end the program.
 */
void log_init(const char *program, enum log_format format, int verbosity);

/* Changes the verbosity while the program runs; -1: that of log_init again. Safe from any thread. */
void log_set_verbosity(int verbosity);

/* A line at `level`; log_warn and log_error add ": strerror(errno)", the x forms do not. */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_errorx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line at a level known only at run time (a child's own log lines passed through). */
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What strangers can provoke: at most 10 lines a second in total, the rest counted in
 * log_suppressed(). */
void log_neterr(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same as log_error(x), then exit 1: the system's failure; abort is left to broken
 * invariants. */
_Noreturn void log_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void log_fatalx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Lines dropped by the rate limit or by a full stderr since the start; safe from any thread. */
uint64_t log_suppressed(void);

/* Whether debug lines are shown, for callers whose arguments cost something. */
bool log_is_debug(void);

#endif
