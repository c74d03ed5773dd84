/* image.h: the files that a process has mapped executable: their rules, and names of functions. */
#ifndef TS_NATIVE_IMAGE_H
#define TS_NATIVE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/map.h"
#include "proto/rule.h"

struct image;

/* All zero is empty. Files and names that were found stay known from one reading to the next. */
struct images {
	struct image *image;
	size_t count, room;
	struct span_of_image {
		uint64_t start, end, offset;
		uint32_t image;
	} * span; /* in order of address */
	size_t span_count, span_room;
	struct map names; /* const char *, by image and offset */
	struct arena arena;
	uint32_t open; /* LIMIT_NATIVE_FILES */
};

/* Where an address lies. */
struct image_place {
	uint32_t image;
	uint64_t offset; /* in the file */
};

/* Reads what is mapped now. -ESRCH, -EACCES, -ENOMEM */
int images_read(struct images *images, uint32_t pid);
/* -ENOENT: in no file */
int images_find(const struct images *images, uint64_t address, struct image_place *ret);
/* As walk_source.rule. -ENOENT: the address is in no file that can be read. */
int images_rule(struct images *images, uint64_t pc, bool returned, struct rule *ret);
/* Finds the names of all places that have none yet, file by file. */
int images_name(struct images *images, struct image_place *place, size_t count);
/* Demangled; NULL: none was found. Valid as long as the images. */
const char *images_function(const struct images *images, struct image_place place);
const char *images_path(const struct images *images, uint32_t image);
/* Closes the files. */
void images_close(struct images *images);
void images_clear(struct images *images);

#endif
