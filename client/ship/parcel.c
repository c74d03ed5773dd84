/* Parcel: a head, then blocks of a head, the names of the columns, and rows as they are sent. */
#include "client/ship/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ship/block.h"
#include "client/ship/parcel_format.h"
#include "core/base/time.h"

#define NAME	    "parcel"
#define UNNAMED	    "window" /* until it is open */
#define OPS_PART_NS (5 * NS_PER_S)

struct parcel *parcel_free(struct parcel *parcel)
{
	if (parcel)
		closep(&parcel->fd);
	free(parcel);
	return NULL;
}

static int read_at(int fd, void *bytes, size_t size, uint64_t at)
{
	ssize_t n = pread(fd, bytes, size, (off_t)at);

	return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EBADMSG;
}

static int read_head(struct parcel *parcel)
{
	struct parcel_head head;
	int r = read_at(parcel->fd, &head, sizeof(head), 0);

	if (r < 0)
		return r;
	if (memcmp(head.magic, PARCEL_MAGIC, sizeof(head.magic)) != 0 ||
	    head.boot_id[sizeof(head.boot_id) - 1] || head.minute % 60 || head.next % 60 ||
	    head.compression > COMPRESSION_ZSTD)
		return -EBADMSG;
	memcpy(parcel->boot_id, head.boot_id, sizeof(parcel->boot_id));
	parcel->minute = head.minute;
	parcel->wall_offset_ns = head.wall_offset_ns;
	parcel->next = head.next;
	parcel->newest = head.newest;
	parcel->told_ns = head.told_ns;
	parcel->lost_s = head.lost_s;
	parcel->rows = head.rows;
	parcel->bytes = head.bytes;
	parcel->blocks = head.blocks;
	parcel->compression = (enum compression)head.compression;
	parcel_rewind(parcel);
	return 0;
}

int parcel_open(int folder, struct parcel **ret)
{
	_cleanup_(parcel_freep) struct parcel *parcel = calloc(1, sizeof(*parcel));
	int r;

	if (!parcel)
		return -ENOMEM;
	parcel->fd = openat(folder, NAME, O_RDONLY | O_CLOEXEC);
	if (parcel->fd < 0)
		return errno == ENOENT ? 1 : -errno;
	r = read_head(parcel);
	if (r < 0)
		return r;
	*ret = TAKE(parcel);
	return 0;
}

void parcel_rewind(struct parcel *parcel)
{
	parcel->number = 0;
	parcel->at = sizeof(struct parcel_head);
}

int parcel_next(struct parcel *parcel, struct parcel_block *ret)
{
	struct parcel_block block = { 0 };
	struct parcel_block_head head;
	struct stat st;
	int r;

	if (parcel->number == parcel->blocks)
		return 0;
	r = read_at(parcel->fd, &head, sizeof(head), parcel->at);
	if (r < 0)
		return r;
	if (head.table[sizeof(head.table) - 1] || !head.table[0] ||
	    head.columns_size >= sizeof(block.columns))
		return -EBADMSG;
	memcpy(block.table, head.table, sizeof(block.table));
	block.number = head.number;
	block.rows = head.rows;
	block.bytes = head.bytes;
	block.offset = parcel->at + sizeof(head) + head.columns_size;
	r = read_at(parcel->fd, block.columns, head.columns_size, parcel->at + sizeof(head));
	if (r < 0)
		return r;
	if (fstat(parcel->fd, &st) < 0 || block.bytes > (uint64_t)st.st_size ||
	    block.offset > (uint64_t)st.st_size - block.bytes)
		return -EBADMSG;
	parcel->at = block.offset + block.bytes;
	parcel->number++;
	*ret = block;
	return 1;
}

void parcel_move(const struct parcel *parcel, struct cursor *cursor)
{
	cursor_enter(cursor, parcel->boot_id, parcel->wall_offset_ns, parcel->next);
	cursor->known = parcel->newest;
	cursor->told_ns = parcel->told_ns;
	cursor->minutes += parcel->next > parcel->minute;
	cursor->rows += parcel->rows;
	cursor->bytes += parcel->bytes;
	cursor->lost_s += parcel->lost_s;
}

void parcel_remove(int folder)
{
	unlinkat(folder, NAME, 0);
}

static int ask_for(struct maker *maker, struct source *source, uint32_t minute)
{
	struct source_about about = maker->plan->about;
	int r;

	about.minute = maker->table->flags & TABLE_ONCE ? 0 : minute;
	about.after = maker->table->flags & TABLE_ONCE ? about.after : 0;
	r = source_ask(source, maker->table->query, &about, maker_row, maker);
	maker->cut += r > 0;
	return r > 0 ? 0 : r;
}

/* An answer of the daemon has a limited number of rows, so each is about a part of the window. */
static int ask_for_ops(struct maker *maker, struct source *source)
{
	const struct parcel_plan *plan = maker->plan;
	struct source_about about = { .boot = plan->about.boot };
	int r = 0;

	for (uint64_t at_ns = plan->since_ns; r >= 0 && at_ns < plan->until_ns;
	     at_ns += OPS_PART_NS) {
		about.since_ns = at_ns;
		about.until_ns =
			at_ns + OPS_PART_NS < plan->until_ns ? at_ns + OPS_PART_NS : plan->until_ns;
		r = source_ask(source, maker->table->query, &about, maker_row, maker);
		maker->cut += r > 0;
	}
	return r < 0 ? r : 0;
}

static int make_own(struct maker *maker)
{
	if (strcmp(maker->table->name, "clock") == 0)
		return maker_clock(maker);
	return maker->plan->host_known ? 0 : maker_host(maker);
}

static int make_table(struct maker *maker, struct source *source)
{
	const struct parcel_plan *plan = maker->plan;
	uint32_t flags = maker->table->flags;
	int r;

	if (!maker->table->query)
		return make_own(maker);
	if (flags & TABLE_OPS)
		return ask_for_ops(maker, source);
	r = ask_for(maker, source, plan->about.minute);
	if (flags & TABLE_SUMS || plan->until_ns)
		for (uint32_t i = 0; r == 0 && i < plan->again_count; i++)
			r = ask_for(maker, source, plan->again[i]);
	if (r == 0 && strcmp(maker->table->name, "loss") == 0)
		r = maker_lost(maker);
	return r;
}

/* Operations come before the losses, which say whether some were left out. */
static int make_tables(struct maker *maker, struct source *source)
{
	uint32_t without = maker->plan->until_ns ? 0 : TABLE_OPS;
	uint32_t with = maker->plan->until_ns ? TABLE_OPS | TABLE_WITH_OPS : ~0u;
	int r = 0;

	for (size_t i = 0; r == 0 && i < tables_count; i++) {
		uint32_t flags = tables[i].flags;

		if (flags & without || (with != ~0u && !(flags & with)) ||
		    maker->plan->settings->left_out & tables_bit(&tables[i]))
			continue;
		maker_begin(maker, &tables[i]);
		r = make_table(maker, source);
		if (r == 0)
			r = maker_end(maker);
	}
	return r;
}

static int write_head(struct maker *maker)
{
	const struct parcel_plan *plan = maker->plan;
	uint64_t minute_s = PARCEL_SECONDS * (uint64_t)plan->about.minute;
	struct parcel_head head = {
		.magic = PARCEL_MAGIC,
		.minute = minute_s,
		.next = plan->open ? minute_s : minute_s + PARCEL_SECONDS,
		.wall_offset_ns = plan->wall_offset_ns,
		.newest = (uint64_t)maker->newest,
		.told_ns = plan->told_ns,
		.lost_s = plan->lost_s,
		.rows = maker->rows,
		.bytes = maker->bytes,
		.blocks = maker->blocks,
		.compression = plan->settings->compression,
	};

	memcpy(head.boot_id, plan->boot_id, sizeof(head.boot_id));
	if (fseek(maker->out, 0, SEEK_SET) < 0 || fwrite(&head, sizeof(head), 1, maker->out) != 1 ||
	    fflush(maker->out) != 0)
		return -errno;
	return 0;
}

static int write_all(struct maker *maker, struct source *source)
{
	const struct parcel_plan *plan = maker->plan;
	int r = fseek(maker->out, sizeof(struct parcel_head), SEEK_SET) < 0 ? -errno : 0;

	if (r == 0)
		r = jobs_ask(source, plan->settings->jobs, plan->about.boot, &maker->jobs);
	if (r == 0)
		r = make_tables(maker, source);
	return r < 0 ? r : write_head(maker);
}

static FILE *open_unnamed(int folder)
{
	int fd = openat(folder, UNNAMED, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w+");

	if (!out)
		closep(&fd);
	unlinkat(folder, UNNAMED, 0);
	return out;
}

int parcel_make_unnamed(int folder, struct source *source, const struct parcel_plan *plan,
			struct parcel **ret)
{
	_cleanup_(parcel_freep) struct parcel *parcel = calloc(1, sizeof(*parcel));
	struct maker maker = { .plan = plan, .out = folder < 0 ? tmpfile() : open_unnamed(folder) };
	int r;

	if (!parcel)
		return -ENOMEM;
	parcel->fd = -1;
	if (!maker.out)
		return -errno;
	r = write_all(&maker, source);
	if (r == 0) {
		parcel->fd = fcntl(fileno(maker.out), F_DUPFD_CLOEXEC, 3);
		r = parcel->fd < 0 ? -errno : read_head(parcel);
	}
	fclose(maker.out);
	maker_done(&maker);
	if (r == 0)
		*ret = TAKE(parcel);
	return r;
}

int parcel_make(int folder, struct source *source, const struct parcel_plan *plan)
{
	struct maker maker = { .plan = plan, .newest = plan->about.after };
	int fd, r;

	fd = openat(folder, NAME ".new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	maker.out = fd < 0 ? NULL : fdopen(fd, "w+");
	if (!maker.out) {
		r = -errno;
		closep(&fd);
		return r;
	}
	r = write_all(&maker, source);
	if (r == 0)
		r = cursor_replace(folder, fd, NAME ".new", NAME);
	fclose(maker.out);
	maker_done(&maker);
	if (r < 0)
		unlinkat(folder, NAME ".new", 0);
	return r;
}
