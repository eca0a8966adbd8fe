#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/servers/servers_file_write.h"

enum { DIRS_MAX = 16 };

static const char name[] = "servers.conf", aside[] = "servers.conf.new";

/*
 * Opens and locks the directory `path`. This user must own the directory, no other user may write
 * to it, and no other process may have locked it. The kernel releases the lock when the process
 * ends. Returns a descriptor or -errno.
 */
static int
take_dir(const char *path)
{
	struct stat st;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = -EEXIST;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022) == 0 &&
	    flock(fd, LOCK_EX | LOCK_NB) == 0) {
		int probe =
		    openat(fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

		rc = probe < 0 ? -errno : 0;
		if (probe >= 0)
			close(probe);
		unlinkat(fd, name, 0); /* left by an earlier process */
	}
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

static int
open_below(struct servers_file_dir *file, const char *base)
{
	int fd = -EEXIST;

	for (int i = 0; i < DIRS_MAX && fd == -EEXIST; i++) {
		char *path = i ? xasprintf("%s/nanny.%d", base, i) : xasprintf("%s/nanny", base);

		fd = take_dir(path);
		if (fd >= 0) {
			*file = (struct servers_file_dir){
				.dir_fd = fd, .dir = path, .path = xasprintf("%s/%s", path, name)
			};
			return 0;
		}
		free(path);
	}
	return fd;
}

int
servers_file_dir_open(struct servers_file_dir *file, const char *run_dir)
{
	*file = (struct servers_file_dir){ .dir_fd = -1 };
	if (*run_dir) {
		int rc = open_below(file, run_dir);

		if (rc < 0)
			log_errorx(
			    "run directory %s: %s: mount a tmpfs there that uid %u can write "
			    "to, or set another with -runDir",
			    run_dir, strerror(-rc), (unsigned)geteuid());
		return rc;
	}
	if (open_below(file, "/run") == 0)
		return 0;
	int rc = open_below(file, "/tmp");
	if (rc < 0)
		log_errorx("run directory: cannot write to /run or /tmp: %s: mount a "
			   "tmpfs or set -runDir",
		    strerror(-rc));
	return rc;
}

static int
write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int
servers_file_write(const struct servers_file_dir *file, const char *text, size_t len)
{
	int fd = openat(
	    file->dir_fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	/* dnsmasq may run as another user, so set the mode regardless of the umask. */
	int rc = fchmod(fd, 0644) < 0 ? -errno : write_all(fd, text, len);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && renameat(file->dir_fd, aside, file->dir_fd, name) < 0)
		rc = -errno;
	return rc;
}

void
servers_file_dir_close(struct servers_file_dir *file)
{
	if (file->dir_fd < 0)
		return;
	unlinkat(file->dir_fd, name, 0);
	unlinkat(file->dir_fd, aside, 0);
	rmdir(file->dir);
	close(file->dir_fd);
	free(file->dir);
	free(file->path);
	*file = (struct servers_file_dir){ .dir_fd = -1 };
}
