/* Account: sums by process, device and kind. A process has few, so they are a list. */
#include "core/model/account.h"

#include <stdlib.h>

#include "core/base/invariant.h"
#include "core/model/op.h"

static const bool account_counts[MEMORY_KIND_MAX + 1] = {
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

struct account *account_get(struct list *accounts, uint32_t process, uint32_t user, int16_t device,
			    uint8_t kind)
{
	struct account *account;

	list_for_each(account, accounts, link)
		if (account->device == device && account->kind == kind)
			return account;
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	account->process = process;
	account->user = user;
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
		if (account->device == device && account_counts[account->kind] &&
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
		account->allocations -= (uint32_t)account->live_count; /* go with the pool */
		if (!account->allocations)
			free(account);
	}
}
