/* Probe stub: one of our programs on one function, in one process: the one for calls that a library
 * reports from inside, on what they go through; or the one that counts the code objects that a
 * Python frees, on what frees them. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "daemon/probe/held.h"
#include "daemon/probe/internal.h"
#include "daemon/probe/remover.h"

struct probe_stub {
	struct removal removal;
	struct held_file *file;
	int link;
};

static struct probe_stub *stub_free(struct probe_stub *stub)
{
	if (stub)
		held_file_unref(stub->file);
	free(stub);
	return NULL;
}
CLEANUP_DEFINE(struct probe_stub, stub_free)

static int stub_prepare(struct probe *probe, int fd, struct probe_stub **ret)
{
	_cleanup_(stub_freep) struct probe_stub *stub = calloc(1, sizeof(*stub));
	int r;

	if (!stub)
		return -ENOMEM;
	r = held_file_new(probe->held, fd, &stub->file);
	if (r < 0)
		return r;
	if (held_file_is(stub->file))
		return -EBUSY;
	*ret = TAKE(stub);
	return 0;
}

int probe_stub_new(struct probe *probe, int fd, uint64_t offset, uint32_t pid,
		   struct probe_stub **ret)
{
	_cleanup_(stub_freep) struct probe_stub *stub = NULL;
	int r = stub_prepare(probe, fd, &stub);

	if (r < 0)
		return r;
	stub->link = broker_stub(probe->broker, fd, offset, pid);
	if (stub->link < 0)
		return stub->link;
	*ret = TAKE(stub);
	return 0;
}

int probe_freed_new(struct probe *probe, int fd, uint64_t offset, uint32_t pid, uint32_t place,
		    struct probe_stub **ret)
{
	_cleanup_(stub_freep) struct probe_stub *stub = NULL;
	int r = stub_prepare(probe, fd, &stub);

	if (r < 0)
		return r;
	stub->link = broker_freed(probe->broker, fd, offset, pid, place);
	if (stub->link < 0)
		return stub->link;
	*ret = TAKE(stub);
	return 0;
}

static bool stub_take_off(struct removal *removal)
{
	struct probe_stub *stub = list_item(removal, struct probe_stub, removal);

	if (held_file_is(stub->file))
		return false;
	closep(&stub->link);
	stub_free(stub);
	return true;
}

struct probe_stub *probe_stub_end(struct probe_stub *stub, struct remover *remover)
{
	if (stub)
		remover_add(remover, &stub->removal, stub_take_off);
	return NULL;
}
