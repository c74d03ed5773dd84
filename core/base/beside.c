/* Beside: finds files that were installed with the program. */
#include "core/base/beside.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *beside_find(const char *name)
{
	static const char *const places[] = { "", "../lib/tracesmith/", NULL };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *path;

	self[n > 0 ? n : 0] = '\0';
	if (strrchr(self, '/'))
		strrchr(self, '/')[1] = '\0';
	for (size_t i = 0; places[i]; i++) {
		if (asprintf(&path, "%s%s%s", self, places[i], name) < 0)
			return NULL;
		if (access(path, R_OK) == 0)
			return path;
		free(path);
	}
	return asprintf(&path, "%s/%s", TS_LIBDIR, name) < 0 ? NULL : path;
}
