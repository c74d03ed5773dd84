/* Share: prices into parts of the time, and back. */
#include "core/price/share.h"

#include <math.h>

#define PART_MAX 0.99

double share_of_price(double price)
{
	return price / (1 + price);
}

double share_price(double whole, double switches, double share)
{
	double part = fmin((share_of_price(whole) + switches) * share, PART_MAX);

	return part / (1 - part);
}

double share_within(double budget, double whole, double switches)
{
	double part = share_of_price(whole) + switches;

	return part > 0 ? fmin(share_of_price(budget) / part, SHARE_MAX) : SHARE_MAX;
}
