/* kubedns-migrate: translates another cluster DNS's configuration. See kubedns-migrate.8. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/version.h"
#include "migrate/migrate.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISTAKE = 2 };

static const char usage[] = "usage: kubedns-migrate [--topology=classic|front] FILE\n";

static const char help[] =
    "kubedns-migrate: translates the configuration of CoreDNS or kube-dns\n\nFILE is a Corefile, "
    "or Kubernetes objects as `kubectl get -o yaml` prints them; - is standard\ninput. It prints a "
    "verdict on each line, and the ConfigMap, the kustomization and the chart's\nvalues to use. It "
    "contacts no cluster and changes nothing.\n\n  --topology=classic|front\n             topology "
    "of the output; default: front for CoreDNS, classic for kube-dns\n  --help     print this text "
    "and exit\n  --version  print the version and exit\n";

/* Reads the name of a topology. Prints a message and returns false if there is no such topology. */
static bool
read_topology(const char *text, enum migrate_topology *topology)
{
	if (strcmp(text, "classic") == 0) {
		*topology = MIGRATE_CLASSIC;
		return true;
	}
	if (strcmp(text, "front") == 0) {
		*topology = MIGRATE_FRONT;
		return true;
	}
	fprintf(
	    stderr, "kubedns-migrate: --topology: \"%s\" is not classic or front\n%s", text, usage);
	return false;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' }, { "topology", required_argument, NULL, 't' },
		{ 0 } };
	enum migrate_topology topology = MIGRATE_AUTO;
	int option;

	log_init("kubedns-migrate", LOG_FORMAT_TEXT, 0);
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (option) {
		case 'h':
			printf("%s\n%s", usage, help);
			return EXIT_DONE;
		case 'V':
			printf("kubedns-migrate %s\n", suite_version);
			return EXIT_DONE;
		case 't':
			if (!read_topology(optarg, &topology))
				return EXIT_MISTAKE;
			break;
		default:
			fputs(usage, stderr);
			return EXIT_MISTAKE;
		}
	if (optind + 1 != argc) {
		fprintf(stderr, "kubedns-migrate: %s\n%s",
		    optind == argc ? "no FILE given" : "more than one FILE", usage);
		return EXIT_MISTAKE;
	}
	if (migrate(argv[optind], topology, stdout) < 0)
		return EXIT_MISTAKE;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		log_error("standard output");
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}
