/* top.h: what devices and processes do, each second. */
#ifndef TS_TOP_H
#define TS_TOP_H

#include "client/base/options.h"

/* On the whole screen, until the user quits; or once, as text or JSON. An exit_status. */
int top_screen(const struct options *options);
int top_once(const struct options *options);
/* Names of users, for the rows. */
void top_user(uint32_t uid, char name[]);

#endif
