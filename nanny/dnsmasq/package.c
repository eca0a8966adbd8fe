#include "nanny/dnsmasq/package.h"

#include <string.h>

#define RECORD "/var/lib/dpkg/status.d/dnsmasq"

void
dnsmasq_package_read(FILE *record, char version[PACKAGE_VERSION_MAX])
{
	static const char field[] = "Version: ";
	char line[256];
	version[0] = '\0';
	while (fgets(line, sizeof line, record)) {
		if (strncmp(line, field, sizeof field - 1) != 0)
			continue;
		const char *value = line + sizeof field - 1;
		size_t len = strcspn(value, " \n");
		if (len < PACKAGE_VERSION_MAX) {
			memcpy(version, value, len);
			version[len] = '\0';
		}
		return;
	}
}

void
dnsmasq_package_version(char version[PACKAGE_VERSION_MAX])
{
	FILE *record = fopen(RECORD, "re");
	version[0] = '\0';
	if (record == NULL)
		return;
	dnsmasq_package_read(record, version);
	fclose(record);
}
