/* maps_image: what one program maps in one process. Mappings never overlap and are in order. */
#include "daemon/maps/image.h"

#include <errno.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/vector.h"

struct maps_image *maps_image_new(struct maps_bounds *bounds, uint64_t began_ns)
{
	struct maps_image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->bounds = bounds;
	image->began_ns = began_ns;
	return image;
}

void maps_image_clear(struct maps_image *image)
{
	uint32_t i;

	for (i = 0; i < image->count; i++)
		maps_files_put(image->mapping[i].file);
	image->bounds->total -= image->count;
	image->count = 0;
}

struct maps_image *maps_image_free(struct maps_image *image)
{
	if (!image)
		return NULL;
	maps_image_clear(image);
	free(image->mapping);
	free(image);
	return NULL;
}

/* Index of the first mapping that ends behind the address. */
static uint32_t image_search(const struct maps_image *image, uint64_t address)
{
	uint32_t low = 0, high = image->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (image->mapping[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int image_grow(struct maps_image *image)
{
	struct maps_bounds *bounds = image->bounds;

	if (image->count >= bounds->image_max || bounds->total >= bounds->total_max) {
		bounds->limited++;
		return -ENOSPC;
	}
	return VECTOR_ROOM(image->mapping, image->room, image->count + 1);
}

static int image_insert(struct maps_image *image, uint32_t at, struct maps_mapping mapping)
{
	int r = image_grow(image);

	if (r < 0) {
		maps_files_put(mapping.file);
		return r;
	}
	memmove(&image->mapping[at + 1], &image->mapping[at],
		(image->count - at) * sizeof(mapping));
	image->mapping[at] = mapping;
	image->count++;
	image->bounds->total++;
	return 0;
}

static void image_remove(struct maps_image *image, uint32_t from, uint32_t to)
{
	uint32_t i;

	if (from == to)
		return;
	for (i = from; i < to; i++)
		maps_files_put(image->mapping[i].file);
	memmove(&image->mapping[from], &image->mapping[to],
		(image->count - to) * sizeof(*image->mapping));
	image->count -= to - from;
	image->bounds->total -= to - from;
}

/* Makes a hole. Returns the index of the first mapping behind it. */
static uint32_t image_cut(struct maps_image *image, uint64_t start, uint64_t end)
{
	uint32_t first = image_search(image, start), last;
	struct maps_mapping *m, tail;

	if (first == image->count)
		return first;
	m = &image->mapping[first];
	if (m->start < start) {
		if (m->end > end) {
			tail = (struct maps_mapping){ end, m->end, m->offset + end - m->start,
						      maps_files_share(m->file) };
			m->end = start;
			image_insert(image, first + 1, tail);
			return first + 1;
		}
		m->end = start;
		first++;
	}
	for (last = first; last < image->count && image->mapping[last].end <= end;)
		last++;
	if (last < image->count && image->mapping[last].start < end) {
		m = &image->mapping[last];
		m->offset += end - m->start;
		m->start = end;
	}
	image_remove(image, first, last);
	return first;
}

int maps_image_map(struct maps_image *image, uint64_t start, uint64_t end, uint64_t offset,
		   struct maps_file *file)
{
	uint32_t at;

	if (start >= end) {
		maps_files_put(file);
		return -EINVAL;
	}
	at = image_cut(image, start, end);
	if (!file)
		return 0;
	return image_insert(image, at, (struct maps_mapping){ start, end, offset, file });
}

int maps_image_copy(struct maps_image *image, const struct maps_image *from)
{
	const struct maps_mapping *m;
	uint32_t i;
	int r;

	for (i = 0; i < from->count; i++) {
		m = &from->mapping[i];
		r = maps_image_map(image, m->start, m->end, m->offset, maps_files_share(m->file));
		if (r < 0)
			return r;
	}
	return 0;
}

bool maps_image_clashes(const struct maps_image *image, uint64_t start, uint64_t end,
			uint64_t offset, ino_t inode)
{
	for (uint32_t at = image_search(image, start); at < image->count; at++) {
		const struct maps_mapping *m = &image->mapping[at];

		if (m->start >= end)
			break;
		if (m->file->inode != inode || m->start - m->offset != start - offset)
			return true;
	}
	return false;
}

const struct maps_mapping *maps_image_find(const struct maps_image *image, uint64_t address)
{
	uint32_t at = image_search(image, address);

	if (at == image->count || image->mapping[at].start > address)
		return NULL;
	return &image->mapping[at];
}
