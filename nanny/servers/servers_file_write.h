/*
 * Writes the servers file into a private directory below /run or /tmp. The directory is locked, so
 * that two nannies on one machine never share it. The file is written under another name and then
 * renamed, so that dnsmasq never reads a partial file.
 */
#ifndef NANNY_SERVERS_SERVERS_FILE_WRITE_H
#define NANNY_SERVERS_SERVERS_FILE_WRITE_H

#include <stddef.h>

struct servers_file_dir {
	int dir_fd;
	char *dir;
	char *path; /* path of the servers file */
};

/* Creates the directory in `run_dir`. If that is "", creates it in /run or else in /tmp. Returns 0,
 * or -errno after one log line. */
int servers_file_dir_open(struct servers_file_dir *file, const char *run_dir);

/* Replaces the contents of the file. Returns 0 or -errno. */
int servers_file_write(const struct servers_file_dir *file, const char *text, size_t len);

/* Removes the file and the directory. */
void servers_file_dir_close(struct servers_file_dir *file);

#endif
