/* reload.h: lets another daemon read its settings again. */
#ifndef TS_RELOAD_H
#define TS_RELOAD_H

/* `pid` as the user gave it. What is wrong is told on the log. */
int reload_signal(const char *pid);

#endif
