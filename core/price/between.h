/* between.h: how many hot calls a process made while it was not watched, and how far that may be
 * off. Pure.
 *
 * Two things say it: the time that passed, and the cold calls that it made meanwhile, which are
 * always seen. A step of training makes as many launches for each wait however long it takes, and a
 * program that pauses makes none of either; others launch evenly and wait now and then. So each
 * window is first foretold from the window before it, in both ways, and each has the weight that it
 * deserved by that (a mean by inverse variances).
 *
 * The windows before and after a gap stand for a half of it each, so that a change in between goes
 * half unseen at most. Of a gap that is longer than the latest windows were together, the mean of
 * these tells as much. Until the second one comes, the last one and that mean stand for it. How far
 * the sum of a gap may be off follows from how far windows were foretold off, and from how far both
 * ways are apart in this gap: where they part, something has changed.
 */
#ifndef TS_PRICE_BETWEEN_H
#define TS_PRICE_BETWEEN_H

/* What was made in a time, or would have been without probes. */
struct sight {
	double hits, colds, ns;
};

/* All zero: nothing was seen. */
struct between {
	struct sight last;   /* window */
	struct sight latest; /* sums of the windows, the longer ago the less */
	/* Sums of the squares of how far windows were foretold off, and of the product of both, as
	 * rates; likewise. */
	double by_time2, by_colds2, by_both, foretold;
	/* The current gap: its length and cold calls so far, and the estimate reported for it, with
	 * the square of its error. */
	struct sight passed;
	double told, told2;
};

/* Hot calls. Guesses of one gap are parts: they add up to what is guessed of all of it, and so do
 * their errors, however often somebody asks. A part is less than 0 if those before it were too
 * much. */
struct guess {
	double hits, error2; /* error2: the square of how far they may be off, as one deviation */
	double before2;	     /* added to the error reported so far, makes it half of the gap's */
	double by_time;	     /* share of `hits` that is estimated by time */
};

/* It is watched all the time, and this is seen. */
void between_see(struct between *between, const struct sight *sight);
/* What passes from now on is another gap. */
void between_close(struct between *between);
/* Time without a window, since the last call. */
struct guess between_pass(struct between *between, const struct sight *passed);
/* A window starts. `passed`, since the last call, becomes what of it belongs to the window before,
 * by which it is guessed; zero: that was guessed before. */
struct guess between_halve(struct between *between, struct sight *passed);
/* The window ends, and saw this. `passed`: before it, since the last call. One that was cut off
 * soon is a part of the one before. */
struct guess between_end(struct between *between, const struct sight *passed,
			 const struct sight *window);

#endif
