/* History: slots in the order of their numbers, each number once. The blocks of all slots, alive
 * and in doubt, and those born before sure_ns are together live_count. */
#include "core/leak/history.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/invariant.h"

#define FIRST_SHIFT                                                                                \
	20 /* slots of 1 ms at first: a program that does all in a second has a shape              \
	    */
#define FIRST_ROOM 4
#define MS_SHIFT   20
/* A gap is short up to this fraction of the time. */
#define GAP_PART 8
/* Of blocks that are freed sooner or later, this part was freed in a gap: too many. */
#define MUCH 0.25
/* What was allocated since then is recent. */
#define RECENT_NS 60000000000ull

uint64_t history_age_ns(unsigned int age)
{
	uint64_t power = 1ull << (MS_SHIFT + age / 2);

	if (age == 0)
		return 0;
	return age > 1 && age % 2 ? power + power / 2 : power;
}

/* 0: below 1 ms; then 1 to 2 ms, 2 to 3, 3 to 4, 4 to 6, 6 to 8, … */
static unsigned int age_of(uint64_t ns)
{
	uint64_t ms = ns >> MS_SHIFT;
	unsigned int power, age;

	if (ms < 2)
		return ms > 0;
	power = 63 - (unsigned int)__builtin_clzll(ms);
	age = 2 * power + (ms >> (power - 1) & 1);
	return age < HISTORY_AGES ? age : HISTORY_AGES - 1;
}

static uint32_t add_u32(uint32_t a, uint32_t b)
{
	return a + b < a ? UINT32_MAX : a + b;
}

/* The slot of a number, or where it would be. */
static unsigned int slot_place(const struct history *history, uint32_t number)
{
	unsigned int low = 0, high = history->count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (history->slot[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void slot_join(struct history_slot *slot, const struct history_slot *next)
{
	slot->born = add_u32(slot->born, next->born);
	slot->alive = add_u32(slot->alive, next->alive);
	slot->alive_bytes += next->alive_bytes;
	slot->doubt = add_u32(slot->doubt, next->doubt);
	slot->doubt_bytes += next->doubt_bytes;
	if (next->high_bytes > slot->high_bytes)
		slot->high_bytes = next->high_bytes;
	slot->activity = next->activity;
}

static void double_width(struct history *history)
{
	unsigned int kept = 0;

	history->shift++;
	for (unsigned int i = 0; i < history->count; i++) {
		struct history_slot slot = history->slot[i];

		slot.number >>= 1;
		if (kept && history->slot[kept - 1].number == slot.number)
			slot_join(&history->slot[kept - 1], &slot);
		else
			history->slot[kept++] = slot;
	}
	history->count = (uint8_t)kept;
}

static int slot_room(struct history *history)
{
	unsigned int room = history->room ? 2u * history->room : FIRST_ROOM;
	struct history_slot *slot;

	if (history->count < history->room)
		return 0;
	slot = realloc(history->slot, room * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	history->slot = slot;
	history->room = (uint8_t)room;
	return 0;
}

static uint32_t slot_number(const struct history *history, uint64_t ns)
{
	return (uint32_t)((ns - history->first_ns) >> history->shift);
}

/* That of a time, made if need be. NULL: no memory. Bounded by number, so that a history that has
 * a few slots far apart is not finer than one that has many. */
static struct history_slot *slot_at(struct history *history, uint64_t ns)
{
	unsigned int place;
	uint32_t number;

	while ((ns - history->first_ns) >> history->shift >= HISTORY_SLOTS)
		double_width(history);
	number = slot_number(history, ns);
	place = slot_place(history, number);
	if (place < history->count && history->slot[place].number == number)
		return &history->slot[place];
	if (slot_room(history) < 0)
		return NULL;
	memmove(&history->slot[place + 1], &history->slot[place],
		(history->count - place) * sizeof(*history->slot));
	history->count++;
	history->slot[place] = (struct history_slot){
		.number = number,
		.high_bytes = history->live_bytes,
		.activity = place ? history->slot[place - 1].activity : history->sure_activity,
	};
	return &history->slot[place];
}

/* What the process does beside allocating here: here, a warm-up would be steady by definition. */
static uint64_t other_activity(const struct history *history, uint64_t activity)
{
	uint64_t own = history->allocations + history->frees;

	return activity > own ? activity - own : 0;
}

static void slot_level(const struct history *history, struct history_slot *slot, uint64_t activity)
{
	if (history->live_bytes > slot->high_bytes)
		slot->high_bytes = history->live_bytes;
	activity = other_activity(history, activity);
	if (activity > slot->activity)
		slot->activity = activity;
}

void history_watch(struct history *history, uint64_t now_ns, uint64_t activity)
{
	if (history->first_ns)
		return;
	history->first_ns = history->sure_ns = now_ns ? now_ns : 1;
	history->last_ns = history->last_birth_ns = history->first_ns;
	history->sure_activity = activity;
	history->shift = FIRST_SHIFT;
}

static void history_event(struct history *history, uint64_t now_ns, uint64_t activity)
{
	if (now_ns > history->last_ns)
		history->last_ns = now_ns;
	if (activity > history->last_activity)
		history->last_activity = activity;
}

static void history_credit(struct history *history, uint64_t bytes)
{
	history->allocations++;
	history->live_bytes += bytes;
	history->live_count++;
	if (history->live_bytes > history->peak_bytes)
		history->peak_bytes = history->live_bytes;
}

static uint64_t line(double x, double from_x, double from_y, double to_x, double to_y)
{
	double y = to_x > from_x ? from_y + (x - from_x) * (to_y - from_y) / (to_x - from_x) : to_y;

	return (uint64_t)fmin(y, (double)INT64_MAX);
}

/* Of the time that was resumed, two points are known. */
static uint64_t past_activity(const struct history *history, uint64_t ns)
{
	double last_ns = (double)history->past_last_ns;
	double last = (double)history->past_last_activity;

	if (ns >= history->past_ns)
		return history->past_activity;
	if (ns >= history->past_last_ns)
		return line((double)ns, last_ns, last, (double)history->past_ns,
			    (double)history->past_activity);
	return line((double)ns, (double)history->first_ns, 0, last_ns, last);
}

static struct history_slot *past_slot(struct history *history, uint64_t ns)
{
	struct history_slot *slot = slot_at(history, ns);

	if (slot)
		slot->activity = past_activity(history, history_slot_ns(history, slot->number + 1));
	return slot;
}

/* How much lived when is unknown: flat, it does not look as if it had risen. */
void history_found(struct history *history, uint64_t born_ns, uint64_t bytes)
{
	struct history_slot *slot;

	history_credit(history, bytes);
	if (!history->first_ns || born_ns < history->sure_ns)
		return;
	slot = past_slot(history, born_ns);
	if (!slot)
		return;
	slot->born = add_u32(slot->born, 1);
	slot->alive = add_u32(slot->alive, 1);
	slot->alive_bytes += bytes;
	for (unsigned int i = 0; i < history->count; i++)
		history->slot[i].high_bytes = history->live_bytes;
}

/* A digit of a count: none for 0, then five to two powers of two. */
#define DIGIT_NONE    '!'
#define DIGITS_OF_TWO 2.5
#define DIGITS_MAX    81 /* of 2^32 */

void history_ages(const struct history *history, char text[HISTORY_AGES + 1])
{
	unsigned int count = 0;

	memset(text, 0, HISTORY_AGES + 1);
	for (unsigned int age = 0; age < HISTORY_AGES; age++) {
		long digit =
			history->age[age] ? 1 + lround(DIGITS_OF_TWO * log2(history->age[age])) : 0;

		text[age] = (char)(DIGIT_NONE + digit);
		if (digit)
			count = age + 1;
	}
	text[count] = 0;
}

/* Their sum is as given; what rounding leaves is of the age that is seen most. */
static int ages_read(struct history *history, const char *text, uint64_t frees)
{
	size_t count = strnlen(text, HISTORY_AGES + 1);
	double number[HISTORY_AGES] = { 0 }, sum = 0;
	uint64_t rest = frees;
	unsigned int most = 0;

	if (count > HISTORY_AGES)
		return -EINVAL;
	for (unsigned int age = 0; age < count; age++) {
		int digit = text[age] - DIGIT_NONE;

		if (digit < 0 || digit > DIGITS_MAX)
			return -EINVAL;
		number[age] = digit ? exp2((digit - 1) / DIGITS_OF_TWO) : 0;
		sum += number[age];
		if (number[age] > number[most])
			most = age;
	}
	if (frees && sum <= 0)
		return -EINVAL;
	for (unsigned int age = 0; frees && age < count; age++) {
		double part = floor(number[age] / sum * (double)frees);

		history->age[age] = (uint32_t)fmin(part, UINT32_MAX);
		rest -= history->age[age] < rest ? history->age[age] : rest;
	}
	history->age[most] = add_u32(history->age[most], (uint32_t)fmin((double)rest, UINT32_MAX));
	return 0;
}

/* Blocks that are gone came evenly, as far as anybody knows. */
static int past_spread(struct history *history)
{
	uint32_t slots;

	while ((history->last_ns - history->first_ns) >> history->shift >= HISTORY_SLOTS)
		history->shift++;
	slots = slot_number(history, history->last_ns) + 1;
	for (uint32_t i = 0; history->frees && i < slots; i++) {
		struct history_slot *slot = past_slot(history, history_slot_ns(history, i));
		double share = (double)history->frees / slots;
		double born = floor(share * (i + 1)) - floor(share * i);

		if (!slot)
			return -ENOMEM;
		slot->born = (uint32_t)fmin(born, UINT32_MAX);
	}
	return 0;
}

int history_resume(struct history *history, const struct history_past *past)
{
	int r;

	if (history->first_ns || history->live_count || !past->since_ns || !past->ages ||
	    past->told_ns < past->since_ns || past->told_ns > INT64_MAX)
		return -EINVAL;
	r = ages_read(history, past->ages, past->frees);
	if (r < 0)
		return r;
	history_watch(history, past->since_ns, 0);
	if (past->last_ns > past->since_ns)
		history->last_ns = past->last_ns < past->told_ns ? past->last_ns : past->told_ns;
	if (past->birth_ns > past->since_ns)
		history->last_birth_ns =
			past->birth_ns < history->last_ns ? past->birth_ns : history->last_ns;
	history->allocations = past->allocations;
	history->frees = past->frees;
	history->past_ns = history->past_last_ns = past->told_ns;
	history->past_activity = other_activity(history, past->activity);
	history->past_last_activity = history->past_activity;
	if (past->last_activity && past->last_activity <= past->activity) {
		history->past_last_ns = history->last_ns;
		history->past_last_activity = other_activity(history, past->last_activity);
	}
	history->allocations = past->frees; /* the others are found */
	history->last_free_ns = past->frees ? history->last_ns : 0;
	history->peak_bytes = past->peak_bytes;
	history->last_activity = past->activity;
	return past_spread(history);
}

int history_allocated(struct history *history, uint64_t now_ns, uint64_t bytes, uint64_t activity)
{
	struct history_slot *slot;

	history_watch(history, now_ns, activity);
	slot = now_ns >= history->sure_ns ? slot_at(history, now_ns) : NULL;
	history_event(history, now_ns, activity);
	history_credit(history, bytes);
	if (now_ns > history->last_birth_ns)
		history->last_birth_ns = now_ns;
	if (!slot)
		return now_ns >= history->sure_ns ? -ENOMEM : 0;
	slot->born = add_u32(slot->born, 1);
	slot->alive = add_u32(slot->alive, 1);
	slot->alive_bytes += bytes;
	slot_level(history, slot, activity);
	return 0;
}

/* A block of so many bytes was in doubt; which others are, is unknown. How many bytes are to be
 * taken from those alive. */
static uint64_t slot_restore(struct history_slot *slot, uint64_t bytes)
{
	uint64_t taken = bytes < slot->doubt_bytes ? bytes : slot->doubt_bytes;

	slot->doubt_bytes -= taken;
	if (!slot->doubt) {
		slot->alive_bytes += slot->doubt_bytes;
		slot->doubt_bytes = 0;
	}
	return bytes - taken;
}

/* Those from before sure_ns are in no slot, nor are those for whose slot there was no memory. */
static void forget_alive(struct history *history, uint64_t born_ns, uint64_t bytes)
{
	struct history_slot *slot;
	unsigned int place;

	if (born_ns < history->sure_ns)
		return;
	place = slot_place(history, slot_number(history, born_ns));
	if (place == history->count)
		return;
	slot = &history->slot[place];
	if (slot->number != slot_number(history, born_ns))
		return;
	if (slot->doubt) {
		slot->doubt--;
		bytes = slot_restore(slot, bytes);
	} else if (slot->alive) {
		slot->alive--;
	}
	slot->alive_bytes -= bytes < slot->alive_bytes ? bytes : slot->alive_bytes;
}

void history_freed(struct history *history, uint64_t born_ns, uint64_t now_ns, uint64_t bytes,
		   uint64_t activity)
{
	struct history_slot *slot;
	unsigned int age;

	assert_invariant(history->live_count > 0);
	if (!history->live_count)
		return;
	if (bytes > history->live_bytes)
		bytes = history->live_bytes;
	history_watch(history, now_ns, activity);
	if (now_ns < history->last_ns)
		now_ns = history->last_ns;
	age = age_of(now_ns > born_ns ? now_ns - born_ns : 0);
	slot = now_ns >= history->first_ns ? slot_at(history, now_ns) : NULL;
	forget_alive(history, born_ns, bytes);
	history->live_bytes -= bytes;
	history->live_count--;
	history->frees++;
	history->age[age] = add_u32(history->age[age], 1);
	history->last_free_ns = now_ns;
	history_event(history, now_ns, activity);
	if (slot)
		slot_level(history, slot, activity);
}

/* The age that blocks reach here before they are freed, but for one in a hundred. 0: too few were
 * freed to tell. */
static uint64_t usual_age_ns(const struct history *history)
{
	uint64_t above = 0;

	if (history->frees < 16)
		return 0;
	for (unsigned int age = HISTORY_AGES; age-- > 0;) {
		above += history->age[age];
		if (above * 100 > history->frees)
			return history_age_ns(age + 1);
	}
	return 0;
}

static void slot_doubt(struct history_slot *slot, uint32_t count)
{
	uint64_t bytes;

	if (count > slot->alive)
		count = slot->alive;
	if (!count)
		return;
	bytes = (uint64_t)((double)slot->alive_bytes * count / slot->alive);
	slot->alive -= count;
	slot->alive_bytes -= bytes;
	slot->doubt += count;
	slot->doubt_bytes += bytes;
}

/* How many blocks of a slot were born in a time, if all came evenly. */
static double slot_born(const struct history *history, const struct history_slot *slot,
			uint64_t from_ns, uint64_t until_ns)
{
	uint64_t start_ns = history_slot_ns(history, slot->number);
	uint64_t end_ns = history_slot_ns(history, slot->number + 1);

	if (end_ns > until_ns)
		end_ns = until_ns;
	if (from_ns < start_ns)
		from_ns = start_ns;
	return end_ns <= from_ns ? 0
				 : (double)slot->born * (double)(end_ns - from_ns) /
					   (double)(end_ns - start_ns);
}

/* No more than are freed in such a time elsewhere, and of those born since `from_ns`, the youngest
 * first, such a part. */
static void history_doubt(struct history *history, uint64_t from_ns, uint64_t since_ns,
			  uint64_t gap_ns, double part)
{
	uint64_t life_ns = history->last_ns - history->first_ns;
	double most = ceil((double)history->frees * (double)gap_ns /
			   (double)(life_ns > gap_ns ? life_ns : gap_ns));

	for (unsigned int i = history->count; i-- > 0 && most >= 1;) {
		struct history_slot *slot = &history->slot[i];
		double born = slot_born(history, slot, from_ns, since_ns);
		uint32_t count = (uint32_t)fmin(fmin(ceil(born * part), most), UINT32_MAX);

		if (count > slot->alive)
			count = slot->alive;
		slot_doubt(slot, count);
		most -= count;
	}
}

/* Blocks that are older than what is usually freed would not have been freed in that time either,
 * and of the younger ones few, if it was short. If much was missed, all may have been. */
void history_missed(struct history *history, uint64_t since_ns, uint64_t until_ns,
		    uint64_t activity)
{
	uint64_t usual_ns = usual_age_ns(history), gap_ns = until_ns - since_ns;
	double part = usual_ns ? fmin(2 * (double)gap_ns / (double)usual_ns, 1) : 1;
	uint64_t from_ns = since_ns > 2 * usual_ns ? since_ns - 2 * usual_ns : 0;

	if (!history->first_ns || until_ns < history->first_ns)
		return;
	history->missed_ns += gap_ns;
	history_doubt(history, from_ns, since_ns, gap_ns, part);
	if ((from_ns > history->sure_ns || part < MUCH) &&
	    history->missed_ns * GAP_PART <= until_ns - history->sure_ns)
		return;
	history->missed_ns = 0;
	history->sure_ns = until_ns + 1;
	history->sure_activity = other_activity(history, activity);
}

uint64_t history_recent_bytes(const struct history *history, uint64_t now_ns)
{
	const uint64_t width_ns = 1ull << history->shift;
	const uint64_t since_ns = now_ns > RECENT_NS ? now_ns - RECENT_NS : 0;
	uint64_t bytes = 0;

	if (history->first_ns >= since_ns) /* with those that are in no slot */
		return history->live_bytes;
	for (unsigned int i = history->count; i-- > 0;) {
		const struct history_slot *slot = &history->slot[i];
		uint64_t start_ns = history_slot_ns(history, slot->number);
		uint64_t end_ns = start_ns + width_ns < now_ns ? start_ns + width_ns : now_ns;
		uint64_t held = slot->alive_bytes + slot->doubt_bytes;

		if (end_ns <= since_ns)
			break;
		if (start_ns >= since_ns)
			bytes += held;
		else
			bytes += (uint64_t)((double)held * (double)(end_ns - since_ns) /
					    (double)(end_ns - start_ns));
	}
	return bytes < history->live_bytes ? bytes : history->live_bytes;
}

void history_clear(struct history *history)
{
	free(history->slot);
	memset(history, 0, sizeof(*history));
}
