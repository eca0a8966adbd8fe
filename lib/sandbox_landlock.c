/*
 * Landlock (Linux 5.13 and newer): files, and with newer versions TCP ports (version 4, Linux 6.7)
 * and signals (version 6, Linux 6.12). Debian 12's headers know version 1 only, so the numbers of
 * the later ones are here; they are the kernel's interface and do not change.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/sandbox_internal.h"

/* The same numbers on every architecture. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };

enum { CREATE_VERSION = 1, RULE_PATH = 1, RULE_PORT = 2 };

#define FS_EXECUTE     (UINT64_C(1) << 0)
#define FS_WRITE_FILE  (UINT64_C(1) << 1)
#define FS_READ_FILE   (UINT64_C(1) << 2)
#define FS_READ_DIR    (UINT64_C(1) << 3)
#define FS_REMOVE_DIR  (UINT64_C(1) << 4)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_REG    (UINT64_C(1) << 8)
#define FS_TRUNCATE    (UINT64_C(1) << 14) /* version 3 */

#define FS_ALL_1 ((UINT64_C(1) << 13) - 1) /* version 1; 2, 3 and 5 have one more each */
#define FS_ALL_2 ((UINT64_C(1) << 14) - 1)
#define FS_ALL_3 ((UINT64_C(1) << 15) - 1)
#define FS_ALL_5 ((UINT64_C(1) << 16) - 1)

/* What can be granted for a file that is no directory. */
#define FS_OF_FILE (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE)

#define NET_BIND_TCP    (UINT64_C(1) << 0)
#define NET_CONNECT_TCP (UINT64_C(1) << 1)

#define SCOPE_ABSTRACT_UNIX (UINT64_C(1) << 0)
#define SCOPE_SIGNAL        (UINT64_C(1) << 1)

struct ruleset {
	uint64_t fs, net /* version 4 */, scoped /* version 6 */;
};

struct path_rule {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

struct port_rule {
	uint64_t access, port;
};

int
sandbox_landlock_abi(void)
{
	long abi = syscall(CREATE_RULESET, NULL, 0, CREATE_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static uint64_t
files_handled(int abi)
{
	return abi >= 5 ? FS_ALL_5 : abi >= 3 ? FS_ALL_3 : abi == 2 ? FS_ALL_2 : FS_ALL_1;
}

static uint64_t
rights(unsigned access)
{
	uint64_t all = 0;

	if (access & ACCESS_READ)
		all |= FS_READ_FILE | FS_READ_DIR;
	if (access & ACCESS_WRITE)
		all |= FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG | FS_REMOVE_FILE;
	if (access & ACCESS_EXECUTE)
		all |= FS_EXECUTE;
	if (access & ACCESS_REMOVE_DIRS)
		all |= FS_REMOVE_DIR;
	return all;
}

/*
 * A rule belongs to the inode. That of a directory of /proc lives only as long as somebody holds
 * it, so the descriptor of /proc/self stays open for the life of the process.
 */
static void
add_path(int ruleset, const struct sandbox_path *path, uint64_t handled)
{
	static const char self[] = "/proc/self";
	struct stat st, self_st;
	int fd = open(path->path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return;
	struct path_rule rule = { .access = rights(path->access) & handled, .fd = fd };
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.access &= FS_OF_FILE;
	if (rule.access != 0 && syscall(ADD_RULE, ruleset, RULE_PATH, &rule, 0) < 0)
		log_warn("sandbox: %s stays closed", path->path);
	if (stat(self, &self_st) == 0 && st.st_ino == self_st.st_ino && st.st_dev == self_st.st_dev)
		return;
	close(fd);
}

static void
add_ports(int ruleset, const struct sandbox_ports *ports, uint64_t access)
{
	for (size_t i = 0; i < ports->count; i++) {
		struct port_rule rule = { .access = access, .port = ports->ports[i] };
		if (syscall(ADD_RULE, ruleset, RULE_PORT, &rule, 0) < 0)
			log_warn("sandbox: TCP port %u stays closed", ports->ports[i]);
	}
}

unsigned
sandbox_landlock_enter(const struct sandbox *s, int abi)
{
	struct ruleset attr = { .fs = files_handled(abi) };
	unsigned layers = 1u << SANDBOX_FILES;

	if (abi <= 0)
		return 0;
	if (abi >= 4) {
		attr.net =
		    (s->connect.any ? 0 : NET_CONNECT_TCP) | (s->bind.any ? 0 : NET_BIND_TCP);
		layers |= attr.net != 0 ? 1u << SANDBOX_TCP : 0;
	}
	if (abi >= 6) {
		attr.scoped = SCOPE_SIGNAL | SCOPE_ABSTRACT_UNIX;
		layers |= 1u << SANDBOX_SIGNALS;
	}
	size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 2 * sizeof attr.fs : sizeof attr.fs;
	int ruleset = (int)syscall(CREATE_RULESET, &attr, size, 0);
	if (ruleset < 0) {
		log_warn(
		    "sandbox: cannot create a Landlock ruleset; files and TCP are not confined");
		return 0;
	}
	for (size_t i = 0; i < s->path_count; i++)
		add_path(ruleset, &s->paths[i], attr.fs);
	if (attr.net & NET_CONNECT_TCP)
		add_ports(ruleset, &s->connect, NET_CONNECT_TCP);
	if (attr.net & NET_BIND_TCP)
		add_ports(ruleset, &s->bind, NET_BIND_TCP);
	if (syscall(RESTRICT_SELF, ruleset, 0) < 0) {
		log_warn(
		    "sandbox: cannot enter the Landlock ruleset; files and TCP are not confined");
		layers = 0;
	}
	close(ruleset);
	return layers;
}
