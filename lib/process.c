/* process_* and build_info: what every exporter says about itself, read from the kernel at each
 * scrape. */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/metrics.h"

static double
cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Pages of virtual and resident memory, in bytes. */
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

/* Unix time of this process's start: field 22 of proc(5)'s stat counts clock ticks since the
 * boot. */
static double
start_time(void)
{
	static double start;
	unsigned long long ticks = 0;
	struct timespec now, up;
	FILE *f = start > 0 ? NULL : fopen("/proc/self/stat", "re");

	if (f == NULL)
		return start;
	/* The name in parentheses is ours and has no blank in it. */
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
one(struct metrics *m, const char *name, enum metric_type type, const char *help, double value)
{
	metrics_family(m, name, type, help);
	metrics_value(m, value, NULL);
}

void
metrics_process(struct metrics *m, const char *build_info_name)
{
	struct rlimit files = { 0 };
	double virtual = 0, resident = 0;

	memory_bytes(&virtual, &resident);
	getrlimit(RLIMIT_NOFILE, &files);
	one(m, "process_cpu_seconds_total", METRIC_COUNTER,
	    "User and system CPU time spent, in seconds.", cpu_seconds());
	one(m, "process_resident_memory_bytes", METRIC_GAUGE, "Resident memory.", resident);
	one(m, "process_virtual_memory_bytes", METRIC_GAUGE, "Virtual memory.", virtual);
	one(m, "process_open_fds", METRIC_GAUGE, "Open file descriptors.", open_files());
	one(m, "process_max_fds", METRIC_GAUGE, "File descriptors that may be open.",
	    (double)files.rlim_cur);
	one(m, "process_start_time_seconds", METRIC_GAUGE, "When the process started, Unix time.",
	    start_time());
	metrics_family(m, build_info_name, METRIC_GAUGE, "Always 1; the label tells the version.");
	metrics_value(m, 1, "version", VERSION, NULL);
}
