#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/utf8.h"

enum {
	/*
	 * If poll(2) reports that a pipe is writable, the pipe takes PIPE_BUF bytes atomically and
	 * without blocking (pipe(7)). A longer line could block half way, so lines are truncated.
	 * The limit also bounds the cost of one event.
	 */
	LINE_BYTES = PIPE_BUF,
	TEXT_BYTES = LINE_BYTES / 2, /* bytes of the message before it is escaped */
	NETERR_PER_SECOND = 10,
	DEBUG_VERBOSITY = 4,
};

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARN] = "warning",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

/* Set by log_init before there are threads, and constant afterwards, except `debug`. */
static struct {
	const char *program;
	enum log_format format;
	bool started_debug; /* whether log_init() was given a debug level */
	atomic_bool debug;
	int fd;
} settings = { .program = "", .fd = STDERR_FILENO };

static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t suppressed;

/*
 * O_NONBLOCK belongs to the open file description. On a terminal, the shell and other programs
 * share it, so it must not be set on descriptor 2. A terminal can be opened again, which creates a
 * description of our own. For a pipe, poll(2) is enough.
 */
static int
own_terminal(void)
{
	if (!isatty(STDERR_FILENO))
		return STDERR_FILENO;
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? STDERR_FILENO : fd;
}

void
log_init(const char *program, enum log_format format, int verbosity)
{
	settings.program = program;
	settings.format = format;
	settings.started_debug = verbosity >= DEBUG_VERBOSITY;
	atomic_store_explicit(&settings.debug, settings.started_debug, memory_order_relaxed);
	if (settings.fd != STDERR_FILENO)
		close(settings.fd);
	settings.fd = own_terminal();
	signal(SIGPIPE, SIG_IGN); /* DNS must continue if stderr's reader exits */
}

void
log_set_verbosity(int verbosity)
{
	bool debug = verbosity < 0 ? settings.started_debug : verbosity >= DEBUG_VERBOSITY;

	atomic_store_explicit(&settings.debug, debug, memory_order_relaxed);
}

bool
log_is_debug(void)
{
	return atomic_load_explicit(&settings.debug, memory_order_relaxed);
}

uint64_t
log_suppressed(void)
{
	return atomic_load_explicit(&suppressed, memory_order_relaxed);
}

struct line {
	char bytes[LINE_BYTES];
	size_t len;
};

/* Appends a piece completely or not at all, so an escape sequence is never incomplete. Leaves space
 * for the end of the line. */
static void
line_put(struct line *line, const char *bytes, size_t len)
{
	enum { END = 3 }; /* `"}` and the newline */

	if (line->len + len <= sizeof line->bytes - END) {
		memcpy(line->bytes + line->len, bytes, len);
		line->len += len;
	}
}

static void
line_puts(struct line *line, const char *text)
{
	line_put(line, text, strlen(text));
}

/* Appends `text`. Unsafe characters and invalid bytes are written as \n, \t or \xNN; in JSON the
 * backslash is escaped too. */
static void
line_put_escaped(struct line *line, const char *text, bool json)
{
	size_t left = strlen(text);

	while (left > 0) {
		uint32_t cp = 0;
		size_t len = utf8_read(text, left, &cp);
		char esc[8];

		if (len > 0 && !utf8_unsafe(cp)) {
			if (json && (cp == '"' || cp == '\\'))
				line_put(
				    line, esc, (size_t)snprintf(esc, sizeof esc, "\\%c", (char)cp));
			else
				line_put(line, text, len);
		} else if (len > 0 && (cp == '\n' || cp == '\t')) {
			line_puts(line, cp == '\n' ? "\\n" : "\\t");
		} else if (len == 1 && json) {
			line_put(line, esc,
			    (size_t)snprintf(esc, sizeof esc, "\\u%04x", (unsigned char)text[0]));
		} else {
			len = len == 0 ? 1 : len;
			for (size_t i = 0; i < len; i++)
				line_put(line, esc,
				    (size_t)snprintf(esc, sizeof esc,
					json ? "\\\\x%02x" : "\\x%02x", (unsigned char)text[i]));
		}
		text += len;
		left -= len;
	}
}

static void
line_build(struct line *line, enum log_level level, const char *message)
{
	struct timespec now;
	struct tm tm;
	char date[32], head[96];
	const char *program =
	    *settings.program != '\0' ? settings.program : program_invocation_short_name;
	bool json = settings.format == LOG_FORMAT_JSON;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(head, sizeof head, json ? "{\"time\":\"%s.%03ldZ\",\"level\":\"" : "%s.%03ldZ ",
	    date, now.tv_nsec / 1000000);

	line->len = 0;
	line_puts(line, head);
	line_puts(line, json ? level_names[level] : program);
	line_puts(line, json ? "\",\"program\":\"" : ": ");
	line_puts(line, json ? program : level_names[level]);
	line_puts(line, json ? "\",\"msg\":\"" : ": ");
	line_put_escaped(line, message, json);
	if (json) {
		line->bytes[line->len++] = '"';
		line->bytes[line->len++] = '}';
	}
	line->bytes[line->len++] = '\n';
}

/* Writes the whole line without blocking, or drops it. Because of the lock, other threads cannot
 * use up the space that poll(2) reported. */
static void
line_write(const struct line *line)
{
	struct pollfd pfd = { .fd = settings.fd, .events = POLLOUT };
	ssize_t n = -1;

	pthread_mutex_lock(&write_lock);
	if (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLOUT) &&
	    !(pfd.revents & (POLLERR | POLLNVAL))) {
		/* If stderr is a log collector's socket, send() does not block. Everything else
		 * gets a write(). */
		n = send(settings.fd, line->bytes, line->len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == ENOTSOCK)
			n = write(settings.fd, line->bytes, line->len);
	}
	pthread_mutex_unlock(&write_lock);
	if (n < 0)
		atomic_fetch_add_explicit(&suppressed, 1, memory_order_relaxed);
}

static void
log_message(enum log_level level, int err, const char *fmt, va_list ap)
{
	char text[TEXT_BYTES];
	struct line line;
	int saved = errno;

	if (level == LOG_LEVEL_DEBUG && !log_is_debug())
		return;
	int n = vsnprintf(text, sizeof text, fmt, ap);
	if (err != 0 && n >= 0 && (size_t)n < sizeof text) {
		errno = err;
		snprintf(text + n, sizeof text - (size_t)n, ": %m");
	}
	line_build(&line, level, text);
	line_write(&line);
	errno = saved;
}

#define LOG(level, err)                                                                            \
	do {                                                                                       \
		va_list ap;                                                                        \
		va_start(ap, fmt);                                                                 \
		log_message((level), (err), fmt, ap);                                              \
		va_end(ap);                                                                        \
	} while (0)

void
log_error(const char *fmt, ...)
{
	LOG(LOG_LEVEL_ERROR, errno);
}

void
log_errorx(const char *fmt, ...)
{
	LOG(LOG_LEVEL_ERROR, 0);
}

void
log_warn(const char *fmt, ...)
{
	LOG(LOG_LEVEL_WARN, errno);
}

void
log_warnx(const char *fmt, ...)
{
	LOG(LOG_LEVEL_WARN, 0);
}

void
log_info(const char *fmt, ...)
{
	LOG(LOG_LEVEL_INFO, 0);
}

void
log_debug(const char *fmt, ...)
{
	LOG(LOG_LEVEL_DEBUG, 0);
}

void
log_at(enum log_level level, const char *fmt, ...)
{
	LOG(level, 0);
}

void
log_fatal(const char *fmt, ...)
{
	LOG(LOG_LEVEL_ERROR, errno);
	exit(EXIT_FAILURE);
}

void
log_fatalx(const char *fmt, ...)
{
	LOG(LOG_LEVEL_ERROR, 0);
	exit(EXIT_FAILURE);
}

/* A rate limit without a lock. One word contains the second and the number of lines begun in that
 * second: seconds << 16 | lines. Returns true if this line may be logged. */
static bool
is_allowed(atomic_uint_fast64_t *window)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t second = (uint64_t)now.tv_sec;
	uint64_t old = atomic_load_explicit(window, memory_order_relaxed);
	uint64_t next = 0;
	do {
		next = old >> 16 == second ? old + 1 : second << 16 | 1;
		if ((next & 0xffff) > NETERR_PER_SECOND)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
	    window, &old, next, memory_order_relaxed, memory_order_relaxed));
	return true;
}

void
log_neterr(const char *fmt, ...)
{
	static atomic_uint_fast64_t window;

	if (is_allowed(&window))
		LOG(LOG_LEVEL_WARN, 0);
	else
		atomic_fetch_add_explicit(&suppressed, 1, memory_order_relaxed);
}

void
log_netdebug(const char *fmt, ...)
{
	static atomic_uint_fast64_t window;

	if (!log_is_debug())
		return;
	if (is_allowed(&window))
		LOG(LOG_LEVEL_DEBUG, 0);
	else
		atomic_fetch_add_explicit(&suppressed, 1, memory_order_relaxed);
}
