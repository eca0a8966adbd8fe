#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nanny/dnsmasq/udp_drops.h"

uint64_t
udp_receive_drops(uint16_t port)
{
	static const char *const files[] = { "/proc/net/udp", "/proc/net/udp6" };
	uint64_t total = 0;
	for (size_t i = 0; i < 2; i++) {
		FILE *file = fopen(files[i], "re");
		char line[512];
		while (file && fgets(line, sizeof line, file)) {
			unsigned local;
			char *end = line + strcspn(line, "\n"); /* padded with blanks */
			while (end > line && end[-1] == ' ')
				*--end = '\0';
			const char *last = strrchr(line, ' ');
			uint64_t drops;
			if (last && sscanf(line, " %*u: %*[0-9A-F]:%4X", &local) == 1 &&
			    local == port && sscanf(last, "%" SCNu64, &drops) == 1)
				total += drops;
		}
		if (file)
			fclose(file);
	}
	return total;
}
