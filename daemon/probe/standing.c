/* Standing: the copies of the driver library that the settings name, by patterns. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/probe/libraries.h"

static void found_closed(const char *path)
{
	log_warning("'%s' is closed to tracesmithd: a library there gets its probes when a process "
		    "maps it, and not before ('standing' in [probe])",
		    path);
}

static void found_add(struct libraries_found *found, const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct libraries_file *file = &found->file[found->count];
	struct stat st;

	if (fd < 0 && errno == EACCES)
		found_closed(path);
	if (found->count == LIMIT_LIBRARIES || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	file->path = strdup(path);
	if (!file->path)
		return;
	file->device = st.st_dev;
	file->inode = st.st_ino;
	file->fd = TAKE_FD(fd);
	found->count++;
}

void libraries_find_standing(const char *patterns, struct libraries_found *ret)
{
	_cleanup_(freep) char *text = strdup(patterns);
	char *state = NULL;

	ret->count = 0;
	for (char *word = text ? strtok_r(text, " ,\t", &state) : NULL; word;
	     word = strtok_r(NULL, " ,\t", &state)) {
		glob_t found;

		if (glob(word, 0, NULL, &found)) {
			if (access(word, F_OK) < 0 && errno == EACCES)
				found_closed(word);
			continue;
		}
		for (size_t i = 0; i < found.gl_pathc; i++)
			found_add(ret, found.gl_pathv[i]);
		globfree(&found);
	}
}

void libraries_found_clear(struct libraries_found *found)
{
	while (found->count) {
		struct libraries_file *file = &found->file[--found->count];

		closep(&file->fd);
		free((char *)file->path);
	}
}
