/* image.h: what one program maps in one process, from its start (exec, fork) to its end. */
#ifndef TS_MAPS_IMAGE_H
#define TS_MAPS_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "daemon/limits.h"
#include "daemon/maps/file.h"

struct maps_process;
struct maps_ask;

struct maps_mapping {
	uint64_t start, end, offset;
	struct maps_file *file; /* a reference */
};

struct maps_bounds {
	uint32_t image_max, total_max; /* mappings */
	uint32_t total;
	uint64_t limited; /* mappings left out */
};

/* Mappings are in order of address and do not overlap: the newest wins. Those without a file are
 * not kept. */
struct maps_image {
	struct maps_process *process;
	struct maps_image *older; /* of the same process */
	struct maps_bounds *bounds;
	uint64_t began_ns, ended_ns; /* ended 0: runs */
	struct maps_ask *ask;	     /* NULL: settled, see ask.h */
	uint64_t mapped_ns; /* when it mapped a library, of those that are not known yet; 0: none */
	bool told;	    /* one of those, to the user */
	bool executed;	    /* it ended as its process ran another program */
	bool whole;	    /* all that it maps was told once */
	bool incomplete;    /* an answer did not come */
	uint64_t again_ns;  /* when to look again then, 0: not */
	uint32_t lates;	    /* how often that was */
	bool unwanted;	    /* once it is settled */
	struct maps_mapping *mapping;
	uint32_t count, room;
	uint32_t library_count;
	struct maps_file *library[LIMIT_LIBRARIES_PER_PROCESS]; /* of a running one */
	struct list ended;					/* of maps->ended */
};

struct maps_image *maps_image_new(struct maps_bounds *bounds, uint64_t began_ns);
struct maps_image *maps_image_free(struct maps_image *image);

/* Takes the file's reference over, also when it fails. NULL: memory without a file. */
int maps_image_map(struct maps_image *image, uint64_t start, uint64_t end, uint64_t offset,
		   struct maps_file *file);
int maps_image_copy(struct maps_image *image, const struct maps_image *from);
/* Something else is mapped in this range. */
bool maps_image_clashes(const struct maps_image *image, uint64_t start, uint64_t end,
			uint64_t offset, ino_t inode);
const struct maps_mapping *maps_image_find(const struct maps_image *image, uint64_t address);
void maps_image_clear(struct maps_image *image);

#endif
