/* share.h: how a price, a budget and a share of the time in windows go together. Pure.
 *
 * A price is the time that comes on top of what a program needs: 0.25 is 12.5 s where it would take
 * 10 s. A share is a part of the time that it then takes: of those 12.5 s, 0.2 are the price.
 */
#ifndef TS_PRICE_SHARE_H
#define TS_PRICE_SHARE_H

/* Beyond it, watching all the time costs little more. */
#define SHARE_MAX 0.9

/* Which part of the time a price is. */
double share_of_price(double price);
/* The price of windows of that share of the time. `whole` is the price of all of it, `switches`
 * which part of a window is the price of its start and end. */
double share_price(double whole, double switches, double share);
/* The share that windows may have, at most SHARE_MAX. */
double share_within(double budget, double whole, double switches);

#endif
