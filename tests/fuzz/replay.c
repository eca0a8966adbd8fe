/*
 * Runs a fuzz target without a fuzzer. The first input is empty. The next inputs are each given
 * file, and each file in a given directory. Each prefix of a file up to PREFIX_MAX bytes is an
 * input too, because truncated input is the most frequent cause of parser bugs.
 */
#include <dirent.h>
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEED_MAX = 1 << 22, PREFIX_MAX = 300 };

static unsigned long files, inputs;

/* Runs the target on an exact copy on the heap, so that a sanitizer detects an overread of even one
 * byte. */
static void
run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	if (copy == NULL)
		err(1, "malloc");
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	inputs++;
}

static void
run_file(const char *path)
{
	uint8_t *data = malloc(SEED_MAX);
	FILE *f = fopen(path, "rb");

	if (f == NULL || data == NULL)
		err(1, "%s", path);
	size_t size = fread(data, 1, SEED_MAX, f);
	if (ferror(f))
		err(1, "%s", path);
	fclose(f);
	for (size_t cut = 0; cut < size && cut < PREFIX_MAX; cut++)
		run(data, cut);
	run(data, size);
	free(data);
	files++;
}

static void
run_path(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		err(1, "%s", path);
	if (!S_ISDIR(st.st_mode)) {
		run_file(path);
		return;
	}
	struct dirent **entries = NULL;
	int count = scandir(path, &entries, NULL, alphasort);
	if (count < 0)
		err(1, "%s", path);
	for (int i = 0; i < count; i++) {
		char file[4096];

		snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			run_file(file);
		free(entries[i]);
	}
	free(entries);
}

int
main(int argc, char **argv)
{
	run((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++)
		run_path(argv[i]);
	printf("%lu seeds, %lu inputs\n", files, inputs);
	if (files == 0)
		errx(1, "no seeds: a target without them tests nothing");
	return 0;
}
