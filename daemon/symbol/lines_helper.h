/* lines_helper.h: reads the debug information of one file, as a task of a helper that ends with it:
 * the library that reads it was not made for files that somebody wrote to break it.
 */
#ifndef TS_LINES_HELPER_H
#define TS_LINES_HELPER_H

#include <stddef.h>
#include <stdint.h>

#define LINES_OFFSETS_MAX 128
#define LINES_PATH_MAX	  1024

/* What it is asked, with a descriptor of the file. */
struct lines_order {
	uint32_t pid, count;
	char path[LINES_PATH_MAX]; /* of the file, as the process sees it */
	uint64_t offset[LINES_OFFSETS_MAX];
};

/* Its answers, one for each offset of which something is known. */
#define LINES_TEXT_MAX (31 << 10)
struct lines_answer {
	uint32_t index; /* of the offset */
	uint32_t count; /* of the places, as places_read() wants them */
	char text[LINES_TEXT_MAX];
};

/* Of struct helper_kind; gives up all rights of its process. -ENOENT: there is no debug
 * information, -EFBIG: the file is too large. */
int lines_look(int socket, const void *request, size_t size, const int *fd, uint32_t fds);

#endif
