/* Distance: the Levenshtein distance, with one row of the table. */
#include "core/base/distance.h"

#include <string.h>

#define LENGTH_MAX 32

unsigned int distance_between(const char *a, const char *b)
{
	unsigned int row[LENGTH_MAX], above_left, above;
	size_t a_length = strlen(a), b_length = strlen(b);

	if (a_length >= LENGTH_MAX || b_length >= LENGTH_MAX)
		return LENGTH_MAX;
	for (size_t j = 0; j <= b_length; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= a_length; i++) {
		above_left = row[0];
		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_length; j++) {
			above = row[j];
			row[j] = above_left + (a[i - 1] != b[j - 1]);
			if (row[j] > above + 1)
				row[j] = above + 1;
			if (row[j] > row[j - 1] + 1)
				row[j] = row[j - 1] + 1;
			above_left = above;
		}
	}
	return row[b_length];
}

bool distance_near(const char *typed, const char *name)
{
	size_t length = strlen(typed);

	return distance_between(typed, name) <= 2 ||
	       (length >= 2 && strncmp(typed, name, length) == 0);
}
