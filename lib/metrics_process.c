/* The families process_* and build_info, which every exporter has. The values of process_* are read
 * from the kernel at each scrape. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/metrics.h"
#include "lib/version.h"

static double
cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Virtual and resident memory, in bytes. */
static void
memory_bytes(double *virtual, double *resident)
{
	unsigned long pages = 0, in_core = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	*virtual = *resident = 0;
	if (f == NULL)
		return;
	if (fscanf(f, "%lu %lu", &pages, &in_core) == 2) {
		*virtual = (double)pages * (double)sysconf(_SC_PAGESIZE);
		*resident = (double)in_core * (double)sysconf(_SC_PAGESIZE);
	}
	fclose(f);
}

/* Returns the first number in a file. Returns 0 if there is no number ("max") or if the number
 * stands for no limit. */
static double
file_number(const char *path)
{
	FILE *f = fopen(path, "re");
	double number = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%lf", &number) != 1 || number >= 1e18)
		number = 0;
	fclose(f);
	return number;
}

/* Returns the page cache of a cgroup, from its memory.stat. `prefix` is "" or v1's "total_". */
static double
page_cache(const char *path, const char *prefix)
{
	char line[128], active[32], inactive[32], name[64];
	double sum = 0, number;
	FILE *f = fopen(path, "re");

	if (f == NULL)
		return 0;
	snprintf(active, sizeof active, "%sactive_file", prefix);
	snprintf(inactive, sizeof inactive, "%sinactive_file", prefix);
	while (fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "%63s %lf", name, &number) == 2 &&
		    (strcmp(name, active) == 0 || strcmp(name, inactive) == 0))
			sum += number;
	fclose(f);
	return sum;
}

void
process_container_memory(double *used, double *limit)
{
	static const struct {
		const char *used, *limit, *stat, *prefix;
	} cgroups[] = {
		{ "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max",
		    "/sys/fs/cgroup/memory.stat", "" },
		{ "/sys/fs/cgroup/memory/memory.usage_in_bytes",
		    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		    "/sys/fs/cgroup/memory/memory.stat", "total_" },
	};

	*used = *limit = 0;
	for (size_t i = 0; i < sizeof cgroups / sizeof cgroups[0] && *limit == 0; i++) {
		*limit = file_number(cgroups[i].limit);
		if (*limit > 0)
			*used = file_number(cgroups[i].used) -
				page_cache(cgroups[i].stat, cgroups[i].prefix);
	}
	if (*used < 0)
		*used = 0;
}

static double
open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	double count = -3; /* ".", ".." and the directory itself */

	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* Returns the Unix time at which this process started. Field 22 of proc(5)'s stat counts clock
 * ticks since boot. */
static double
start_time(void)
{
	static double start;
	unsigned long long ticks = 0;
	struct timespec now, up;
	FILE *f = start > 0 ? NULL : fopen("/proc/self/stat", "re");

	if (f == NULL)
		return start;
	/* The name in parentheses is the program's name, which contains no blank. */
	if (fscanf(f,
		"%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		"%*d %llu",
		&ticks) == 1) {
		clock_gettime(CLOCK_REALTIME, &now);
		clock_gettime(CLOCK_BOOTTIME, &up);
		start = (double)(now.tv_sec - up.tv_sec) +
			(double)(now.tv_nsec - up.tv_nsec) / 1e9 +
			(double)ticks / (double)sysconf(_SC_CLK_TCK);
	}
	fclose(f);
	return start;
}

static void
single_value(
    struct metrics *m, const char *name, enum metric_type type, const char *help, double value)
{
	metrics_family(m, name, type, help);
	metrics_value(m, value, NULL);
}

void
metrics_process(struct metrics *m, const char *build_info_name)
{
	struct rlimit files = { 0 };
	double virtual = 0, resident = 0, used, limit;

	memory_bytes(&virtual, &resident);
	getrlimit(RLIMIT_NOFILE, &files);
	single_value(m, "process_cpu_seconds_total", METRIC_COUNTER,
	    "User and system CPU time spent, in seconds.", cpu_seconds());
	single_value(
	    m, "process_resident_memory_bytes", METRIC_GAUGE, "Resident memory.", resident);
	single_value(m, "process_virtual_memory_bytes", METRIC_GAUGE, "Virtual memory.", virtual);
	process_container_memory(&used, &limit);
	if (limit > 0) {
		single_value(m, "process_container_memory_bytes", METRIC_GAUGE,
		    "Memory of the container, including kernel memory for its sockets.", used);
		single_value(m, "process_container_memory_limit_bytes", METRIC_GAUGE,
		    "Memory limit of the container, at which the kernel kills a process.", limit);
	}
	single_value(m, "process_open_fds", METRIC_GAUGE, "Open file descriptors.", open_files());
	single_value(m, "process_max_fds", METRIC_GAUGE, "Maximum number of open file descriptors.",
	    (double)files.rlim_cur);
	single_value(m, "process_start_time_seconds", METRIC_GAUGE,
	    "Unix time at which the process started.", start_time());
	metrics_family(m, build_info_name, METRIC_GAUGE, "Always 1; the label is the version.");
	metrics_value(m, 1, "version", suite_version, NULL);
}
