/* Starve: the waits of a turn, and what became of the last suspicion. */
#include "core/price/starve.h"

#include "core/base/time.h"

/* Of the CPU. 300,000 hits take a third of it or more, 45,000 a twentieth. */
#define SHARE 0.2
/* Links go, and what has queued up is worked off. */
#define SETTLE_NS NS_PER_S
/* Until it is clear whether that has helped. */
#define LOOK_NS	     (4 * NS_PER_S)
#define PAUSE_MIN_NS (60 * NS_PER_S)
#define PAUSE_MAX_NS (3600 * NS_PER_S)

void starve_wait(struct starve *starve, uint64_t waited_ns, double trapped_ns)
{
	if (waited_ns > starve->waited_ns)
		starve->waited_ns = waited_ns;
	if (waited_ns > STARVE_LONG_NS && trapped_ns > SHARE * (double)waited_ns)
		starve->trapped = true;
}

static bool starve_suspect(struct starve *starve, uint64_t now_ns)
{
	starve->suspects_ns = now_ns;
	starve->judge_ns = now_ns + (uint64_t)SETTLE_NS;
	return true;
}

/* Work waits without traps, too. */
static void starve_acquit(struct starve *starve, uint64_t now_ns)
{
	starve->suspects_ns = 0;
	starve->pause_ns = starve->pause_ns ? 2 * starve->pause_ns : (uint64_t)PAUSE_MIN_NS;
	if (starve->pause_ns > (uint64_t)PAUSE_MAX_NS)
		starve->pause_ns = PAUSE_MAX_NS;
	starve->judge_ns = now_ns + starve->pause_ns;
}

static bool starve_judge(struct starve *starve, uint64_t now_ns, uint64_t waited_ns, bool trapped)
{
	if (now_ns < starve->judge_ns)
		return false;
	if (trapped)
		return starve_suspect(starve, now_ns);
	if (!starve->suspects_ns)
		return false;
	if (waited_ns > STARVE_LONG_NS) {
		/* What has waited since before is no evidence, unless it goes on. */
		if (now_ns - waited_ns >= starve->suspects_ns + (uint64_t)SETTLE_NS ||
		    now_ns - starve->suspects_ns > (uint64_t)LOOK_NS)
			starve_acquit(starve, now_ns);
	} else if (now_ns - starve->suspects_ns > (uint64_t)LOOK_NS) {
		starve->suspects_ns = 0;
		starve->pause_ns = 0;
	}
	return false;
}

bool starve_turn(struct starve *starve, uint64_t now_ns)
{
	uint64_t waited_ns = starve->waited_ns;
	bool trapped = starve->trapped;

	starve->waited_ns = 0;
	starve->trapped = false;
	return starve_judge(starve, now_ns, waited_ns, trapped);
}
