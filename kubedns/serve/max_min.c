#include "kubedns/serve/max_min.h"

double
max_min_level(const double *demands, size_t count, double others, double capacity)
{
	double room = capacity - others;
	if (room < 0)
		return -1;
	/* Each round meets the demands below the level, and shares the rest among the others. */
	double level = count > 0 ? room / (double)count : room;
	for (size_t round = 0; round < count; round++) {
		double taken = 0;
		size_t above = 0;
		for (size_t i = 0; i < count; i++) {
			if (demands[i] > level)
				above++;
			else
				taken += demands[i];
		}
		if (above == 0)
			break;
		level = (room - taken) / (double)above;
	}
	return level;
}
