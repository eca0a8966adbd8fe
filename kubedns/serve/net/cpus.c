/*
 * The number of CPUs that this process may use, from its affinity mask and the quota of its control
 * group.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "kubedns/serve/worker.h"

/* Returns the number of CPUs that a quota and a period in microseconds allow, rounded up. Returns 0 if there is no limit. */
static unsigned
granted(long long quota_us, long long period_us)
{
	if (quota_us <= 0 || period_us <= 0)
		return 0;
	return (unsigned)((quota_us + period_us - 1) / period_us);
}

/* Returns the quota in a cgroup of version 2. One file contains quota and period: "max 100000" or "50000 100000". */
static unsigned
quota_v2(const char *directory)
{
	char path[512], quota[32];
	long long period_us;
	unsigned cpus = 0;

	snprintf(path, sizeof path, "%s/cpu.max", directory);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return 0;
	long long quota_us;
	if (fscanf(f, "%31s %lld", quota, &period_us) == 2 && sscanf(quota, "%lld", &quota_us) == 1)
		cpus = granted(quota_us, period_us);
	fclose(f);
	return cpus;
}

static long long
read_number(const char *directory, const char *name)
{
	char path[512];
	long long value = 0;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%lld", &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

static unsigned
quota_v1(const char *directory)
{
	return granted(read_number(directory, "cpu.cfs_quota_us"),
	    read_number(directory, "cpu.cfs_period_us"));
}

static void
lower_to(unsigned *cpus, unsigned limit)
{
	if (limit > 0 && limit < *cpus)
		*cpus = limit;
}

/* Applies one line of /proc/self/cgroup: "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version
 * 1). */
static void
apply_group(unsigned *cpus, char *line)
{
	char directory[400];
	char *controllers = strchr(line, ':');
	char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

	if (path == NULL)
		return;
	*controllers++ = *path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (*controllers == '\0') {
		snprintf(directory, sizeof directory, "/sys/fs/cgroup%s", path);
		lower_to(cpus, quota_v2(directory));
	} else if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0) {
		snprintf(directory, sizeof directory, "/sys/fs/cgroup/cpu%s", path);
		lower_to(cpus, quota_v1(directory));
	}
}

unsigned
workers_automatic(void)
{
	cpu_set_t set;
	unsigned cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;

	lower_to(&cpus, WORKERS_AUTOMATIC_MAX);

	/* In a container, the group's own directory is usually mounted as the root. */
	lower_to(&cpus, quota_v2("/sys/fs/cgroup"));
	lower_to(&cpus, quota_v1("/sys/fs/cgroup/cpu"));
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512];
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		apply_group(&cpus, line);
	if (f != NULL)
		fclose(f);
	return cpus > 0 ? cpus : 1;
}
