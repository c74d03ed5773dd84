/* Image: a file is known by what the kernel prints of its mapping, and opened when it is needed. If
 * it is another one by then, what was known of it is forgotten. */
#include "daemon/native/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "core/base/demangle.h"
#include "core/base/vector.h"
#include "daemon/limits.h"
#include "daemon/maps/file.h"
#include "daemon/maps/proc.h"
#include "daemon/symbol/names.h"
#include "daemon/unwind/frames.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define NO_NAME		""

enum image_state { IMAGE_CLOSED, IMAGE_OPEN, IMAGE_UNREADABLE };

struct image {
	struct maps_record record; /* of its first mapping; its path is in the arena */
	enum image_state state;
	int fd;
	bool has_rules; /* `frames` is of this file */
	struct frames frames;
	off_t size; /* of the file that names and rules were read from */
	struct timespec modified;
};

struct reading {
	struct images *images;
	uint32_t mappings;
	int result;
};

static bool is_of(const struct image *image, const struct maps_record *record)
{
	return image->record.inode == record->inode && image->record.device == record->device &&
	       strcmp(image->record.path, record->path) == 0;
}

static int image_add(struct images *images, const struct maps_record *record, uint32_t *ret)
{
	struct image *image;
	int r;

	/* Mappings of a file follow each other. */
	for (size_t i = images->count; i-- > 0;) {
		if (!is_of(&images->image[i], record))
			continue;
		*ret = (uint32_t)i;
		return 0;
	}
	r = VECTOR_ROOM(images->image, images->room, images->count + 1);
	if (r < 0)
		return r;
	image = &images->image[images->count];
	*image = (struct image){ .record = *record, .fd = -1 };
	image->record.path = arena_text(&images->arena, record->path, strlen(record->path));
	if (!image->record.path)
		return -ENOMEM;
	*ret = (uint32_t)images->count++;
	return 0;
}

static int on_mapping(void *data, const struct maps_record *record)
{
	struct reading *reading = data;
	struct images *images = reading->images;
	struct span_of_image *span;
	uint32_t image;

	if (reading->mappings++ == LIMIT_MAPPINGS)
		return 1;
	if (!record->inode)
		return 0;
	reading->result = image_add(images, record, &image);
	if (reading->result == 0)
		reading->result =
			VECTOR_ROOM(images->span, images->span_room, images->span_count + 1);
	if (reading->result < 0)
		return 1;
	/* It can be opened only where it is mapped now. */
	if (images->image[image].state == IMAGE_CLOSED) {
		const char *path = images->image[image].record.path;

		images->image[image].record = *record;
		images->image[image].record.path = path;
	}
	span = &images->span[images->span_count++];
	*span = (struct span_of_image){ record->start, record->end, record->offset, image };
	return 0;
}

int images_read(struct images *images, uint32_t pid)
{
	struct reading reading = { .images = images };
	int r;

	if (images->arena.total > LIMIT_NATIVE_NAMES)
		images_clear(images);
	images->span_count = 0;
	r = maps_proc_mappings(pid, on_mapping, &reading);
	return r < 0 ? r : reading.result;
}

static const struct span_of_image *find_span(const struct images *images, uint64_t address)
{
	size_t low = 0, high = images->span_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (images->span[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == images->span_count || images->span[low].start > address)
		return NULL;
	return &images->span[low];
}

int images_find(const struct images *images, uint64_t address, struct image_place *ret)
{
	const struct span_of_image *span = find_span(images, address);

	if (!span)
		return -ENOENT;
	*ret = (struct image_place){ span->image, span->offset + (address - span->start) };
	return 0;
}

static struct map_key key_of(struct image_place place)
{
	return (struct map_key){ place.image, place.offset };
}

/* What it was before has other names; they are found again under their keys. */
static void forget(struct images *images, uint32_t image)
{
	images->image[image].has_rules = false;
	for (size_t i = 0; i < images->names.size; i++)
		if (images->names.slot[i].value && images->names.slot[i].key.a == image) {
			map_empty(&images->names);
			return;
		}
}

static int image_open(struct images *images, uint32_t number)
{
	struct image *image = &images->image[number];
	struct stat st;

	if (image->state != IMAGE_CLOSED)
		return image->state == IMAGE_OPEN ? 0 : -ENOENT;
	image->state = IMAGE_UNREADABLE;
	if (images->open == LIMIT_NATIVE_FILES)
		return -ENOENT;
	images->open++;
	image->fd = maps_record_open(&image->record);
	if (image->fd < 0 || fstat(image->fd, &st) < 0)
		return -ENOENT;
	if (image->size != st.st_size || image->modified.tv_sec != st.st_mtim.tv_sec ||
	    image->modified.tv_nsec != st.st_mtim.tv_nsec)
		forget(images, number);
	image->size = st.st_size;
	image->modified = st.st_mtim;
	if (!image->has_rules && frames_open(&image->frames, image->fd) < 0)
		return -ENOENT;
	image->has_rules = true;
	image->frames.fd = image->fd;
	image->state = IMAGE_OPEN;
	return 0;
}

int images_rule(struct images *images, uint64_t pc, bool returned, struct rule *ret)
{
	const struct frames *frames;
	struct image_place place;
	uint64_t address;

	if (images_find(images, pc - returned, &place) < 0 || image_open(images, place.image) < 0)
		return -ENOENT;
	frames = &images->image[place.image].frames;
	if (frames_address(frames, place.offset, &address) < 0)
		return -ENOENT;
	*ret = frames_rule(frames, address);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct image_place *x = a, *y = b;

	if (x->image != y->image)
		return x->image < y->image ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int keep_name(struct images *images, uint32_t image, const struct names_query *query)
{
	_cleanup_(freep) char *name = query->name ? demangle(query->name) : NULL;
	const char *kept = NO_NAME;

	if (name)
		kept = arena_text(&images->arena, name, strlen(name));
	if (!kept)
		return -ENOMEM;
	return map_put(&images->names, key_of((struct image_place){ image, query->offset }),
		       (void *)(uintptr_t)kept);
}

/* Places of one file, in order and without a name. */
static int name_image(struct images *images, const struct image_place *place, size_t count)
{
	_cleanup_(freep) struct names_query *query = calloc(count, sizeof(*query));
	uint32_t image = place->image;
	size_t queries = 0;
	int r = 0;

	if (!query)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (i == 0 || place[i].offset != place[i - 1].offset)
			query[queries++].offset = place[i].offset;
	if (image_open(images, image) == 0)
		names_find(images->image[image].fd, DEBUG_DIRECTORY, query, queries);
	for (size_t i = 0; i < queries; i++) {
		if (r == 0)
			r = keep_name(images, image, &query[i]);
		free(query[i].name);
	}
	return r;
}

static size_t drop_named(const struct images *images, struct image_place *place, size_t count)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++)
		if (!map_get(&images->names, key_of(place[i])))
			place[left++] = place[i];
	return left;
}

int images_name(struct images *images, struct image_place *place, size_t count)
{
	size_t next;
	int r = 0;

	count = drop_named(images, place, count);
	qsort(place, count, sizeof(*place), by_place);
	for (size_t i = 0; r == 0 && i < count; i = next) {
		for (next = i + 1; next < count && place[next].image == place[i].image; next++)
			;
		r = name_image(images, &place[i], next - i);
	}
	return r;
}

const char *images_function(const struct images *images, struct image_place place)
{
	const char *name = map_get(&images->names, key_of(place));

	return name && *name ? name : NULL;
}

const char *images_path(const struct images *images, uint32_t image)
{
	return images->image[image].record.path;
}

void images_close(struct images *images)
{
	for (size_t i = 0; i < images->count; i++) {
		closep(&images->image[i].fd);
		images->image[i].fd = -1;
		images->image[i].state = IMAGE_CLOSED;
	}
	images->open = 0;
}

void images_clear(struct images *images)
{
	images_close(images);
	free(images->image);
	free(images->span);
	map_clear(&images->names);
	arena_clear(&images->arena);
	*images = (struct images){ 0 };
}
