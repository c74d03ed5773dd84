/* Request: whether a message is one. It comes from a process that others may have taken over. */
#include "daemon/broker/request.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/library/library.h"

enum pid_rule { PID_NONE, PID_ONE, PID_ANY };

static const struct {
	uint8_t files, pid;
	bool sites;
} rule[BROKER_KINDS] = {
	[BROKER_LOAD] = { 0, PID_NONE, false },	    [BROKER_LINK] = { 1, PID_ANY, true },
	[BROKER_CALIBRATE] = { 0, PID_ONE, false }, [BROKER_STUB] = { 1, PID_ONE, false },
	[BROKER_LOOK] = { 0, PID_NONE, false },	    [BROKER_SAMPLE] = { 0, PID_ONE, false },
	[BROKER_MAPPED] = { 0, PID_NONE, false },   [BROKER_SAMPLER] = { 1, PID_NONE, false },
	[BROKER_HELD] = { 0, PID_NONE, false },	    [BROKER_FREED] = { 1, PID_ONE, false },
	[BROKER_HOOKED] = { 0, PID_NONE, false },
};

static bool is_pid(uint32_t pid, enum pid_rule which)
{
	if (!pid)
		return which != PID_ONE;
	return which != PID_NONE && pid <= INT_MAX;
}

static bool is_copy(const struct broker_request *request)
{
	return request->copy < (request->kind == BROKER_FREED ? PROBE_FREED_MAX : PROBE_COPIES_MAX);
}

static bool is_ring(uint64_t bytes)
{
	return bytes >= BROKER_RING_LEAST && bytes <= BROKER_RING_MOST && !(bytes & (bytes - 1));
}

static bool is_site(const struct broker_site *site)
{
	const struct library_function *function = library_function(site->function);

	if (!function || site->offset > LLONG_MAX || site->zero)
		return false;
	if (function->flags & PROBE_NOTE)
		return site->flags < PROBE_NOTES_MAX && site->semaphore <= LLONG_MAX;
	return !(site->flags & ~TS_EVENT_PER_THREAD) && !site->semaphore;
}

/* Ascending: so none is there twice, which would count a call twice. */
static bool are_sites(const uint8_t *data, uint32_t count)
{
	uint64_t before = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct broker_site site;

		memcpy(&site, data + i * sizeof(site), sizeof(site));
		if (site.offset <= before || !is_site(&site))
			return false;
		before = site.offset;
	}
	return true;
}

int broker_check(const void *data, size_t size, uint32_t files)
{
	struct broker_request request;

	if (size < sizeof(request))
		return -EBADMSG;
	memcpy(&request, data, sizeof(request));
	if (request.kind >= BROKER_KINDS || files != rule[request.kind].files ||
	    !is_pid(request.pid, rule[request.kind].pid) || request.way >= PROBE_WAYS ||
	    request.group >= PROBE_GROUPS || !is_copy(&request) ||
	    request.sites > BROKER_SITES_MAX || !request.sites == rule[request.kind].sites ||
	    size != sizeof(request) + request.sites * sizeof(struct broker_site))
		return -EBADMSG;
	if (request.kind == BROKER_LOAD && !is_ring(request.value))
		return -EBADMSG;
	if (request.kind == BROKER_LINK && request.value > PROBE_EPOCH_MAX)
		return -EBADMSG;
	if (request.kind == BROKER_MAPPED && request.value >= BROKER_CPUS_MAX)
		return -EBADMSG;
	if ((request.kind == BROKER_STUB || request.kind == BROKER_FREED) &&
	    request.value > LLONG_MAX)
		return -EBADMSG;
	return are_sites((const uint8_t *)data + sizeof(request), request.sites) ? 0 : -EBADMSG;
}
