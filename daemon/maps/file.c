/* maps_file: the files behind mappings, each once, with a bounded number of them open. Only the
 * table opens or closes a file, and never while anything but a mapping has a reference: the
 * symbolizer reads in a thread of its own.
 */
#include "daemon/maps/file.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"

#define AGAIN_NS (1 * NS_PER_S)

struct maps_entry {
	struct maps_file file;	  /* first */
	struct maps_files *table; /* NULL: the table is gone */
	struct maps_identity identity;
	uint32_t mappings; /* references held by mappings */
	uint64_t tried_ns; /* to open it again */
	struct list bucket, open;
};

static struct maps_entry *entry_of(struct maps_file *file)
{
	return (struct maps_entry *)file;
}

static bool entry_is_lent(const struct maps_entry *entry)
{
	return entry->file.references > entry->mappings;
}

struct maps_files *maps_files_new(uint32_t open_max)
{
	struct maps_files *files = calloc(1, sizeof(*files));

	if (!files)
		return NULL;
	list_init(&files->open);
	for (unsigned int i = 0; i < MAPS_FILE_BUCKETS; i++)
		list_init(&files->bucket[i]);
	files->open_max = open_max;
	return files;
}

struct maps_files *maps_files_free(struct maps_files *files)
{
	struct maps_entry *entry;
	unsigned int i;

	if (!files)
		return NULL;
	maps_files_forget_recent(files);
	for (i = 0; i < MAPS_FILE_BUCKETS; i++) {
		list_for_each(entry, &files->bucket[i], bucket)
			entry->table = NULL;
	}
	free(files);
	return NULL;
}

static bool identity_equals(const struct maps_identity *a, const struct maps_identity *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void entry_close(struct maps_entry *entry)
{
	if (entry->file.fd < 0)
		return;
	close(entry->file.fd);
	entry->file.fd = -1;
	if (!entry->table)
		return;
	list_remove(&entry->open);
	entry->table->open_count--;
}

static bool files_make_room(struct maps_files *files)
{
	struct maps_entry *entry;

	if (files->open_count < files->open_max)
		return true;
	list_for_each(entry, &files->open, open)
		if (!entry->file.library && !entry_is_lent(entry)) {
			entry_close(entry);
			return true;
		}
	return false;
}

/* Takes the descriptor over. */
static void entry_open(struct maps_files *files, struct maps_entry *entry, int fd)
{
	if (!files_make_room(files)) {
		files->limited++;
		close(fd);
		return;
	}
	entry->file.fd = fd;
	list_append(&files->open, &entry->open);
	files->open_count++;
}

static struct maps_entry *files_find(struct maps_files *files, const struct maps_identity *identity)
{
	struct maps_entry *entry;

	list_for_each(entry, &files->bucket[identity->inode % MAPS_FILE_BUCKETS], bucket)
		if (identity_equals(&entry->identity, identity))
			return entry;
	return NULL;
}

static int files_add(struct maps_files *files, const struct maps_looked *looked,
		     struct maps_entry **ret)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(looked->path), tail = sizeof(deleted) - 1;
	_cleanup_(freep) struct maps_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	if (looked->deleted && length > tail && strcmp(looked->path + length - tail, deleted) == 0)
		length -= tail;
	entry->file = (struct maps_file){
		.device = looked->device,
		.inode = looked->inode,
		.fd = -1,
		.path = strndup(looked->path, length),
	};
	if (!entry->file.path)
		return -ENOMEM;
	entry->table = files;
	entry->identity = looked->identity;
	list_prepend(&files->bucket[entry->identity.inode % MAPS_FILE_BUCKETS], &entry->bucket);
	*ret = TAKE(entry);
	return 0;
}

static void files_remember(struct maps_files *files, struct maps_file *file)
{
	for (uint32_t i = 0; i < LIMIT_MAPS_RECENT; i++)
		if (files->recent[i] == file)
			return;
	maps_files_put(files->recent[files->recent_at]);
	files->recent[files->recent_at] = maps_files_share(file);
	files->recent_at = (files->recent_at + 1) % LIMIT_MAPS_RECENT;
}

void maps_files_forget_recent(struct maps_files *files)
{
	for (uint32_t i = 0; i < LIMIT_MAPS_RECENT; i++)
		files->recent[i] = maps_files_put(files->recent[i]);
}

struct maps_file *maps_files_take(struct maps_files *files, const struct maps_looked *looked,
				  int fd)
{
	_cleanup_(closep) int taken = fd;
	struct maps_entry *entry = files_find(files, &looked->identity);

	if (!entry && files_add(files, looked, &entry) < 0)
		return NULL;
	if (taken >= 0 && entry->file.fd < 0 && !entry_is_lent(entry))
		entry_open(files, entry, TAKE_FD(taken));
	files_remember(files, &entry->file);
	return maps_files_share(&entry->file);
}

struct maps_file *maps_files_known(struct maps_files *files, const struct maps_record *record)
{
	const struct maps_identity identity = { .device = record->device, .inode = record->inode };
	struct maps_entry *entry = major(record->device) ? files_find(files, &identity) : NULL;

	/* While it is open, nobody else can get its inode. */
	return entry && entry->file.fd >= 0 ? maps_files_share(&entry->file) : NULL;
}

struct maps_file *maps_files_share(struct maps_file *file)
{
	entry_of(file)->mappings++;
	return maps_file_ref(file);
}

struct maps_file *maps_files_put(struct maps_file *file)
{
	if (file)
		entry_of(file)->mappings--;
	return maps_file_unref(file);
}

bool maps_files_use(struct maps_files *files, struct maps_file *file, uint64_t now_ns)
{
	struct maps_entry *entry = entry_of(file);

	if (file->fd < 0) {
		if (entry_is_lent(entry) || now_ns - entry->tried_ns < AGAIN_NS)
			return true;
		entry->tried_ns = now_ns;
		return false;
	}
	list_remove(&entry->open);
	list_append(&files->open, &entry->open);
	return true;
}

struct maps_file *maps_file_ref(struct maps_file *file)
{
	if (file)
		file->references++;
	return file;
}

struct maps_file *maps_file_unref(struct maps_file *file)
{
	struct maps_entry *entry = entry_of(file);

	if (!file || --file->references > 0)
		return NULL;
	entry_close(entry);
	if (entry->table)
		list_remove(&entry->bucket);
	free(file->path);
	free(entry);
	return NULL;
}
