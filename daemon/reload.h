/* reload.h: makes another daemon reread its settings. */
#ifndef TS_RELOAD_H
#define TS_RELOAD_H

/* `pid` as given by the user. Errors are logged. */
int reload_signal(const char *pid);

#endif
