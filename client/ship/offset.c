/* Offset: intervals that are widened by what clocks may drift, and intersected. */
#include "client/ship/offset.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PPB	  1000000000
#define SECOND_NS 1000000000
#define NS_LIMIT  (INT64_MAX / 4) /* year 2043; differences of such times do not overflow */

static int64_t drifted(int64_t ns, int64_t ppb)
{
	return (int64_t)((__int128)ns * ppb / PPB);
}

static int64_t middle(const struct offset_round *round)
{
	return round->low_ns + (round->high_ns - round->low_ns) / 2;
}

struct offset_round offset_open(void)
{
	return (struct offset_round){ .low_ns = -NS_LIMIT,
				      .high_ns = NS_LIMIT,
				      .round_trip_ns = NS_LIMIT };
}

bool offset_known(const struct offset_round *round)
{
	return round->low_ns > -NS_LIMIT && round->high_ns < NS_LIMIT;
}

int64_t offset_half(const struct offset_round *round)
{
	return (round->high_ns - round->low_ns + 1) / 2;
}

static bool in_range(int64_t ns)
{
	return ns >= 0 && ns < NS_LIMIT;
}

/* The same later, when less is certain. */
static void carry(struct offset_round *round, int64_t at_ns)
{
	int64_t by_ns = offset_known(round) ? drifted(at_ns - round->at_ns, OFFSET_DRIFT_PPB) : 0;

	round->low_ns -= by_ns;
	round->high_ns += by_ns;
	round->at_ns = at_ns;
}

static bool is_sound(const struct offset_exchange *exchange)
{
	return in_range(exchange->sent_ns) && in_range(exchange->got_ns) &&
	       in_range(exchange->from_ns) && in_range(exchange->to_ns) &&
	       exchange->got_ns >= exchange->sent_ns && exchange->to_ns >= exchange->from_ns;
}

int offset_narrow(struct offset_round *round, const struct offset_exchange *exchange)
{
	struct offset_round now;
	bool stale;

	if (!is_sound(exchange))
		return -EBADMSG;
	now = (struct offset_round){
		.at_ns = exchange->got_ns,
		.low_ns = exchange->from_ns - exchange->got_ns,
		.high_ns = exchange->to_ns - exchange->sent_ns,
		.round_trip_ns = exchange->got_ns - exchange->sent_ns,
	};
	carry(round, now.at_ns);
	stale = now.low_ns > round->high_ns || now.high_ns < round->low_ns;
	if (!stale) {
		if (now.low_ns < round->low_ns)
			now.low_ns = round->low_ns;
		if (now.high_ns > round->high_ns)
			now.high_ns = round->high_ns;
		if (now.round_trip_ns > round->round_trip_ns)
			now.round_trip_ns = round->round_trip_ns;
	}
	*round = now;
	return stale ? -ESTALE : 0;
}

/* The drift since the round from which on it is best known; one that is not known well is taken for
 * none at all. */
static void find_drift(const struct offset *offset, struct offset_estimate *estimate)
{
	const struct offset_round *last = &offset->round[offset->count - 1];

	estimate->drift_ppb = 0;
	estimate->drift_bound_ppb = OFFSET_DRIFT_PPB;
	for (const struct offset_round *round = offset->round; round < last; round++) {
		int64_t passed_ns = last->at_ns - round->at_ns, error_ppb;

		if (passed_ns <= 0)
			continue;
		error_ppb = (int64_t)((__int128)(offset_half(round) + offset_half(last)) * PPB /
				      passed_ns) +
			    OFFSET_WANDER_PPB;
		if (error_ppb >= estimate->drift_bound_ppb)
			continue;
		estimate->drift_bound_ppb = error_ppb;
		estimate->drift_ppb =
			(int64_t)((__int128)(middle(last) - middle(round)) * PPB / passed_ns);
	}
}

bool offset_estimate(const struct offset *offset, struct offset_estimate *ret)
{
	struct offset_estimate estimate = { .bound_ns = INT64_MAX };

	if (!offset->count)
		return false;
	find_drift(offset, &estimate);
	estimate.at_ns = offset->round[offset->count - 1].at_ns;
	for (size_t i = offset->count; i > 0; i--) {
		const struct offset_round *round = &offset->round[i - 1];
		int64_t age_ns = estimate.at_ns - round->at_ns;
		int64_t bound_ns = offset_half(round) + drifted(age_ns, estimate.drift_bound_ppb);

		if (bound_ns >= estimate.bound_ns)
			continue;
		estimate.bound_ns = bound_ns;
		estimate.offset_ns = middle(round) + drifted(age_ns, estimate.drift_ppb);
		estimate.round_trip_ns = round->round_trip_ns;
	}
	*ret = estimate;
	return true;
}

struct offset_round offset_expect(const struct offset *offset, int64_t at_ns)
{
	struct offset_estimate estimate;
	int64_t age_ns, middle_ns, by_ns;

	if (!offset_estimate(offset, &estimate))
		return offset_open();
	age_ns = at_ns - estimate.at_ns;
	middle_ns = estimate.offset_ns + drifted(age_ns, estimate.drift_ppb);
	by_ns = estimate.bound_ns + drifted(age_ns, estimate.drift_bound_ppb);
	return (struct offset_round){ .at_ns = at_ns,
				      .low_ns = middle_ns - by_ns,
				      .high_ns = middle_ns + by_ns,
				      .round_trip_ns = estimate.round_trip_ns };
}

int64_t offset_edge(const struct offset_round *round, int64_t now_ns)
{
	int64_t ahead_ns = middle(round) - OFFSET_TICK_NS / 2 + round->round_trip_ns / 2;

	return (now_ns + ahead_ns) / SECOND_NS * SECOND_NS + SECOND_NS - ahead_ns;
}

static bool contradicts(const struct offset *offset, const struct offset_round *round)
{
	struct offset_round expected = offset_expect(offset, round->at_ns);

	return round->low_ns > expected.high_ns || round->high_ns < expected.low_ns;
}

void offset_add(struct offset *offset, const char *server, const struct offset_round *round)
{
	if (strncmp(offset->server, server, sizeof(offset->server) - 1) != 0 ||
	    contradicts(offset, round))
		offset->count = 0;
	snprintf(offset->server, sizeof(offset->server), "%s", server);
	if (offset->count == OFFSET_ROUNDS)
		memmove(offset->round, offset->round + 1, --offset->count * sizeof(*offset->round));
	offset->round[offset->count++] = *round;
}
