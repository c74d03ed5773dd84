/* Pythons_helper: the Pythons of the processes of one user, mostly: whoever asks for another user's
 * gets another helper, if there is room for one. */
#include "daemon/python/pythons_helper.h"

#include <errno.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/helper/helper.h"
#include "daemon/limits.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/autograd.h"
#include "daemon/python/freeing.h"
#include "daemon/python/place.h"
#include "daemon/python/python.h"

struct opened {
	uint32_t pid;
	uint64_t number, used;
	struct python *python; /* NULL: free */
};

static struct opened table[LIMIT_PYTHONS];
static uint64_t uses;

static void opened_close(struct opened *opened)
{
	python_free(opened->python);
	*opened = (struct opened){ 0 };
}

/* What is kept of the same pid, but of another program, is of no use. */
static struct python *opened_get(const struct pythons_order *order)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct opened *opened = &table[i];

		if (!opened->python || opened->pid != order->pid)
			continue;
		if (order->number && opened->number == order->number) {
			opened->used = ++uses;
			return opened->python;
		}
		opened_close(opened);
	}
	return NULL;
}

/* In the place of the one that was not used for longest. */
static void opened_put(const struct pythons_order *order, struct python *python)
{
	struct opened *oldest = &table[0];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].used < oldest->used)
			oldest = &table[i];
	opened_close(oldest);
	*oldest = (struct opened){
		.pid = order->pid, .number = order->number, .used = ++uses, .python = python
	};
}

static void forget(uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].python && table[i].pid == pid)
			opened_close(&table[i]);
}

static int look(int socket, const struct pythons_order *order)
{
	_cleanup_(python_freep) struct python *python = NULL;
	struct pythons_place found = { 0 };
	_cleanup_(closep) int freeing = -1;
	uint64_t before, after;
	uint32_t version;
	struct peek peek;
	int r;

	peek_open(&peek, order->pid);
	r = procfs_started_ticks(order->pid, &before);
	if (r == 0)
		r = python_open(order->pid, &python, &version);
	if (r == 0)
		r = place_find(python_found(python), &peek, &found.place);
	if (r == 0)
		freeing_find(order->pid, python_found(python), &peek, &freeing, &found.freeing);
	if (r == 0)
		autograd_find(order->pid, &peek, &found.place.autograd);
	else if (r == -ENOENT) /* a program in another language may use PyTorch, too */
		r = autograd_find(order->pid, &peek, &found.place.autograd);
	if (r == 0)
		r = procfs_started_ticks(order->pid, &after);
	if (r == 0 && after != before)
		r = -ESRCH;
	if (r < 0)
		return r;
	found.place.started_ticks = before;
	forget(order->pid);
	if (python)
		opened_put(order, TAKE(python));
	return helper_say(socket, &found, sizeof(found), &freeing, freeing >= 0);
}

/* Rows that wait for the message to be full. */
struct rows {
	int socket;
	size_t size;
	char text[HELPER_MESSAGE];
};

static int rows_flush(struct rows *rows)
{
	int r = rows->size ? helper_say(rows->socket, rows->text, rows->size, NULL, 0) : 0;

	rows->size = 0;
	return r;
}

static int rows_add(struct rows *rows, const struct pythons_row *row, const char *function,
		    const char *file)
{
	size_t first = strlen(function) + 1, second = strlen(file) + 1;
	size_t size = sizeof(*row) + first + second;
	int r = 0;

	if (size > sizeof(rows->text))
		return 0;
	if (size > sizeof(rows->text) - rows->size)
		r = rows_flush(rows);
	memcpy(rows->text + rows->size, row, sizeof(*row));
	memcpy(rows->text + rows->size + sizeof(*row), function, first);
	memcpy(rows->text + rows->size + sizeof(*row) + first, file, second);
	rows->size += size;
	return r;
}

static int name_frame(struct rows *rows, struct python *python, const struct pythons_order *order,
		      uint32_t index)
{
	struct pythons_row row = { .index = index };
	struct python_frame found;
	int r = python_name(python, &order->frame[index], &found);

	if (r < 0)
		return 0;
	row.hidden = r == 1;
	if (row.hidden)
		return rows_add(rows, &row, "", "");
	row.line = found.line > 0 ? (uint32_t)found.line : 0;
	return rows_add(rows, &row, found.code->function, found.code->file);
}

static int name_all(int socket, const struct pythons_order *order)
{
	static struct rows rows;
	struct python *python = opened_get(order);
	uint32_t version;
	int r;

	if (!python) {
		r = python_open(order->pid, &python, &version);
		if (r < 0)
			return r;
		opened_put(order, python);
	}
	python_renew(python);
	rows.socket = socket;
	rows.size = 0;
	for (uint32_t i = 0; i < order->count; i++) {
		r = name_frame(&rows, python, order, i);
		if (r < 0)
			return r;
	}
	return rows_flush(&rows);
}

int pythons_help(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	const size_t head = offsetof(struct pythons_order, frame);
	static struct pythons_order order;

	if (size < head || size > sizeof(order))
		return -EBADMSG;
	memcpy(&order, request, size);
	if (order.count > TS_STACK_PYTHON_MAX ||
	    size != head + order.count * sizeof(order.frame[0]))
		return -EBADMSG;
	return order.kind == PYTHONS_LOOK ? look(socket, &order) : name_all(socket, &order);
}
