/* Account: sums by process, device and kind. A process has few, so they are a list. */
#include "core/model/account.h"

#include <stdlib.h>

#include "core/base/invariant.h"
#include "core/model/op.h"

#define COUNTS 1 /* and does not lie inside memory that does */

static const uint8_t account_counts[MEMORY_KIND_MAX + 1] = {
#define X(number, name, text, space, counted) [number] = counted,
	MEMORY_KINDS(X)
#undef X
};

static bool account_is_host(uint8_t kind)
{
	return kind == MEMORY_HOST || kind == MEMORY_REGISTERED;
}

int16_t account_device(uint8_t kind, int16_t device)
{
	return account_is_host(kind) ? DEVICE_UNKNOWN : device;
}

struct account *account_get(struct list *accounts, struct growing *growing, int16_t device,
			    uint8_t kind)
{
	struct account *account;

	list_for_each(account, accounts, link)
		if (account->device == device && account->kind == kind)
			return account;
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	account->process = growing->process;
	account->user = growing->user;
	account->growing = account_counts[kind] ? growing : NULL;
	account->device = device;
	account->kind = kind;
	list_init(&account->changed);
	list_append(accounts, &account->link);
	return account;
}

uint64_t account_live_bytes(const struct list *accounts, int16_t device, uint8_t kind)
{
	bool host = account_is_host(kind);
	struct account *account;
	uint64_t bytes = 0;

	list_for_each(account, accounts, link)
		if (account->device == device && account_counts[account->kind] == COUNTS &&
		    account_is_host(account->kind) == host)
			bytes += account->live_bytes;
	return bytes;
}

void account_touch(struct account *account, struct list *changed)
{
	if (!list_linked(&account->changed))
		list_append(changed, &account->changed);
}

void account_credit(struct account *account, uint64_t bytes, struct list *changed)
{
	account->live_bytes += bytes;
	account->live_count++;
	if (account->live_bytes > account->peak_bytes)
		account->peak_bytes = account->live_bytes;
	account_touch(account, changed);
}

void account_debit(struct account *account, uint64_t bytes, struct list *changed)
{
	assert_invariant(account->live_count > 0 && account->live_bytes >= bytes);
	account->live_bytes -= bytes;
	account->live_count--;
	account_touch(account, changed);
}

void account_ask(struct account *account, uint64_t requested_bytes, uint64_t rounding_bytes,
		 struct list *changed)
{
	account->requested_bytes += requested_bytes;
	account->rounding_bytes += rounding_bytes;
	account_touch(account, changed);
}

void account_unask(struct account *account, uint64_t requested_bytes, uint64_t rounding_bytes,
		   struct list *changed)
{
	assert_invariant(account->requested_bytes >= requested_bytes &&
			 account->rounding_bytes >= rounding_bytes);
	account->requested_bytes -= requested_bytes;
	account->rounding_bytes -= rounding_bytes;
	account_touch(account, changed);
}

static struct growth_place account_place(const struct account_block *block)
{
	return (struct growth_place){
		.stack_id = block->stack_id,
		.fn = block->fn,
		.device = block->account->device,
		.kind = block->account->kind,
	};
}

void account_born(struct growths *growths, struct account_block block)
{
	const struct growth_place place = account_place(&block);

	if (block.account->growing)
		growths_born(growths, block.account->growing, &place, block.start_ns, block.bytes);
}

void account_found(struct growths *growths, struct account_block block)
{
	const struct growth_place place = account_place(&block);

	if (block.account->growing)
		growths_found(growths, block.account->growing, &place, block.start_ns, block.bytes);
}

void account_gone(struct growths *growths, struct account_block block, uint64_t now_ns)
{
	const struct growth_place place = account_place(&block);

	if (block.account->growing)
		growths_gone(growths, block.account->growing, &place, block.start_ns, now_ns,
			     block.bytes);
}

void account_leave(struct account *account)
{
	if (--account->allocations == 0 && account->orphan)
		free(account);
}

void account_free_all(struct list *accounts)
{
	struct account *account;

	list_for_each(account, accounts, link) {
		list_remove(&account->link);
		list_remove(&account->changed);
		account->orphan = true;
		account->growing = NULL;
		account->allocations -= (uint32_t)account->live_count; /* go with the pool */
		if (!account->allocations)
			free(account);
	}
}
