#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/log.h"
#include "nanny/privileges.h"

static uint64_t
effective_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };

	if (syscall(SYS_capget, &header, data) < 0)
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

static int
set_capabilities(uint64_t set)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	for (unsigned i = 0; i < 2; i++) {
		uint32_t word = (uint32_t)(set >> (32 * i));

		data[i] = (struct __user_cap_data_struct){
			.effective = word, .permitted = word, .inheritable = word
		};
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static bool
may_change_user(void)
{
	const uint64_t needed = 1ull << CAP_SETUID | 1ull << CAP_SETGID;

	return (effective_capabilities() & needed) == needed;
}

bool
privileges_stay_root(void)
{
	return geteuid() == 0 && !may_change_user();
}

/*
 * PR_SET_KEEPCAPS keeps the capability when the user changes. An ambient capability also stays
 * across exec. PR_SET_KEEPCAPS and ambient capabilities work under no-new-privileges. The kernel
 * clears the parent-death signal when the user changes, so this function sets the signal again.
 */
static int
become(uid_t user, uint64_t keep)
{
	int death_signal = 0;

	if (prctl(PR_GET_PDEATHSIG, &death_signal) < 0)
		return -errno;
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0)
		return -errno;
	if (setresgid(user, user, user) < 0)
		return -errno;
	if (setresuid(user, user, user) < 0)
		return -errno;
	int rc = set_capabilities(keep);
	if (rc == 0 && keep & 1ull << CAP_NET_BIND_SERVICE &&
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0) < 0)
		rc = -errno;
	if (rc == 0 && death_signal != 0 && prctl(PR_SET_PDEATHSIG, death_signal) < 0)
		rc = -errno;
	return rc;
}

static int
drop_to(uid_t user, uint64_t keep)
{
	if (geteuid() != 0)
		return 0;
	if (!may_change_user()) {
		log_info("privileges: no capabilities SETUID and SETGID: staying root");
		return 0;
	}
	int rc = become(user, effective_capabilities() & keep);
	if (rc < 0)
		log_errorx("privileges: cannot become user %u: %s", user, strerror(-rc));
	return rc;
}

int
privileges_drop(uid_t user)
{
	return drop_to(user, 1ull << CAP_NET_BIND_SERVICE);
}

int
privileges_keep_net_admin(void)
{
	return drop_to(PRIVILEGES_NODE, 1ull << CAP_NET_ADMIN);
}
