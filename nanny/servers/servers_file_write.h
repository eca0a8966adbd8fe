/*
 * The servers file: in a directory of our own below /run or /tmp, which is locked so that two
 * nannies on one machine never share one. It is written aside and renamed, so that dnsmasq never
 * reads half of it.
 */
#ifndef NANNY_SERVERS_SERVERS_FILE_WRITE_H
#define NANNY_SERVERS_SERVERS_FILE_WRITE_H

#include <stddef.h>

struct servers_file_dir {
	int dir_fd;
	char *dir;
	char *path; /* of the servers file */
};

/* Makes the directory in `run_dir`; if that is "", in /run or else /tmp. 0, or -errno after one log
 * line. */
int servers_file_dir_open(struct servers_file_dir *file, const char *run_dir);

/* Replaces the file's content; 0 or -errno. */
int servers_file_write(const struct servers_file_dir *file, const char *text, size_t len);

/* Removes file and directory. */
void servers_file_dir_close(struct servers_file_dir *file);

#endif
