/* machine.h: the host itself, for the fleet's table `host`. */
#ifndef TS_CLIENT_SHIP_MACHINE_H
#define TS_CLIENT_SHIP_MACHINE_H

#include <stdint.h>

struct machine {
	char id[64], kernel[128], driver[64]; /* "": unknown */
	int64_t cpus;
};

void machine_read(struct machine *ret);

#endif
