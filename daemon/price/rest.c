/* Rest: how windows of the exact tier end: with CUPTI switched off, which costs each call
 * something, or taken out, which leaves memory of the device in the process that does not come back
 * (TS_CYCLES_MAX). */
#include "core/base/time.h"
#include "core/price/hit.h"
#include "daemon/price/internal.h"

#define REST_PART 0.5 /* of a budget at most */
/* Windows are twice as long, and as much rarer, each time that CUPTI was taken out so often. */
#define GROW_CYCLES 8
#define GROW_MOST   6

void rest_choose(struct priced *priced, const struct price_tier *tier)
{
	struct watch_config *config = &priced->watch.config;
	uint32_t grown = tier->cycles / GROW_CYCLES;
	double rest = priced->watch.rate * HIT_REST_NS / NS_PER_S / priced->watch.had;

	priced->rest = rest <= REST_PART * config->budget;
	config->rest = tier->rests ? rest : 0;
	config->closed = !priced->rest && !tier->rests && tier->cycles >= TS_CYCLES_MAX;
	config->turn_ns = (uint64_t)REST_TURN_NS << (grown < GROW_MOST ? grown : GROW_MOST);
}
