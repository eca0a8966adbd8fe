/*
 * Log lines on stderr. Each event has one line, with the subject first. A line is text or one JSON
 * object. Control bytes and invalid UTF-8 are escaped, so input cannot forge a line. Logging never
 * blocks. A line that cannot be written immediately is dropped and counted.
 */
#ifndef LIB_LOG_H
#define LIB_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/*
 * Sets the program's name in each line and the format. `verbosity` has klog's scale: from 4 on,
 * debug lines are written. `program` must stay valid. Ignores SIGPIPE, so that the program survives
 * when the reader of stderr exits.
 */
void log_init(const char *program, enum log_format format, int verbosity);

/* Changes the verbosity at run time; -1 restores the verbosity given to log_init. Safe from any thread. */
void log_set_verbosity(int verbosity);

/* Each function writes a line at its level. log_warn and log_error add ": strerror(errno)", the
 * forms with x do not. */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_errorx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes a line whose level is known only at run time, such as a log line of the child. */
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For events that clients or other servers can cause. Writes at most 10 lines per second in total.
 * log_suppressed() counts the lines beyond this limit. */
void log_neterr(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Like log_neterr, but at level debug. It has its own limit, so debug lines do not displace
 * warnings. */
void log_netdebug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Like log_error(x), then exits with status 1. For failures of the system. Code that finds a broken
 * invariant calls abort() instead. */
_Noreturn void log_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void log_fatalx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns the number of lines dropped since startup, by the rate limit or because stderr was full.
 * Safe from any thread. */
uint64_t log_suppressed(void);

/* Whether debug lines are written. For callers whose arguments are expensive to compute. */
bool log_is_debug(void);

#endif
