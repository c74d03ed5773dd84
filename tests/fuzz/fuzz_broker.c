/* Any message to the broker: what passes is within the bounds that the broker relies on. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/request.h"
#include "daemon/library/library.h"
#include "tests/fuzz/seed.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct broker_message message;

static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");
	const struct broker_request load = { .kind = BROKER_LOAD, .value = 1 << 20 };
	const uint16_t function = library_cuda.function[0].number;
	const struct {
		struct broker_request request;
		struct broker_site site[2];
	} link = { .request = { .kind = BROKER_LINK, .pid = 1, .sites = 2 },
		   .site = { { 1, function, 0, 0 }, { 2, function, 0, 0 } } };

	if (!directory)
		return 0;
	write_seed(directory, 0, 0, &load, sizeof(load));
	write_seed(directory, 1, 1, &link, sizeof(link));
	return 0;
}

/* The first byte is the number of files that come along. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct broker_request *request = &message.request;
	uint64_t before = 0;

	if (!size || size - 1 > sizeof(message))
		return 0;
	if (broker_check(data + 1, size - 1, data[0]) < 0)
		return 0;
	memcpy(&message, data + 1, size - 1);
	must(request->kind < BROKER_KINDS && request->group < PROBE_GROUPS && data[0] <= 1);
	must(request->pid <= INT_MAX);
	must(request->copy < (request->kind == BROKER_FREED ? PROBE_FREED_MAX : PROBE_COPIES_MAX));
	must(request->kind != BROKER_FREED || (request->pid && data[0] == 1));
	must(request->sites <= BROKER_SITES_MAX &&
	     (request->kind == BROKER_LINK) == !!request->sites);
	must(request->kind != BROKER_LINK || request->value <= PROBE_EPOCH_MAX);
	must(request->kind != BROKER_LOAD || request->value <= BROKER_RING_MOST);
	for (uint32_t i = 0; i < request->sites; i++) {
		must(message.site[i].offset > before && library_function(message.site[i].function));
		before = message.site[i].offset;
	}
	return 0;
}
