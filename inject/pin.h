/* pin.h: keeps the library in the process while a thread of ours runs in it. */
#ifndef TS_PIN_H
#define TS_PIN_H

/* Before the thread is started, by who starts it. Negative errno: it must not be started. */
int pin_take(void);
/* Where it was not started after all. */
void pin_give(void);
/* From that thread: the pin goes when the thread has ended. Without this it stays for good. */
void pin_give_at_end(void);

#endif
