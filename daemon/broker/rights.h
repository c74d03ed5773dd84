/* rights.h: what the broker keeps of the rights that it was started with.
 */
#ifndef TS_BROKER_RIGHTS_H
#define TS_BROKER_RIGHTS_H

/* Before it has threads. 0 or a negative errno. */
int rights_broker(void);

#endif
