/* pin.h: keeps the library in the process while one of our threads runs in it. */
#ifndef TS_PIN_H
#define TS_PIN_H

/* Before the thread is started, by its creator. Negative errno: do not start it. */
int pin_take(void);
/* If it was not started after all. */
void pin_give(void);
/* From that thread: the pin goes when the thread has ended. Without this call it stays for good. */
void pin_give_at_end(void);

#endif
