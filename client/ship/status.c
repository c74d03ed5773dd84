/* Status: written under another name first, so that nobody reads a half of it. */
#include "client/ship/status.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t status_lag_s(const struct status *status, uint64_t now_s)
{
	return status->until_time && now_s > status->until_time ? now_s - status->until_time : 0;
}

int status_write(const char *path, const struct status *status)
{
	char name[PATH_MAX];
	FILE *out;
	int r = 0;

	if (snprintf(name, sizeof(name), "%s.new", path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	out = fopen(name, "we");
	if (!out)
		return -errno;
	fchmod(fileno(out), 0644);
#define X(identifier, text) fprintf(out, #identifier " %s\n", status->identifier);
	STATUS_TEXTS(X)
#undef X
#define X(identifier, text) fprintf(out, #identifier " %" PRIu64 "\n", status->identifier);
	STATUS_NUMBERS(X)
#undef X
	if (fclose(out) != 0 || rename(name, path) < 0)
		r = -errno;
	return r;
}

static int take_line(struct status *status, char *line)
{
	char *value = strchr(line, ' ');

	if (!value)
		return -EBADMSG;
	*value++ = '\0';
	value[strcspn(value, "\n")] = '\0';
#define X(identifier, text)                                                                        \
	if (strcmp(line, #identifier) == 0)                                                        \
		snprintf(status->identifier, sizeof(status->identifier), "%s", value);
	STATUS_TEXTS(X)
#undef X
#define X(identifier, text)                                                                        \
	if (strcmp(line, #identifier) == 0)                                                        \
		return sscanf(value, "%" SCNu64, &status->identifier) == 1 ? 0 : -EBADMSG;
	STATUS_NUMBERS(X)
#undef X
	return 0; /* of a later version */
}

int status_read(const char *path, struct status *ret)
{
	struct status status = { 0 };
	char line[2 * STATUS_TEXT_BYTES];
	FILE *in = fopen(path, "re");
	int r = 0;

	if (!in)
		return -errno;
	while (r == 0 && fgets(line, sizeof(line), in))
		r = take_line(&status, line);
	fclose(in);
	if (r == 0)
		*ret = status;
	return r;
}
