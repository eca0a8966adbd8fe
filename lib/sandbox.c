#include "lib/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/sandbox_syscalls.h"
#include "lib/xalloc.h"

enum { SANDBOX_PATHS_MAX = 128, SANDBOX_PORTS_MAX = 64 };

enum sandbox_access {
	ACCESS_READ = 1 << 0,
	ACCESS_WRITE = 1 << 1,
	ACCESS_EXECUTE = 1 << 2,
	ACCESS_REMOVE_DIRS = 1 << 3,
	ACCESS_SOCKET = 1 << 4,
};

struct sandbox_path {
	char *path;
	unsigned access;
};

struct sandbox_ports {
	uint16_t ports[SANDBOX_PORTS_MAX];
	size_t count;
	bool any;
};

struct sandbox {
	enum sandbox_mode mode;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	size_t path_count;
	struct sandbox_ports connect, bind;
};

static const char *const layer_names[SANDBOX_LAYERS] = {
	[SANDBOX_NO_NEW_PRIVS] = "no_new_privs",
	[SANDBOX_CAPABILITIES] = "capabilities",
	[SANDBOX_FILES] = "files",
	[SANDBOX_TCP] = "tcp",
	[SANDBOX_SIGNALS] = "signals",
	[SANDBOX_SYSCALLS] = "syscalls",
};

/* The sandbox that this process has entered. */
static struct {
	unsigned layers, keep;
	struct sandbox *sandbox;
} entered;

/* --- what the program needs --- */

static void
add_path(struct sandbox *s, const char *path, unsigned access)
{
	for (size_t i = 0; i < s->path_count; i++)
		if (strcmp(s->paths[i].path, path) == 0) {
			s->paths[i].access |= access;
			return;
		}
	if (s->path_count == SANDBOX_PATHS_MAX) {
		log_warnx("sandbox: no access to %s: more than %d paths", path, SANDBOX_PATHS_MAX);
		return;
	}
	s->paths[s->path_count++] = (struct sandbox_path){ xstrdup(path), access };
}

/* Allows the files that the C library, TLS and the allocator open by themselves: libraries, the
 * resolver's files, CA certificates, and the kernel's files about this process and its limits. */
struct sandbox *
sandbox_new(enum sandbox_mode mode)
{
	static const char *const files[] = { "/usr", "/lib", "/lib64", "/etc/ld.so.cache",
		"/etc/nsswitch.conf", "/etc/host.conf", "/etc/hosts", "/etc/gai.conf",
		"/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group", "/etc/localtime",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates",
		"/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/gnutls", "/etc/pkcs11",
		"/etc/crypto-policies", "/dev/urandom", "/dev/random", "/dev/zero", "/proc/self",
		"/proc/sys", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/fs/cgroup",
		"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage" };
	struct sandbox *s = xcalloc(1, sizeof *s);

	s->mode = mode;
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		sandbox_read(s, files[i]);
	sandbox_read_replaced(s, "/etc/resolv.conf");
	sandbox_write(s, "/dev/null");
	return s;
}

void
sandbox_free(struct sandbox *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->path_count; i++)
		free(s->paths[i].path);
	free(s);
}

void
sandbox_read(struct sandbox *s, const char *path)
{
	add_path(s, path, ACCESS_READ);
}

void
sandbox_write(struct sandbox *s, const char *path)
{
	add_path(s, path, ACCESS_READ | ACCESS_WRITE);
}

void
sandbox_remove_dirs(struct sandbox *s, const char *path)
{
	add_path(s, path, ACCESS_REMOVE_DIRS);
}

void
sandbox_make_socket(struct sandbox *s, const char *path)
{
	add_path(s, path, ACCESS_SOCKET);
}

void
sandbox_execute(struct sandbox *s, const char *path)
{
	static const char *const loaders[] = { "/lib64/ld-linux-x86-64.so.2",
		"/lib/ld-linux-aarch64.so.1", "/lib/ld-linux-armhf.so.3", "/lib/ld-linux.so.2" };

	add_path(s, path, ACCESS_READ | ACCESS_EXECUTE);
	for (size_t i = 0; i < sizeof loaders / sizeof loaders[0]; i++)
		add_path(s, loaders[i], ACCESS_READ | ACCESS_EXECUTE);
}

/* Whether a directory contains more than configuration. /etc, /var and /run count only for root,
 * because file permissions protect their secrets from other users. */
static bool
holds_other_things(const char *dir)
{
	static const char *const always[] = { "/", "/home", "/root", "/tmp", "/var/tmp", "/dev",
		"/dev/shm", "/proc", "/sys" };
	static const char *const for_root[] = { "/etc", "/var", "/var/lib", "/run", "/var/run" };

	for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
		if (strcmp(dir, always[i]) == 0)
			return true;
	for (size_t i = 0; geteuid() == 0 && i < sizeof for_root / sizeof for_root[0]; i++)
		if (strcmp(dir, for_root[i]) == 0)
			return true;
	return false;
}

/* Allows the directory that contains `path`, or the nearest parent that exists. */
static void
read_holder(struct sandbox *s, const char *path)
{
	char *dir = *path == '/' ? xstrdup(path) : xasprintf("./%s", path), *real = NULL;

	for (char *slash; real == NULL && (slash = strrchr(dir, '/')) != NULL;) {
		*slash = '\0';
		real = realpath(slash == dir ? "/" : dir, NULL);
	}
	if (real != NULL && !holds_other_things(real))
		sandbox_read(s, real);
	free(real);
	free(dir);
}

void
sandbox_read_replaced(struct sandbox *s, const char *path)
{
	char *copy = xstrdup(path);

	for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/';)
		copy[--len] = '\0';
	sandbox_read(s, copy);
	read_holder(s, copy);
	char *target = realpath(copy, NULL);
	if (target != NULL)
		read_holder(s, target);
	free(target);
	free(copy);
}

static void
add_port(struct sandbox_ports *ports, uint16_t port)
{
	for (size_t i = 0; i < ports->count; i++)
		if (ports->ports[i] == port)
			return;
	if (ports->count < SANDBOX_PORTS_MAX)
		ports->ports[ports->count++] = port;
	else
		ports->any = true;
}

void
sandbox_connect(struct sandbox *s, uint16_t port)
{
	add_port(&s->connect, port);
}

void
sandbox_connect_any(struct sandbox *s)
{
	s->connect.any = true;
}

void
sandbox_bind(struct sandbox *s, uint16_t port)
{
	add_port(&s->bind, port);
}

bool
sandbox_connects(const struct sandbox *s, uint16_t port)
{
	for (size_t i = 0; i < s->connect.count; i++)
		if (s->connect.ports[i] == port)
			return true;
	return s->connect.any;
}

bool
sandbox_may_connect(uint16_t port)
{
	return (entered.layers & 1u << SANDBOX_TCP) == 0 || sandbox_connects(entered.sandbox, port);
}

/* --- Landlock --- */

/*
 * Landlock restricts files (Linux 5.13), TCP ports from version 4 (Linux 6.7) and signals from
 * version 6 (Linux 6.12). Debian 12's headers only have version 1, so the constants of later
 * versions are defined here. They are part of the kernel's stable interface.
 */

/* Numbers of system calls. They are the same on every architecture. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };

enum { CREATE_VERSION = 1, RULE_PATH = 1, RULE_PORT = 2 };

#define FS_EXECUTE     (UINT64_C(1) << 0)
#define FS_WRITE_FILE  (UINT64_C(1) << 1)
#define FS_READ_FILE   (UINT64_C(1) << 2)
#define FS_READ_DIR    (UINT64_C(1) << 3)
#define FS_REMOVE_DIR  (UINT64_C(1) << 4)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_REG    (UINT64_C(1) << 8)
#define FS_MAKE_SOCK   (UINT64_C(1) << 9)
#define FS_TRUNCATE    (UINT64_C(1) << 14) /* version 3 */

#define FS_ALL_1 ((UINT64_C(1) << 13) - 1) /* versions 2, 3 and 5 each add one right */
#define FS_ALL_2 ((UINT64_C(1) << 14) - 1)
#define FS_ALL_3 ((UINT64_C(1) << 15) - 1)
#define FS_ALL_5 ((UINT64_C(1) << 16) - 1)

/* The rights that can be granted for a file that is not a directory. */
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
	if (access & ACCESS_SOCKET)
		all |= FS_MAKE_SOCK | FS_REMOVE_FILE;
	return all;
}

/* A rule belongs to an inode. The inode of a directory of /proc exists only while the directory is
 * open. The descriptor of /proc/self therefore stays open as long as the process lives. */
static void
allow_path(int ruleset, const struct sandbox_path *path, uint64_t handled)
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
		log_warn("sandbox: no access to %s", path->path);
	if (stat(self, &self_st) == 0 && st.st_ino == self_st.st_ino && st.st_dev == self_st.st_dev)
		return;
	close(fd);
}

static void
allow_ports(int ruleset, const struct sandbox_ports *ports, uint64_t access)
{
	for (size_t i = 0; i < ports->count; i++) {
		struct port_rule rule = { .access = access, .port = ports->ports[i] };

		if (syscall(ADD_RULE, ruleset, RULE_PORT, &rule, 0) < 0)
			log_warn("sandbox: no access to TCP port %u", ports->ports[i]);
	}
}

/* Restricts files, TCP and signals of this thread. Returns the mask of layers in force. */
static unsigned
landlock_enter(const struct sandbox *s, int abi)
{
	struct ruleset attr = { .fs = files_handled(abi) };
	unsigned layers = 1u << SANDBOX_FILES;

	if (abi <= 0)
		return 0;
	if (abi >= 4) {
		attr.net = NET_BIND_TCP | (s->connect.any ? 0 : NET_CONNECT_TCP);
		layers |= 1u << SANDBOX_TCP;
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
		allow_path(ruleset, &s->paths[i], attr.fs);
	if (attr.net & NET_CONNECT_TCP)
		allow_ports(ruleset, &s->connect, NET_CONNECT_TCP);
	if (attr.net & NET_BIND_TCP)
		allow_ports(ruleset, &s->bind, NET_BIND_TCP);
	if (syscall(RESTRICT_SELF, ruleset, 0) < 0) {
		log_warn(
		    "sandbox: cannot enter the Landlock ruleset; files and TCP are not confined");
		layers = 0;
	}
	close(ruleset);
	return layers;
}

/* --- capabilities --- */

static uint64_t
capabilities_kept(unsigned keep)
{
	uint64_t ports = keep & SANDBOX_KEEP_LOW_PORTS ? UINT64_C(1) << CAP_NET_BIND_SERVICE : 0;

	return ports | (keep & SANDBOX_KEEP_GROUPS ? UINT64_C(1) << CAP_SETGID : 0) |
	       (keep & SANDBOX_KEEP_NET_ADMIN ? UINT64_C(1) << CAP_NET_ADMIN : 0);
}

void
sandbox_empty_bounding_set(unsigned keep)
{
	uint64_t kept = capabilities_kept(keep);

	for (int cap = 0; cap <= 63 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if ((kept & UINT64_C(1) << cap) == 0)
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

/*
 * Drops the process's own capabilities. Root keeps the right to read other users' files, because a
 * token or a ConfigMap may belong to another user. Landlock limits these files. Returns true if no
 * other capability is left.
 */
static bool
drop_own_capabilities(unsigned keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };
	uint64_t kept = capabilities_kept(keep) | UINT64_C(1) << CAP_DAC_OVERRIDE |
			UINT64_C(1) << CAP_DAC_READ_SEARCH;

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t word = (uint32_t)(kept >> (32 * i));

		data[i].permitted &= word;
		data[i].effective &= word;
		data[i].inheritable &= word;
	}
	return syscall(SYS_capset, &header, data) == 0;
}

static bool
drop_capabilities(unsigned keep)
{
	sandbox_empty_bounding_set(keep);
	return drop_own_capabilities(keep);
}

void
sandbox_low_ports_done(void)
{
	if ((entered.keep & SANDBOX_KEEP_LOW_PORTS) != 0 &&
	    !drop_own_capabilities(entered.keep & ~(unsigned)SANDBOX_KEEP_LOW_PORTS))
		log_warn("sandbox: cannot drop the right to bind ports below 1024");
}

/* --- entering --- */

/* Enters all layers that this kernel supports. The caller logs which are missing. */
static unsigned
enter(const struct sandbox *s, unsigned keep, const struct sandbox_exec_key *key)
{
	unsigned layers = 0;

	if (drop_capabilities(keep))
		layers |= 1u << SANDBOX_CAPABILITIES;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		layers |= 1u << SANDBOX_NO_NEW_PRIVS;
	if (s->mode == SANDBOX_ON)
		layers |= landlock_enter(s, sandbox_landlock_abi());
	if (sandbox_syscalls_enter(s->mode, keep, key) == 0 && s->mode == SANDBOX_ON)
		layers |= 1u << SANDBOX_SYSCALLS;
	return layers;
}

/* Returns the names of `layers`, separated by commas; caller frees. */
static char *
names_of(unsigned layers)
{
	char *text = xstrdup("");

	for (unsigned i = 0; i < SANDBOX_LAYERS; i++)
		if (layers & 1u << i) {
			char *more =
			    xasprintf("%s%s%s", text, *text == '\0' ? "" : ", ", layer_names[i]);

			free(text);
			text = more;
		}
	return text;
}

/* Returns the layers of mode `on` that the kernel lacks. */
static unsigned
missing(unsigned layers)
{
	return ((1u << SANDBOX_LAYERS) - 1) & ~layers;
}

void
sandbox_say(const char *who, unsigned layers)
{
	char *held = names_of(layers), *lacking = names_of(missing(layers));

	if (*lacking == '\0')
		log_info("%s: %s", who, held);
	else
		log_warnx("%s: %s; not available here (Landlock version %d), so not used: %s", who,
		    *held == '\0' ? "nothing" : held, sandbox_landlock_abi(), lacking);
	free(held);
	free(lacking);
}

void
sandbox_enter(struct sandbox *s, unsigned keep)
{
	if (s->mode == SANDBOX_OFF) {
		log_warnx("sandbox: off");
		sandbox_free(s);
		return;
	}
	entered.layers = enter(s, keep, NULL);
	entered.keep = keep;
	entered.sandbox = s;
	if (s->mode == SANDBOX_LOG)
		log_warnx(
		    "sandbox: log: the kernel logs system calls that --sandbox=on refuses; files "
		    "and TCP are not confined");
	else
		sandbox_say("sandbox", entered.layers);
}

/*
 * Allocates memory for exec's arguments at random addresses. A filter can only recognise the
 * allowed execve() by the addresses of its arguments. Each address has 35 random bits. The
 * addresses disappear with the old address space, so an attacker who takes over the new program
 * cannot call execve() with them.
 */
static void *
secret_pages(size_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), hint = 0;

	if (getrandom(&hint, sizeof hint, 0) != sizeof hint)
		return NULL;
	hint = hint % (UINT64_C(1) << 46) / page * page;
	void *at = mmap((void *)(uintptr_t)hint, len, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

int
sandbox_exec(const struct sandbox *s, unsigned keep, char *const *argv, int report_fd)
{
	size_t path_len = strlen(argv[0]) + 1, count = 0;

	while (argv[count++] != NULL)
		;
	char *path = secret_pages(path_len), **copy = secret_pages(count * sizeof *argv);
	if (path == NULL || copy == NULL)
		return -ENOMEM;
	memcpy(path, argv[0], path_len);
	memcpy(copy, argv, count * sizeof *argv);
	int layers = 0;
	if (s->mode != SANDBOX_OFF)
		layers = (int)enter(s, keep, &(struct sandbox_exec_key){ path, copy });
	if (report_fd >= 0 && write(report_fd, &layers, sizeof layers) < 0)
		return -errno;
	execv(path, copy);
	return -errno;
}

/* --- messages and metrics --- */

void
sandbox_metrics_of(struct metrics *m, const char *name, unsigned layers)
{
	metrics_family(m, name, METRIC_GAUGE, "1 for each layer of the sandbox that is in force.");
	for (unsigned i = 0; i < SANDBOX_LAYERS; i++)
		metrics_value(m, (layers & 1u << i) != 0, "layer", layer_names[i], NULL);
}

void
sandbox_metrics(struct metrics *m, const char *name)
{
	sandbox_metrics_of(m, name, entered.layers);
}

void
sandbox_check(enum sandbox_mode mode)
{
	static const char *const modes[] = {
		[SANDBOX_ON] = "on", [SANDBOX_OFF] = "off", [SANDBOX_LOG] = "log"
	};
	int abi = sandbox_landlock_abi();

	log_info(
	    "sandbox: --sandbox=%s; this kernel has Landlock %s (version %d: files%s%s) and %s",
	    modes[mode], abi > 0 ? "on" : "off", abi, abi >= 4 ? ", TCP" : "",
	    abi >= 6 ? ", signals" : "", sandbox_has_syscalls() ? "seccomp" : "no seccomp");
}
