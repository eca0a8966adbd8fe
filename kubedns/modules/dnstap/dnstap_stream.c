#include "kubedns/modules/dnstap/dnstap_stream.h"

#include <errno.h>
#include <fstrm.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/modules/dnstap/dnstap_frame.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum {
	/* The length field that precedes each frame. */
	LENGTH = 4,
	GATHERED_MAX = 2 * (LENGTH + DNSTAP_FRAME_MAX), /* number of bytes that are sent together */
	HANDSHAKE_MS = 5000,
	GOODBYE_MS = 1000,
	/* A TCP collector that acknowledges nothing for this long is considered dead. */
	SILENCE_MS = 30000,
};
static const char content_type[] = "protobuf:dnstap.Dnstap";

struct dnstap_stream {
	struct dnstap_target target;
	int wake;
	const atomic_bool *stop;
	struct fstrm_writer *writer; /* NULL if the connection is closed */
	int fd;
	int error;           /* the first error of this connection */
	int64_t deadline_ms; /* deadline for the collector, or CLOCK_NEVER to wait until `stop` */
	size_t gathered;
	uint8_t out[GATHERED_MAX];
};

struct dnstap_stream *
dnstap_stream_new(const struct dnstap_target *target, int wake, const atomic_bool *stop)
{
	struct dnstap_stream *stream = xcalloc(1, sizeof *stream);

	stream->target = *target;
	stream->wake = wake;
	stream->stop = stop;
	stream->fd = -1;
	return stream;
}

/* --- waiting and sending --- */

static int
fail(struct dnstap_stream *stream, int error)
{
	if (stream->error == 0)
		stream->error = error;
	return -error;
}

/* Waits until the socket is ready for `events`. Returns 0, or -errno if the deadline has passed. */
static int
wait_for(struct dnstap_stream *stream, short events)
{
	for (;;) {
		bool stopping = atomic_load(stream->stop);
		struct pollfd fds[] = { { .fd = stream->fd, .events = events },
			{ .fd = stopping ? -1 : stream->wake, .events = POLLIN } };

		if (stopping && stream->deadline_ms == CLOCK_NEVER)
			stream->deadline_ms = clock_mono_ms() + GOODBYE_MS;
		int wait_ms = clock_wait_ms(stream->deadline_ms, clock_mono_ms());
		if (wait_ms == 0)
			return fail(stream, ETIMEDOUT);
		int n = poll(fds, 2, wait_ms);
		if (n < 0 && errno != EINTR)
			return fail(stream, errno);
		if (n > 0 && fds[0].revents != 0)
			return 0;
		/* Otherwise `wake` is readable. The main thread has written to it to stop this thread, or a worker has, just before it
		 * saw that this thread is awake. */
		uint64_t count;
		if (n > 0 && !stopping && !atomic_load(stream->stop) &&
		    read(stream->wake, &count, sizeof count) < 0 && errno != EAGAIN)
			return fail(stream, errno);
	}
}

/* Sends the gathered bytes. Returns how many were sent. */
static size_t
send_gathered(struct dnstap_stream *stream)
{
	size_t sent = 0;

	while (sent < stream->gathered && stream->error == 0) {
		ssize_t n = send(stream->fd, stream->out + sent, stream->gathered - sent,
		    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			wait_for(stream, POLLOUT);
		else if (errno != EINTR)
			fail(stream, errno);
	}
	return sent;
}

/* --- callbacks of libfstrm --- */

static fstrm_res
result_of(const struct dnstap_stream *stream)
{
	return stream->error == 0 ? fstrm_res_success : fstrm_res_failure;
}

static int
finish_connecting(struct dnstap_stream *stream)
{
	int error = 0;
	socklen_t len = sizeof error;

	if (wait_for(stream, POLLOUT) < 0)
		return -stream->error;
	if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	return error == 0 ? 0 : fail(stream, error);
}

static void
notice_silence(int fd)
{
	int on = 1, silence_ms = SILENCE_MS, idle_s = SILENCE_MS / 1000;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
}

static fstrm_res
stream_connect(void *arg)
{
	struct dnstap_stream *stream = arg;
	struct sockaddr_storage ss = { .ss_family = AF_UNIX };
	socklen_t len = sizeof(struct sockaddr_un);

	if (*stream->target.path != '\0')
		memcpy(((struct sockaddr_un *)(void *)&ss)->sun_path, stream->target.path,
		    sizeof stream->target.path);
	else
		len = server_sockaddr(&stream->target.server, &ss);
	stream->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (stream->fd < 0) {
		fail(stream, errno);
		return fstrm_res_failure;
	}
	if (ss.ss_family != AF_UNIX)
		notice_silence(stream->fd);
	if (connect(stream->fd, (struct sockaddr *)&ss, len) < 0) {
		if (errno == EINPROGRESS)
			finish_connecting(stream);
		else
			fail(stream, errno);
	}
	return result_of(stream);
}

static fstrm_res
stream_close(void *arg)
{
	struct dnstap_stream *stream = arg;

	if (stream->fd >= 0)
		close(stream->fd);
	stream->fd = -1;
	stream->gathered = 0;
	return fstrm_res_success;
}

/* libfstrm reads the collector's part of the handshake here, after it has written its own part. */
static fstrm_res
stream_read(void *arg, void *data, size_t len)
{
	struct dnstap_stream *stream = arg;
	uint8_t *to = data;

	send_gathered(stream);
	stream->gathered = 0;
	while (len > 0 && stream->error == 0) {
		ssize_t n = recv(stream->fd, to, len, MSG_DONTWAIT);

		if (n > 0) {
			to += n;
			len -= (size_t)n;
		} else if (n == 0) {
			fail(stream, ECONNRESET);
		} else if (errno == EAGAIN) {
			wait_for(stream, POLLIN);
		} else if (errno != EINTR) {
			fail(stream, errno);
		}
	}
	return result_of(stream);
}

/* Gathers bytes. There is always space. dnstap_stream_write() has checked it, and control frames are short. */
static fstrm_res
stream_gather(void *arg, const struct iovec *iov, int count)
{
	struct dnstap_stream *stream = arg;

	for (int i = 0; i < count && stream->error == 0; i++) {
		if (iov[i].iov_len > GATHERED_MAX - stream->gathered) {
			fail(stream, EMSGSIZE);
			break;
		}
		memcpy(stream->out + stream->gathered, iov[i].iov_base, iov[i].iov_len);
		stream->gathered += iov[i].iov_len;
	}
	return result_of(stream);
}

/* --- for the writer --- */

static struct fstrm_writer *
make_writer(struct dnstap_stream *stream)
{
	struct fstrm_writer_options *options = fstrm_writer_options_init();
	struct fstrm_rdwr *rdwr = fstrm_rdwr_init(stream);

	fstrm_rdwr_set_open(rdwr, stream_connect);
	fstrm_rdwr_set_close(rdwr, stream_close);
	fstrm_rdwr_set_read(rdwr, stream_read);
	fstrm_rdwr_set_write(rdwr, stream_gather);
	fstrm_writer_options_add_content_type(options, content_type, sizeof content_type - 1);
	struct fstrm_writer *writer = fstrm_writer_init(options, &rdwr);
	fstrm_writer_options_destroy(&options);
	return writer;
}

/* Closes the connection. The library ends the stream properly, unless the connection is broken. */
static void
end(struct dnstap_stream *stream)
{
	stream->deadline_ms = clock_mono_ms() + GOODBYE_MS;
	stream->gathered = 0;
	if (stream->writer != NULL)
		fstrm_writer_destroy(&stream->writer);
	stream_close(stream);
}

int
dnstap_stream_open(struct dnstap_stream *stream)
{
	stream->error = 0;
	stream->deadline_ms = clock_mono_ms() + HANDSHAKE_MS;
	stream->writer = make_writer(stream);
	bool agreed = fstrm_writer_open(stream->writer) == fstrm_res_success;
	send_gathered(stream);
	stream->gathered = 0;
	stream->deadline_ms = CLOCK_NEVER;
	if (!agreed)
		fail(stream, EPROTO);
	if (stream->error == 0)
		return 0;
	end(stream);
	return -stream->error;
}

bool
dnstap_stream_is_open(const struct dnstap_stream *stream)
{
	return stream->writer != NULL;
}

/* Returns the number of complete frames before `end`. */
static uint64_t
count_frames(const uint8_t *out, size_t end)
{
	uint64_t count = 0;

	for (size_t at = 0; end - at >= LENGTH; count++) {
		size_t len = wire_get32(out + at);

		if (end - at - LENGTH < len)
			break;
		at += LENGTH + len;
	}
	return count;
}

int
dnstap_stream_flush(struct dnstap_stream *stream, uint64_t *sent, uint64_t *lost)
{
	uint64_t all = count_frames(stream->out, stream->gathered);
	uint64_t left = count_frames(stream->out, send_gathered(stream));

	*sent += left;
	*lost += all - left;
	stream->gathered = 0;
	if (stream->error == 0)
		return 0;
	end(stream);
	return -stream->error;
}

int
dnstap_stream_write(
    struct dnstap_stream *stream, const uint8_t *frame, size_t len, uint64_t *sent, uint64_t *lost)
{
	if (GATHERED_MAX - stream->gathered < LENGTH + DNSTAP_FRAME_MAX &&
	    dnstap_stream_flush(stream, sent, lost) < 0) {
		++*lost;
		return -stream->error;
	}
	fstrm_writer_write(stream->writer, frame, len);
	return 0;
}

/* The collector sends nothing while it accepts frames, so any input means that it has closed the
 * connection. */
void
dnstap_stream_wait(struct dnstap_stream *stream, int64_t deadline_ms)
{
	struct pollfd fds[] = { { .fd = stream->wake, .events = POLLIN },
		{ .fd = stream->fd, .events = POLLIN | POLLRDHUP } };
	uint64_t count;

	if (poll(fds, 2, clock_wait_ms(deadline_ms, clock_mono_ms())) <= 0)
		return;
	if (fds[0].revents != 0 && read(stream->wake, &count, sizeof count) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
	if (fds[1].revents == 0 || stream->writer == NULL)
		return;
	fail(stream, ECONNRESET);
	end(stream);
}

void
dnstap_stream_free(struct dnstap_stream *stream)
{
	if (stream == NULL)
		return;
	end(stream);
	free(stream);
}

/* --- the target of --dnstap --- */

int
dnstap_target_parse(const char *text, struct dnstap_target *target, const char **why)
{
	const char *path = text + strlen("unix:");

	*target = (struct dnstap_target){ 0 };
	if (strncmp(text, "unix:", strlen("unix:")) == 0) {
		if (*path != '/')
			*why = "a socket's path begins with /";
		else if (strlen(path) >= sizeof target->path)
			*why = "a socket's path has 107 bytes at most";
		else
			strcpy(target->path, path);
		return *target->path != '\0' ? 0 : -EINVAL;
	}
	if (strncmp(text, "tcp:", strlen("tcp:")) != 0) {
		*why = "unix:/PATH or tcp:IP:PORT is needed";
		return -EINVAL;
	}
	if (server_parse(text + strlen("tcp:"), 0, &target->server, why) < 0)
		return -EINVAL;
	*why = "the port is missing: tcp:IP:PORT";
	return target->server.port != 0 ? 0 : -EINVAL;
}

const char *
dnstap_target_format(const struct dnstap_target *target, char *text)
{
	char server[SERVER_TEXT_MAX];

	if (*target->path != '\0')
		snprintf(text, DNSTAP_TARGET_TEXT_MAX, "unix:%s", target->path);
	else
		snprintf(
		    text, DNSTAP_TARGET_TEXT_MAX, "tcp:%s", server_format(&target->server, server));
	return text;
}
