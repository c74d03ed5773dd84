/* maps_library: the libraries that any process maps, each known to the user from its first mapper
 * until the grace time after its last. Each has one of few slots, and counts as its first mapper's:
 * anybody can make copies of a library, and nobody gets all slots.
 */
#include <errno.h>
#include <string.h>

#include "daemon/library/library.h"
#include "daemon/maps/state.h"
#include "daemon/proc/owner.h"

bool maps_library_matches(const struct maps *maps, const char *path)
{
	return library_matches(path, maps->patterns);
}

static struct maps_library *library_find(struct maps *maps, const struct maps_file *file)
{
	uint32_t i;

	for (i = 0; i < maps->library_count; i++)
		if (maps->library[i].file == file)
			return &maps->library[i];
	return NULL;
}

static int library_refuse(struct maps *maps, struct maps_file *file, uint32_t pid, uint32_t user)
{
	maps->refused++;
	if (maps->callbacks.library_refused)
		maps->callbacks.library_refused(maps->data, file, pid, user);
	return -ENOSPC;
}

int maps_library_add_mapper(struct maps *maps, struct maps_file *file, uint32_t pid)
{
	struct maps_library *library = library_find(maps, file);
	uint32_t user;

	if (library) {
		library->idle_ns = 0;
		file->mappers++;
		if (maps->callbacks.library_shared)
			maps->callbacks.library_shared(maps->data, file, pid);
		return 0;
	}
	user = file->user = owner_of_process(pid);
	if (!quota_take(&maps->slots, user, 1))
		return library_refuse(maps, file, pid, user);
	maps->library[maps->library_count++] =
		(struct maps_library){ .file = maps_files_share(file), .user = user };
	file->library = true;
	file->mappers = 1;
	maps->callbacks.library_found(maps->data, file, pid);
	return 0;
}

void maps_library_drop_mapper(struct maps *maps, struct maps_file *file)
{
	if (--file->mappers > 0)
		return;
	library_find(maps, file)->idle_ns = uv_hrtime();
	maps_grace_begin(maps);
}

uint64_t maps_library_expire(struct maps *maps, uint64_t now_ns)
{
	uint64_t next_ns = 0;
	uint32_t i = 0;

	while (i < maps->library_count) {
		struct maps_library *library = &maps->library[i];
		struct maps_file *file = library->file;
		uint64_t due_ns = library->idle_ns + maps->grace_ns;

		if (library->idle_ns && due_ns <= now_ns) {
			maps->callbacks.library_gone(maps->data, file);
			file->library = false;
			quota_give(&maps->slots, library->user, 1);
			*library = maps->library[--maps->library_count];
			maps_files_put(file);
			continue;
		}
		if (library->idle_ns && (!next_ns || due_ns < next_ns))
			next_ns = due_ns;
		i++;
	}
	return next_ns;
}
